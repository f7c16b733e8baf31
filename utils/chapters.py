"""The chapters of the course, in order: the one list that names them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """`name` is the folder and notebook, `concept` the module, `minutes` the time planned.

    `edition` goes up when a notebook made before would no longer fit the package.
    """

    number: int
    concept: str
    title: str
    minutes: int
    edition: int = 1

    @property
    def name(self):
        return f"{self.number:02d}_{self.concept}"


CHAPTERS = (
    Chapter(1, "dictionary_lookup", "A dictionary that can learn", 120),
    Chapter(2, "qkv", "Three views of every token", 120),
    Chapter(3, "scaling", "Why the square root", 150),
    Chapter(4, "masking", "Who may read whom", 210),
)


def find_chapter(text):
    """The chapter meant by "1", "01", "dictionary_lookup" or "01_dictionary_lookup".

    Raises LookupError with the names that exist.
    """
    for chapter in CHAPTERS:
        number = text.isdecimal() and len(text) < 4 and int(text) == chapter.number
        if number or text in (chapter.name, chapter.concept):
            return chapter
    names = ", ".join(chapter.name for chapter in CHAPTERS)
    raise LookupError(f"There is no chapter {text!r}. There are: {names}.")
