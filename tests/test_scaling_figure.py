"""The figure of chapter 3: its numbers, its manners, and its static stand-in."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from utils.reference.dictionary_lookup import softmax
from utils.widgets import STATIC, scaling_figure
from utils.widgets import scaling_static as standing

STATES = [(0, False), (0, True), (7, False), (7, True), (11, False), (11, True)]


def from_browser(figure, **state):
    """A change as it comes from the front end."""
    figure._handle_msg({"content": {"data": {"method": "update", "state": state}}, "buffers": []})


@pytest.mark.parametrize(("index", "scaled"), STATES)
def test_numbers_are_those_of_the_functions(index, scaled):
    figure = scaling_figure()
    from_browser(figure, index=index, scaled=scaled)
    state, width = figure.state, 2**index
    scores = standing._dots(index) / (np.sqrt(width) if scaled else 1)
    weights = softmax(scores)
    np.testing.assert_allclose(state["weights"], weights[0])
    assert state["width"] == width and state["std"] == pytest.approx(scores.std())
    entropy = -np.sum(weights * np.log(weights + 1e-300), axis=-1).mean()
    assert state["entropy"] == pytest.approx(entropy)
    assert state["sensitivity"] == pytest.approx(1 - (weights**2).sum(-1).mean())
    assert sum(state["shares"]) > 0.99, "hardly a score lies outside the axis"
    assert max(state["weights"]) <= state["ceiling"]
    assert f"Width {width}" in figure.summary
    assert all(number in figure.summary for _, number in state["facts"])


def test_the_scale_keeps_the_numbers_where_they_are():
    for index in range(12):
        assert standing.look(index, True)["sensitivity"] > 0.94
    raw = [standing.look(index, False)["sensitivity"] for index in range(12)]
    assert raw[7] == pytest.approx(0.21, abs=0.05) and raw[11] < 0.1
    assert standing.look(0, True)["weights"] == standing.look(0, False)["weights"]


@pytest.mark.parametrize("index", [None, float("nan"), [1], "wide", {}])
def test_a_width_that_is_no_number_is_ignored(index):
    figure = scaling_figure()
    from_browser(figure, index=index, scaled="yes")
    assert (figure.index, figure.scaled) == (standing.START, standing.SCALED)


def test_what_is_out_of_range_is_clamped():
    assert scaling_figure(99).state["width"] == 2048
    assert scaling_figure(-3).state["width"] == 1


@pytest.mark.parametrize(("index", "scaled"), STATES)
def test_the_static_figure_carries_the_numbers(index, scaled):
    figure = scaling_figure(index, scaled)
    svg = standing.static_svg(index, scaled)
    root = ElementTree.fromstring(svg)
    assert figure.summary in root.find("{http://www.w3.org/2000/svg}desc").text
    assert "nan" not in svg and "-0.00" not in svg
    data, _ = figure._repr_mimebundle_()
    assert data["text/plain"] == figure.summary
    cells = [c.text for c in ElementTree.fromstring(f"<div>{data['text/html']}</div>").iter("td")]
    assert cells == [number for _, number in figure.state["facts"]]


def test_the_chapters_stand_in():
    alt, svg, table = STATIC["scaling"]()
    assert "Width 128, not scaled" in alt and svg == standing.static_svg()
    assert len(re.findall(r"^\| \d+ \| (?:yes|no) ", table, re.MULTILINE)) == 24
