"""The notebooks in a real JupyterLab, in a real browser, worked by mouse and by keyboard."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from grader import cli, exercises
from grader.course_files import ROOT
from utils.chapters import CHAPTERS

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None and "CI" not in os.environ, reason="no Chromium here; CI installs Debian's"
    ),
    pytest.mark.xdist_group("browser"),
]
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A my_work/ with the solved notebooks under the students' names."""
    folder = tmp_path_factory.mktemp("browser") / "my_work"
    for chapter in CHAPTERS:
        path = f"{chapter.name}/{chapter.name}.ipynb"
        (folder / path).parent.mkdir(parents=True)
        shutil.copy(ROOT / "solutions" / path, folder / path)
        shutil.copy(ROOT / "notebooks" / path, (folder / path).with_name("untouched.ipynb"))
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [
        *cli.lab_options(folder, CHAPTERS[0].name),
        "--no-browser",
        f"--ServerApp.port={port}",
    ]
    env = os.environ | {"HOME": str(folder.parent), "JUPYTER_TOKEN": "reader"}
    log = open(folder.parent / "lab.log", "w")  # noqa: SIM115
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options], stdout=log, stderr=log, env=env
    )
    base = f"http://127.0.0.1:{port}"
    try:
        _wait(lambda: urllib.request.urlopen(f"{base}/api?token=reader").status == 200, 60)
        yield base
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:  # a kernel that starts just then keeps it from ending
            server.kill()
            server.wait()


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "CI needs a Chromium: .ci/run installs Debian's"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    page = context.new_page()
    yield page
    dialogs = page.locator(".jp-Dialog").all_inner_texts()
    context.close()
    assert not dialogs, "JupyterLab asked something in the middle"


def _wait(condition, seconds):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except (OSError, ValueError):
            pass
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.5)


def open_notebook(page, address, file, name):
    """Open a notebook of the folder, and wait until it and its kernel are all there."""
    path = f"{file.parent.name}/{file.name}"
    page.goto(f"{address}/lab/tree/{path}?token=reader&reset", wait_until="domcontentloaded")
    page.get_by_role("heading", name=name).first.wait_for(timeout=60_000)
    # The circle by the kernel's name says "idle" before a kernel answers; this line does not.
    page.get_by_text("(ipykernel) | Idle").wait_for(timeout=60_000)
    # Cells are added as there is time for them. The one that the menu leads to takes the focus
    # once it is there, which may be long after the others have run.
    cells, count = page.locator(".jp-Notebook-cell"), len(json.loads(file.read_text())["cells"])
    _wait(lambda: cells.count() == count, 60)


def run_all(page, file):
    """Run every cell of a notebook without outputs, and save; the saved notebook."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt")

    def done():
        texts = prompts.all_inner_texts()
        return texts and all(re.fullmatch(r"\[\d+\]:", text.strip()) for text in texts)

    _wait(done, 90)
    page.get_by_text("(ipykernel) | Idle").wait_for(timeout=60_000)
    with page.expect_response(
        lambda r: r.request.method == "PUT" and r.url.partition("?")[0].endswith(file.name)
    ) as saved:
        page.keyboard.press("Control+s")
    assert saved.value.ok, saved.value.status_text
    return json.loads(file.read_text())


@pytest.fixture
def solved(page, address, folder):
    """Open a chapter's solved notebook and run all of it; the saved notebook."""

    def solve(chapter):
        path = f"{chapter.name}/{chapter.name}.ipynb"
        # Anew each time: the counts of an earlier run stand for a moment after the click, and
        # would say that this one has ended.
        shutil.copy(ROOT / "solutions" / path, folder / path)
        open_notebook(page, address, folder / path, f"Chapter {chapter.number}.")
        return run_all(page, folder / path)

    return solve


def figure(page):
    found = page.locator(".afp-figure").first
    found.wait_for(timeout=30_000)
    found.scroll_into_view_if_needed()
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{page.viewport_size['width']}-{time.time():.0f}.png")
    return found


def followed(summary):
    """What a figure's summary has said so far, and a call that waits for the next thing."""
    seen = [summary.inner_text()]

    def changed():
        _wait(lambda: summary.inner_text() != seen[-1], 30)
        seen.append(summary.inner_text())

    return seen, changed


