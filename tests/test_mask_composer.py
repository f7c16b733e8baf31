"""The figure of chapter 4: its numbers, its reasons, its manners, and its static stand-in."""

import itertools
import math
import re
from xml.etree import ElementTree

import pytest

from utils import palette
from utils.widgets import STATIC, mask_composer
from utils.widgets.mask_composer import MaskComposer
from utils.widgets.mask_composer_numbers import CAPTIONS, CONSTRAINTS, NAMES, SCORES
from utils.widgets.mask_composer_static import static_svg

SEGMENTS = [1, 1, 1, 2, 2, 2, 0, 0]
FLAGS = ("causal", "padding", "window", "segment", "short", "after")
SUBSETS = [
    dict(zip(FLAGS, on, strict=True)) for on in itertools.product([False, True], repeat=len(FLAGS))
]
SVG = "{http://www.w3.org/2000/svg}"


def forbidding(on, width, row, column):
    """The constraints that rule one cell out, decided one by one."""
    rules = {
        "causal": column > row,
        "padding": SEGMENTS[column] == 0,
        "window": not 0 <= row - column < width,
        "segment": SEGMENTS[row] == 0 or SEGMENTS[row] != SEGMENTS[column],
    }
    return [name for name in CONSTRAINTS if on[name] and rules[name]]


def wanted(on, width, row):
    """One row's weights in plain loops, and what masking after softmax loses."""
    e = [math.exp(score) for score in SCORES[row]]
    may = [not forbidding(on, width, row, j) for j in range(8)]
    kept = sum(x for x, ok in zip(e, may, strict=True) if ok)
    total = sum(e) if on["after"] else kept
    weights = [x / total if ok else 0 for x, ok in zip(e, may, strict=True)]
    return weights, 1 - kept / sum(e), not any(may)


def from_browser(figure, **state):
    """A change as it comes from the front end."""
    figure._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})


@pytest.mark.parametrize("width", [1, 3, 8])
def test_every_subset_of_the_switches(width):
    figure = mask_composer()
    for on in SUBSETS:
        from_browser(figure, **on, width=width)
        table, first = figure.table, 3 if on["short"] else 0
        assert (table["first"], len(table["weights"])) == (first, 8 - first)
        for i, row in enumerate(range(first, 8)):
            weights, lost, empty = wanted(on, width, row)
            assert table["weights"][i] == pytest.approx(weights, abs=1e-12)
            assert table["empty"][i] == empty
            total = sum(table["weights"][i])
            assert total == pytest.approx(1 - lost if on["after"] else 0 if empty else 1)
            assert float(table["sums"][i]) == pytest.approx(total, abs=0.0051)
            if on["after"]:
                assert float(table["lost"][i]) == pytest.approx(lost, abs=0.0051)
            else:
                assert table["lost"][i] == "–"
            assert (NAMES[row] in table["empties"]) == empty
            for j in range(8):
                found = forbidding(on, width, row, j)
                assert table["forbidden"][i][j] == bool(found)
                words = table["labels"][i][j]
                assert ("may not be read" in words) == bool(found)
                assert re.findall(r"(\w+): the|(\w+): both", words) == [
                    (name, "") if f"{name}: the" in words else ("", name) for name in found
                ]


def test_the_reasons_of_one_cell_in_words():
    figure = mask_composer(5, 6)
    assert (
        "causal: the key comes later; padding: the key is padding; segment: the key is padding, in no segment)"
        in figure.summary
    )
    assert figure.cell["verdict"] == "May not be read"
    says = {name: says for name, says, _why in figure.cell["constraints"]}
    assert says == {
        "causal": "forbids",
        "padding": "forbids",
        "window": "off",
        "segment": "forbids",
    }
    from_browser(figure, row=4, column=3)
    assert figure.cell["verdict"] == "May be read"
    assert "weights sum to 1.00" in figure.cell["total"]


def test_the_constraints_that_are_off_say_nothing():
    figure = mask_composer(5, 6, causal=False, padding=False, segment=False)
    assert "May be read" in figure.cell["verdict"]
    assert {says for _name, says, _why in figure.cell["constraints"]} == {"off"}
    assert "no constraint" in figure.summary


def test_an_empty_row_is_said_to_be_empty():
    figure = mask_composer(7, 0)
    assert "the row is empty, and its weights are 0" in figure.cell["total"]
    assert "Left with no key: “pad” (7), “pad” (8)." in figure.summary
    from_browser(figure, segment=False)
    assert "No row is left empty." in figure.summary


