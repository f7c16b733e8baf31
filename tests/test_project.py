"""What holds of the project as a whole."""

import ast
import re
import subprocess
import sys
import tomllib
from itertools import chain

import pytest

import utils
from grader.course_files import ROOT
from grader.safe_html import clean
from utils.errors import NotReady

TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
).stdout.split("\n")[:-1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(lines):
    """{name: bounds} of requirement lines, with conda's name for torch turned back."""
    pairs = [re.fullmatch(r"([A-Za-z0-9-]+)(.*)", line.strip()) for line in lines]
    return {p[1].replace("pytorch", "torch"): p[2] for p in pairs}


def direct_requirements():
    """Lines of the project and of every extra, without those in which an extra takes in others."""
    project = PYPROJECT["project"]
    lines = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    return [line for line in lines if not line.startswith(f"{project['name']}[")]


def test_conda_and_pip_agree():
    wanted = requirements(direct_requirements())
    text = (ROOT / "environment.yml").read_text()
    listed = requirements(re.findall(r"^ +- ([a-z0-9-]+[<>=].*)$", text, re.MULTILINE))
    assert listed.pop("python") == PYPROJECT["project"]["requires-python"]
    assert listed == wanted


def test_every_dependency_is_pinned_within_its_bounds():
    pins = dict(
        re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    )
    from packaging.requirements import Requirement

    for line in direct_requirements():
        requirement = Requirement(line)
        assert pins[requirement.name] in requirement.specifier, line
    assert pins["torch"] == "2.13.0"


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


def test_imports_go_one_way():
    """notebooks -> utils; grader -> utils; utils reaches the judge by one lazy import in check."""
    doors = []
    for path in (ROOT / "utils").rglob("*.py"):
        doors += [(path.name, name) for name, _ in imports(path) if name.split(".")[0] == "grader"]
    assert doors == [("check.py", "grader.judge")]
    for path in [*(ROOT / "utils").rglob("*.py"), *(ROOT / "grader").rglob("*.py")]:
        assert not any(
            n.split(".")[0] in ("solutions", "notebooks", "tests") for n, _ in imports(path)
        )
    for path in (ROOT / "solutions").glob("*.py"):
        roots = {name.split(".")[0] for name, _ in imports(path)}
        assert roots <= {"utils", "numpy", "torch", "math"}, path


def test_the_references_need_nothing_but_numpy_and_torch():
    for path in (ROOT / "utils" / "reference").glob("*.py"):
        roots = {name.split(".")[0] for name, _ in imports(path)}
        assert roots <= {"numpy", "torch", "math", "utils"}
    code = "import sys; import utils.reference.dictionary_lookup; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not any(
        f"'{name}'" in loaded for name in ("IPython", "matplotlib", "anywidget", "grader")
    )


def test_no_module_is_the_work_of_a_heap():
    for name in TRACKED:
        path = ROOT / name
        assert path.stat().st_size < 1_000_000, f"{name} is larger than 1 MB"
        if (
            name.endswith(".py")
            and name.startswith(("utils/", "grader/"))
            and "exercises" not in name
        ):
            assert path.read_text().count("\n") < 400, name


def test_nothing_of_the_machine_is_in_the_project():
    for name in TRACKED:
        if name.endswith(
            (".py", ".md", ".txt", ".toml", ".yml", ".ipynb", ".json", "Makefile", "run")
        ):
            text = (ROOT / name).read_text()
            found = re.search(r"/(?:root|work|home/\w+)/\w+", text)
            assert not found, f"{name}: {found and found[0]}"
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def test_the_top_level_is_small():
    visible = {name.split("/")[0] for name in TRACKED if not name.startswith(".")}
    assert {"README.md", "environment.yml", "notebooks", "solutions", "grader", "utils"} <= visible
    assert len(visible) <= 16, sorted(visible)


def test_ready_says_whether_package_and_notebook_fit(capsys):
    utils.ready("01_dictionary_lookup")
    assert capsys.readouterr().out.startswith("Ready. Chapter 1: ")
    for name, edition, words in (
        ("01_dictionary_lookup", 0, "make lab"),
        ("01_dictionary_lookup", 99, "git pull"),
        ("10_afterword", 1, "git pull"),
    ):
        with pytest.raises(NotReady, match=words) as caught:
            utils.ready(name, edition)
        assert caught.value._render_traceback_()[0].startswith("RuntimeError: ")


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        ("<p>x <b>y</b></p>", "<p>x <b>y</b></p>"),
        ("<script>alert(1)</script>z", "z"),
        ('<img src="x" onerror="alert(1)">', "<img>"),
        ('<img src="https://example.org/spy.png">', "<img>"),
        ('<img src="data:text/html;base64,AAAA">', "<img>"),
        ('<a href="javascript:alert(1)">a</a>', "<a"),
        ('<a href="data:text/html,x">a</a>', "<a rel"),
        ("<svg onload=alert(1)><b>c</b></svg>", "<b>c</b>"),
        ('<iframe src="x"></iframe>', ""),
        ('<div style="position: fixed; color: red">d</div>', "color:"),
        ("<details><summary>h</summary>i</details>", "<details><summary>h</summary>i</details>"),
        (b"$a < b$", "$a &lt; b$"),
    ],
)
def test_html_is_made_safe(html, wanted):
    cleaned = clean(html)
    assert wanted in cleaned
    assert not re.search(r"script|onerror|onload|javascript|position|https?:|data:text", cleaned)


def test_pictures_that_come_with_the_page_stay():
    picture = '<img src="data:image/png;base64,iVBORw0KGgo=">'
    assert clean(picture) == picture