def no_serious_findings(page):
    from axe_playwright_python.sync_playwright import Axe

    response = Axe().run(page, context=".afp-figure").response
    assert response["passes"], "nothing was looked at"
    serious = [v for v in response["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["help"]) for v in serious]


def test_the_first_page_is_chapter_1(page, address):
    page.goto(f"{address}/?token=reader", wait_until="domcontentloaded")
    page.get_by_role("heading", name=f"Chapter 1. {CHAPTERS[0].title}").wait_for(timeout=60_000)
    assert page.get_by_text("Create Assignment").count() == 0
    assert page.get_by_text("get notified").count() == 0


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.name)
def test_a_solved_chapter_runs_and_shows_its_cards(solved, chapter, page):
    cells = solved(chapter)["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    cards = ["".join(o["data"].get("text/html", "")) for o in outputs if "data" in o]
    for exercise in exercises.of_chapter(chapter.concept):
        assert any(f"<strong>✓ {exercise.id}</strong> passes" in card for card in cards)
    figure(page)


def test_a_failed_check_is_a_card_and_one_line(page, address, folder):
    open_notebook(page, address, folder / CHAPTERS[0].name / "untouched.ipynb", "Chapter 1.")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    card = page.locator(".jp-OutputArea-output", has_text="hard_lookup does not pass yet").first
    card.wait_for(timeout=60_000)
    error = page.locator(".jp-OutputArea-output", has_text="AssertionError").first
    assert error.text_content().strip() == (
        "AssertionError: hard_lookup: Not written yet: replace the line that raises."
    )


def test_the_plane_by_mouse_and_keyboard(solved, page):
    solved(CHAPTERS[0])
    plane = figure(page)
    summary, handle = plane.locator(".afp-summary"), plane.locator(".afp-handle")
    seen, changed = followed(summary)
    box = handle.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 90, box["y"] - 40, steps=5)
    page.mouse.up()
    changed()
    handle.focus()
    page.keyboard.press("Shift+ArrowRight")
    changed()
    page.keyboard.press("Home")
    changed()
    assert "All keys weigh the same, 0.20" in seen[-1]
    plane.get_by_role("button", name="Descend 10 steps").click()
    changed()
    assert "after 10 steps" in plane.inner_text()
    plane.get_by_role("slider", name="Temperature").focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    changed()
    plane.get_by_role("button", name="Reset").press("Enter")
    changed()
    assert seen[-1] == seen[0] and len(set(seen)) == 6
    no_serious_findings(page)


@pytest.mark.parametrize("width", [1300, 700])
def test_the_inspector_by_mouse_and_keyboard(solved, page, width):
    solved(CHAPTERS[1])
    page.set_viewport_size({"width": width, "height": 1000})
    inspector = figure(page)
    chosen = inspector.locator("[role=gridcell][aria-selected=true]")
    assert "“it” (7) reads “robot” (2): weight 0.629; raw score 1.90" in chosen.get_attribute(
        "aria-label"
    )
    facts = inspector.locator(".afp-facts")
    assert "0.629" in facts.inner_text() and "1.90" in facts.inner_text()
    chosen.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    _wait(lambda: "reads “patient”" in chosen.get_attribute("aria-label"), 30)
    _wait(lambda: "0.209" in facts.inner_text(), 30)
    page.keyboard.press("Control+Home")
    _wait(lambda: "“The” (1) reads “The” (1)" in chosen.get_attribute("aria-label"), 30)
    inspector.locator("[role=gridcell]").nth(6 * 9 + 1).click()
    _wait(lambda: "weight 0.629" in chosen.get_attribute("aria-label"), 30)
    inspector.get_by_role("switch").or_(inspector.get_by_role("checkbox")).first.press("Space")
    _wait(lambda: "weight 0.659" in chosen.get_attribute("aria-label"), 30)
    last = inspector.locator("[role=gridcell]").nth(6 * 9 + 8).get_attribute("aria-label")
    assert "may not read" in last
    no_serious_findings(page)


@pytest.mark.parametrize("width", [1300, 700])
def test_the_width_by_keyboard(solved, page, width):
    solved(CHAPTERS[2])
    page.set_viewport_size({"width": width, "height": 1000})
    scaling = figure(page)
    summary, slider = scaling.locator(".afp-summary"), scaling.get_by_role("slider")
    seen, changed = followed(summary)
    slider.focus()
    page.keyboard.press("End")
    changed()
    assert "2048" in seen[-1]
    scaling.get_by_role("switch").or_(scaling.get_by_role("checkbox")).first.press("Space")
    changed()
    page.keyboard.press("Tab")
    slider.focus()
    page.keyboard.press("Home")
    changed()
    assert len(set(seen)) == 4
    figure(page)
    no_serious_findings(page)


@pytest.mark.parametrize("width", [1300, 700])
def test_the_composer_by_mouse_and_keyboard(solved, page, width):
    solved(CHAPTERS[3])
    page.set_viewport_size({"width": width, "height": 1100})
    composer = figure(page)
    chosen = composer.locator("[role=gridcell][aria-selected=true]")
    summary = composer.locator(".afp-summary")

    def switch(name):
        composer.get_by_role("switch", name=name).press("Space")

    def label_has(words):
        _wait(lambda: words in chosen.get_attribute("aria-label"), 30)

    label_has("causal: the key comes later; padding: the key is padding; segment: the key is")
    for name in ("Causal", "Padding", "Segment"):
        switch(name)
    label_has("“well” (6) reads “pad” (7): weight")
    assert composer.get_by_text("No row is left empty.").count()
    switch("Segment")
    _wait(lambda: composer.get_by_text("empty", exact=True).count() == 2, 30)
    chosen.focus()
    page.keyboard.press("Control+Home")
    label_has("“Rain” (1) reads “Rain” (1)")
    page.keyboard.press("ArrowRight")
    label_has("“Rain” (1) reads “fell” (2)")
    switch("Causal")
    label_has("causal: the key comes later")
    switch("Window")
    composer.get_by_role("slider").focus()
    page.keyboard.press("Home")
    composer.locator("[role=gridcell][aria-label*='“fell” (2), key “Rain” (1)']").click()
    label_has("window: the key is 1 place back")
    switch("Mask after softmax")
    _wait(lambda: "Mask after softmax" in summary.inner_text(), 30)
    _wait(lambda: "is lost" in summary.inner_text(), 30)
    switch("T ≠ S")
    _wait(lambda: "5 queries, 8 keys" in summary.inner_text(), 30)
    figure(page)
    no_serious_findings(page)


def test_links_lead_from_chapter_to_chapter(page, address, folder):
    one, two = CHAPTERS[:2]
    open_notebook(page, address, folder / two.name / f"{two.name}.ipynb", "Chapter 2.")
    page.get_by_role("link", name="Chapter 1", exact=True).first.click()
    page.get_by_role("heading", name=f"Chapter 1. {one.title}").wait_for(timeout=60_000)