def test_masked_after_softmax_a_row_loses_weight():
    figure = mask_composer(3, 3, after=True)
    weights, lost, _ = wanted(
        {**SUBSETS[0], "causal": True, "segment": True, "padding": True, "after": True}, 3, 3
    )
    assert figure.cell["budget"] == pytest.approx([*weights, lost])
    assert f"{lost:.2f} is lost" in figure.cell["total"]


def test_fewer_queries_are_the_last_tokens():
    figure = mask_composer(0, 0)
    from_browser(figure, short=True)
    assert figure.row == 3
    assert figure.cell["title"].startswith("Query “Cats” (4)")
    from_browser(figure, row=1)
    assert figure.row == 3
    assert figure.table["size"] == "T = 5 queries, S = 8 keys"


@pytest.mark.parametrize("value", [None, float("nan"), "it", [], [1, 2], {}])
def test_a_number_that_is_none_is_ignored(value):
    figure = mask_composer(3, 4, width=2)
    from_browser(figure, row=value, column=value, width=value)
    assert (figure.row, figure.column, figure.width) == (3, 4, 2)


@pytest.mark.parametrize("value", [None, 1, 0.5, "yes", [], {}])
def test_a_switch_that_is_no_switch_is_ignored(value):
    figure = mask_composer()
    before = {name: getattr(figure, name) for name in FLAGS}
    from_browser(figure, **dict.fromkeys(FLAGS, value))
    assert {name: getattr(figure, name) for name in FLAGS} == before


def test_a_place_outside_the_map_is_clamped():
    figure = mask_composer(-1, 99, width=0)
    assert (figure.row, figure.column, figure.width) == (0, 7, 1)
    from_browser(figure, width=100)
    assert figure.width == 8


@pytest.mark.parametrize("on", SUBSETS[::5])
def test_mimebundle_has_the_widget_and_its_stand_ins(on):
    figure = mask_composer(6, 2, **on)
    data, _metadata = figure._repr_mimebundle_()
    assert data["text/plain"] == figure.summary
    html = ElementTree.fromstring(f"<div>{data['text/html']}</div>")
    rows = [[cell.text for cell in row] for row in html.iterfind("table/tbody/tr")]
    first = figure.table["first"]
    for i, (name, *cells) in enumerate(rows):
        row = first + i
        assert name == NAMES[row] + (", empty" if figure.table["empty"][i] else "")
        weights, _lost, _empty = wanted(on, 3, row)
        for j in range(8):
            found = forbidding(on, 3, row, j)
            assert cells[j] == (f"0 ({', '.join(found)})" if found else f"{weights[j]:.3f}")
        assert cells[8:] == [figure.table["sums"][i], figure.table["lost"][i]]
    words = "".join(html.find("figure/figcaption").itertext())
    assert figure.summary in words
    assert all(caption in words for caption in CAPTIONS.values())


def test_static_has_its_text_picture_and_table():
    alt, svg, table = STATIC["mask_composer"]()
    assert (alt, svg, table) == STATIC["mask_composer"]()
    assert not set("[]|\n") & set(alt)  # it stands in a Markdown picture
    assert mask_composer().summary in alt
    root = ElementTree.fromstring(svg)
    words = [node.text for node in root.iter(f"{SVG}text")]
    assert words.count("empty") == 2
    crossed = sum(1 for _ in root.iter(f"{SVG}path"))
    assert crossed == sum(map(sum, mask_composer().table["forbidden"]))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [row[0] for row in rows[2:]] == NAMES
    assert {len(row) for row in rows} == {9}
    assert rows[-1][5:] == ["0 (empty)", "0.00", "0.00", "1.00"]


def test_joined_files_make_one_module():
    code = str(MaskComposer._esm)
    names = re.findall(r"^(?:export )?(?:const|let|class|function) (\w+)", code, re.MULTILINE)
    assert len(names) == len(set(names))
    assert len(re.findall(r"^export default", code, re.MULTILINE)) == 1


def test_colours_are_those_of_the_palette():
    colours = {value for name, value in vars(palette).items() if name.isupper()}
    assert set(re.findall(r'"(#\w{6})"', static_svg())) <= colours
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", str(MaskComposer._esm))
