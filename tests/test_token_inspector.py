"""The figure of chapter 2: its numbers, its manners, and its static stand-in."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from utils import palette
from utils.data import ROBOT_W_K, ROBOT_W_Q, ROBOT_WORDS, ROBOT_X
from utils.reference.dictionary_lookup import softmax
from utils.widgets import STATIC, token_inspector
from utils.widgets.figure import STATIC as FILES
from utils.widgets.figure import module
from utils.widgets.token_inspector import AXES, CAPTIONS, TokenInspector
from utils.widgets.token_inspector_static import D_K, static_svg

SCORES = (ROBOT_X @ ROBOT_W_Q) @ (ROBOT_X @ ROBOT_W_K).T / 2
IT, ROBOT = ROBOT_WORDS.index("it"), ROBOT_WORDS.index("robot")
CELLS = [(i, j) for i in range(9) for j in range(9)]
SVG = "{http://www.w3.org/2000/svg}"


def wanted(causal):
    """The weights, one row at a time: a causal row is a softmax over its first tokens."""
    if not causal:
        return softmax(SCORES)
    rows = [softmax(SCORES[i, : i + 1]) for i in range(9)]
    return np.array([np.pad(row, (0, 9 - len(row))) for row in rows])


def from_browser(figure, **state):
    """A change as it comes from the front end."""
    figure._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})


@pytest.mark.parametrize("causal", [False, True])
def test_every_cell_says_what_the_reference_says(causal):
    figure = token_inspector(causal=causal)
    weights = wanted(causal)
    np.testing.assert_allclose(figure.table["weights"], weights, atol=1e-12)
    exponentials = np.exp(SCORES) * (weights > 0)
    for i, j in CELLS:
        from_browser(figure, row=i, column=j)
        assert (figure.cell["row"], figure.cell["column"]) == (i, j)
        assert float(figure.cell["score"]) == pytest.approx(SCORES[i, j], abs=0.0051)
        assert float(figure.cell["weight"]) == pytest.approx(weights[i, j], abs=0.00051)
        results = [float(line.split("= ")[-1]) for line in figure.cell["steps"]]
        e = exponentials[i, j]
        assert results == pytest.approx(
            [2 * SCORES[i, j], SCORES[i, j], e, weights[i, j]], abs=6e-3
        )
        assert f"/ {exponentials[i].sum():.2f} =" in figure.cell["steps"][3]
        assert figure.cell["weight"] in figure.summary
        assert figure.cell["score"] in figure.table["labels"][i][j]


def test_it_reads_robot():
    figure = token_inspector()
    assert (figure.row, figure.column) == (IT, ROBOT)
    assert (figure.cell["score"], figure.cell["weight"]) == ("1.90", "0.629")
    assert figure.cell["steps"] == [
        "q·k = 1.60 + 2.20 + 0.00 + 0.00 = 3.80",
        "3.80 / 2 = 1.90",
        "exp(1.90) = 6.69",
        "6.69 / 10.64 = 0.629",
    ]


def test_the_score_that_is_called_raw_is_divided():
    assert D_K == len(AXES) == 4
    assert "Raw score (QKᵀ / √d" in module("token_inspector.js")
    assert "Raw score QKᵀ / √d_k" in STATIC["token_inspector"]()[2]


def test_the_vectors_are_those_of_the_data():
    for i, j in CELLS:
        query, key, product = token_inspector(i, j).cell["vectors"]
        q, k = (ROBOT_X @ ROBOT_W_Q)[i], (ROBOT_X @ ROBOT_W_K)[j]
        assert [float(x) for x in query[1:]] == pytest.approx(q.tolist())
        assert [float(x) for x in key[1:]] == pytest.approx(k.tolist())
        assert [float(x) for x in product[1:]] == pytest.approx((q * k).tolist())


@pytest.mark.parametrize("causal", [False, True])
def test_a_row_is_a_budget_of_1(causal):
    for row in range(9):
        cell = token_inspector(row, causal=causal).cell
        assert cell["total"] == "1.00"
        # What is shown adds up to what is shown.
        assert f"{sum(map(float, cell['budget'])):.2f}" == "1.00"


def test_the_causal_switch_leaves_it_seven_tokens():
    figure = token_inspector()
    from_browser(figure, causal=True)
    weights = np.array(figure.table["weights"])
    np.testing.assert_array_equal(weights > 0, np.tri(9, dtype=bool))
    np.testing.assert_array_equal(figure.table["forbidden"], ~np.tri(9, dtype=bool))
    assert np.count_nonzero(weights[IT]) == 7
    assert "may read 7 of 9 tokens" in figure.summary
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights[IT, :7], wanted(False)[IT, :7] / wanted(False)[IT, :7].sum())
    from_browser(figure, causal=False, column=8)
    assert "masked" not in figure.summary
    from_browser(figure, causal=True)
    assert figure.cell["weight"] == "0.000"
    assert "masked" in figure.summary
    assert "may not read" in figure.table["labels"][IT][8]


@pytest.mark.parametrize("value", [None, float("nan"), "it", [], [1, 2], {}])
def test_a_place_that_is_no_number_is_ignored(value):
    figure = token_inspector(3, 4)
    from_browser(figure, row=value, column=value)
    assert (figure.row, figure.column) == (3, 4)


@pytest.mark.parametrize("value", [None, 1, 0.5, "yes", [], {}])
def test_a_switch_that_is_no_switch_is_ignored(value):
    figure = token_inspector(causal=True)
    from_browser(figure, causal=value)
    assert figure.causal is True


def test_a_place_outside_the_map_is_clamped():
    figure = TokenInspector(-1, 99)
    assert (figure.row, figure.column) == (0, 8)
    from_browser(figure, row=9, column=-40.5)
    assert (figure.row, figure.column) == (8, 0)
    assert (figure.cell["row"], figure.cell["column"]) == (8, 0)
    from_browser(figure, row=2.7)
    assert figure.row == 2
    assert type(figure.row) is int


def test_captions_claim_no_more_than_is_so():
    words = " ".join(CAPTIONS.values())
    assert len(CAPTIONS) == 2
    for claim in ("designed by hand, not learned", "ambiguous", "the robot or the patient"):
        assert claim in words
    assert "one internal quantity, and not an explanation" in words


@pytest.mark.parametrize("causal", [False, True])
def test_mimebundle_has_the_widget_and_its_stand_ins(causal):
    figure = token_inspector(4, 2, causal)
    data, _metadata = figure._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == figure.model_id
    assert data["text/plain"] == figure.summary
    html = ElementTree.fromstring(f"<div>{data['text/html']}</div>")
    raw, weights = (
        [[cell.text for cell in row.iter("td")] for row in table.iterfind("tbody/tr")]
        for table in html.iter("table")
    )
    for i, j in CELLS:
        assert float(raw[i][j]) == pytest.approx(SCORES[i, j], abs=0.0051)
        masked = causal and j > i
        assert weights[i][j] == ("0 (masked)" if masked else f"{wanted(causal)[i, j]:.3f}")
    words = "".join(html.find("figure/figcaption").itertext())
    assert figure.summary in words
    assert all(caption in words for caption in CAPTIONS.values())


@pytest.mark.parametrize("causal", [False, True])
def test_static_svg_carries_the_numbers(causal):
    svg = static_svg(causal=causal)
    assert svg == static_svg(causal=causal)
    root = ElementTree.fromstring(svg)
    words = [node.text for node in root.iter(f"{SVG}text")]
    numbers = [word for word in words if re.fullmatch(r"\d\.\d\d", word)]
    weights = wanted(causal)
    assert numbers == [f"{w:.2f}" for w in weights.ravel() if w > 0]
    assert all(words.count(word) == 2 for word in ROBOT_WORDS)
    description = root.find(f"{SVG}desc").text
    assert all(f"{w:.3f}" in description for w in weights[IT])
    shades = [r.get("fill-opacity") for r in root.iter(f"{SVG}rect") if r.get("fill-opacity")]
    assert [float(s) for s in shades] == pytest.approx(0.8 * weights[weights > 0], abs=0.001)
    crossed = sum(1 for _ in root.iter(f"{SVG}path"))
    assert crossed == (36 if causal else 0)


def test_static_svg_outlines_it_and_robot():
    root = ElementTree.fromstring(STATIC["token_inspector"]()[1])
    outline = [r for r in root.iter(f"{SVG}rect") if r.get("stroke-width") == "3"]
    squares = [r for r in root.iter(f"{SVG}rect") if r.get("fill-opacity")]
    place = [(r.get("x"), r.get("y")) for r in (*outline, squares[9 * IT + ROBOT])]
    assert place[0] == place[1]
    assert len(place) == 2


def test_static_gives_the_row_of_it():
    alt, svg, table = STATIC["token_inspector"]()
    assert (alt, svg, table) == STATIC["token_inspector"]()
    assert "1.90" in alt
    assert "0.629" in alt
    assert not set("[]|\n") & set(alt)  # it stands in a Markdown picture
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [row[0] for row in rows[2:]] == [*ROBOT_WORDS, "sum"]
    assert rows[2 + ROBOT] == ["robot", "3.80", "1.90", "6.69", "0.629", "0.659"]
    assert rows[-1][3:] == ["10.64", "1.000", "1.000"]
    masked = [row[0] for row in rows if row[-1] == "0 (masked)"]
    assert masked == ["was", "tired"]
    assert "-0.00" not in table


def test_joined_files_make_one_module():
    code = TokenInspector._esm
    names = re.findall(r"^(?:export )?(?:const|let|class|function) (\w+)", str(code), re.MULTILINE)
    assert "heatMap" in names
    assert len(names) == len(set(names))
    assert len(re.findall(r"^export default", str(code), re.MULTILINE)) == 1
    assert not re.search(r"^import ", str(code), re.MULTILINE)


def test_heat_map_knows_nothing_of_its_figure():
    code = (FILES / "heat_map.js").read_text()
    assert "model" not in code
    for name in ("robot", "causal", "weight", "token_"):
        assert name not in code.lower()
    for role in ("grid", "row", "gridcell", "columnheader", "rowheader"):
        assert f'"{role}"' in code


def test_colours_are_those_of_the_palette():
    css = (FILES / "figure.css").read_text()
    colours = {value.lower() for name, value in vars(palette).items() if name.isupper()}
    assert set(re.findall(r"#[0-9a-f]{6}\b", css)) <= colours
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", module("heat_map.js", "token_inspector.js"))
    assert set(re.findall(r'"(#\w{6})"', static_svg(causal=True))) <= {c.upper() for c in colours}
