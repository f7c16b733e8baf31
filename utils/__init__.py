"""What the notebooks of Attention from First Principles import."""

from importlib.metadata import PackageNotFoundError, version

from utils.chapters import find_chapter
from utils.errors import NotReady


def ready(name, edition=1):
    """Say whether this package fits the notebook `name`, of the given edition.

    Raises NotReady with what to do when it does not.
    """
    try:
        chapter = find_chapter(name)
    except LookupError as error:
        raise NotReady(f"{error} Update the course: git pull, then make lab.") from None
    if edition < chapter.edition:
        raise NotReady(
            f"This notebook is of edition {edition}, the package of edition {chapter.edition}. "
            "Move your notebook to another name and run make lab: it brings the new one."
        )
    if edition > chapter.edition:
        raise NotReady(
            f"This notebook is of edition {edition}, newer than the package "
            f"({chapter.edition}). Update the course: git pull, then make lab."
        )
    try:
        course = "attention-course " + version("attention-course")
    except PackageNotFoundError:
        course = "attention-course"
    print(f"Ready. Chapter {chapter.number}: {chapter.title} ({course}).")
