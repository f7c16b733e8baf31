"""The figure of chapter 1: its numbers, its manners, and its static stand-in."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from utils import palette
from utils.reference.dictionary_lookup import softmax
from utils.widgets import figure, soft_lookup_plane
from utils.widgets import soft_lookup_static as standing
from utils.widgets.soft_lookup import SoftLookupPlane
from utils.widgets.soft_lookup_static import (
    HULL,
    KEYS,
    LIMIT,
    TARGET,
    VALUES,
    static_svg,
    static_table,
)

STATES = [((1.0, 0.5), 1.0), ((0, 0), 0.5), ((-2, 1.5), 0.1), ((3, -3), 5.0), ((0.3, 2.2), 2.5)]


def inside_hull(point):
    """Left of every edge of the hull, or of none: it is convex and goes one way round."""
    edges = np.roll(HULL, -1, axis=0) - HULL
    (ex, ey), (px, py) = edges.T, (np.asarray(point) - HULL).T
    side = ex * py - ey * px
    return (side >= -1e-12).all() or (side <= 1e-12).all()


def from_browser(plane, **state):
    """A change as it comes from the front end."""
    plane._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})


def press(plane, button):
    content = {"method": "custom", "content": {"press": button}}
    plane._handle_msg({"content": {"data": content}, "buffers": []})


@pytest.mark.parametrize(("query", "temperature"), STATES)
def test_numbers_are_those_of_the_reference(query, temperature):
    plane = soft_lookup_plane()
    from_browser(plane, query=list(query), temperature=temperature)
    weights = softmax(np.array(query) @ KEYS.T / temperature)
    np.testing.assert_allclose(plane.scores, KEYS @ query)
    np.testing.assert_allclose(plane.weights, weights)
    np.testing.assert_allclose(plane.out, weights @ VALUES)
    assert plane.loss == pytest.approx(0.5 * np.sum((weights @ VALUES - TARGET) ** 2))
    assert "ABCDE"[int(np.argmax(weights))] in plane.summary or np.ptp(weights) < 1e-9
    assert inside_hull(plane.out)


def test_hull_is_convex_and_holds_the_values_and_the_target():
    assert all(inside_hull(value) for value in VALUES)
    assert inside_hull(TARGET)
    assert not inside_hull((2.9, 2.9))


@pytest.mark.parametrize("temperature", [0.1, 0.3, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("query", [(1, 0.5), (0, 0), (2, -2), (-2, 1), (3, 3)])
def test_no_step_of_the_descent_raises_the_loss(query, temperature):
    plane = SoftLookupPlane(query, temperature)
    losses = [plane.loss]
    for _ in range(60):
        plane.descend(1)
        losses.append(plane.loss)
    assert (np.diff(losses) <= 1e-12).all()
    saturated = max(plane.weights) > 0.999  # a hard look-up has no gradient to follow
    assert losses[-1] < losses[0] or saturated
    assert np.abs(plane.query).max() <= LIMIT


@pytest.mark.parametrize("query", [(1, 0.5), (0, 0), (-1, -1), (-2, 1), (2, -2)])
def test_descent_reaches_the_target_at_temperature_1(query):
    plane = SoftLookupPlane(query, 1.0)
    for _ in range(12):
        press(plane, "descend")
    assert plane.loss < 1e-3
    assert plane.steps == 12 * standing.STEPS


def test_reset():
    plane = SoftLookupPlane((-1, 2), 3.0)
    press(plane, "descend")
    press(plane, "reset")
    fresh = soft_lookup_plane()
    for name in ("query", "temperature", "steps", "weights", "loss", "summary"):
        assert getattr(plane, name) == getattr(fresh, name)


@pytest.mark.parametrize(
    "query", [[None, 1], [float("nan"), 0], [float("inf"), 0], [1], [1, 2, 3], "ab", None, {}]
)
def test_a_query_that_is_no_point_is_ignored(query):
    plane = soft_lookup_plane()
    from_browser(plane, query=query)
    assert plane.query == list(standing.QUERY)


@pytest.mark.parametrize("temperature", [None, float("nan"), [1.0], "warm", {}])
def test_a_temperature_that_is_no_number_is_ignored(temperature):
    plane = soft_lookup_plane()
    from_browser(plane, temperature=temperature)
    assert plane.temperature == standing.TEMPERATURE


def test_what_is_out_of_range_is_clamped():
    plane = SoftLookupPlane([9, -9], temperature=-1)
    assert (plane.query, plane.temperature) == ([LIMIT, -LIMIT], standing.COLDEST)
    from_browser(plane, query=[-40, 0.25], temperature=1e9)
    assert (plane.query, plane.temperature) == ([-LIMIT, 0.25], standing.HOTTEST)
    assert np.isfinite(plane.weights).all()


@pytest.mark.parametrize("content", [None, "descend", {"press": "other"}, {"press": ["x"]}, []])
def test_an_unknown_message_does_nothing(content):
    plane = soft_lookup_plane()
    plane._on_button(plane, content, [])
    assert plane.steps == 0


def test_mimebundle_has_the_widget_and_its_stand_ins():
    plane = soft_lookup_plane()
    data, _metadata = plane._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == plane.model_id
    assert data["text/plain"] == plane.summary
    html = ElementTree.fromstring(f"<div>{data['text/html']}</div>")
    cells = [cell.text for cell in html.iter("td")]
    assert all(f"{weight:.3f}" in cells for weight in plane.weights)
    assert plane.summary in html.find("figure/figcaption").text


@pytest.mark.parametrize(("query", "temperature"), STATES)
def test_static_svg_carries_the_numbers(query, temperature):
    svg = static_svg(query, temperature)
    assert svg == static_svg(query, temperature)
    root = ElementTree.fromstring(svg)
    plane = SoftLookupPlane(query, temperature)
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    description = root.find("{http://www.w3.org/2000/svg}desc").text
    for weight in plane.weights:
        assert f"{weight:.3f}" in words
        assert f"{weight:.3f}" in description
    assert plane.summary in description
    assert "-0.00" not in svg
    assert "nan" not in svg


def test_static_table_carries_the_numbers():
    table = static_table({f"state {i}": state for i, state in enumerate(STATES)})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert rows[0] == ["State", "Query", "Temperature", *"ABCDE", "Output", "Loss"]
    for i, (query, temperature) in enumerate(STATES):
        plane = SoftLookupPlane(query, temperature)
        name, _query, _temperature, *weights, _out, loss = rows[2 + i]
        assert name == f"state {i}"
        assert weights == [f"{weight:.3f}" for weight in plane.weights]
        assert float(loss) == pytest.approx(plane.loss, abs=5.1e-5)


def test_style_sheet_uses_the_palette():
    css = (figure.STATIC / "figure.css").read_text()
    colours = {value.lower() for name, value in vars(palette).items() if name.isupper()}
    assert set(re.findall(r"#[0-9a-f]{6}\b", css)) <= colours


def test_the_import_is_light():
    code = (
        "import sys, utils.widgets; "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'matplotlib', 'grader') "
        "or m.startswith('utils.reference')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
