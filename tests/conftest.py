"""What several tests need: a course folder of one's own, and a way to run commands in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course_files import ROOT


@pytest.fixture
def course_folder(tmp_path):
    """A teacher's course folder: the committed notebooks and configuration, nothing graded yet."""
    folder = tmp_path / "course"
    folder.mkdir()
    for name in ("solutions", "notebooks"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    return folder


@pytest.fixture
def run(tmp_path):
    """Run a command of this environment; fails with its output unless it exits with `code`."""
    bin_folder = Path(sys.executable).parent
    env = os.environ | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COLUMNS": "200",
    }

    def run(*command, cwd=None, code=0):
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run
