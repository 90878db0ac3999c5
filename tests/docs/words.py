"""The words that no text of the product uses, and where they are found.

The list holds words that name things as people ("nobody", "whoever"), words that do not read as American technical
English ("anew", "for ever"), and British spellings. `python -m tests.docs.words [PATH ...]` prints every find.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

PLACES: Final = (
    "scheduler",
    "manifests",
    "extender_config",
    "docs",
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
)
SUFFIXES: Final = frozenset({".py", ".md", ".yaml", ".json", ".js", ".html", ".css"})

_PEOPLE: Final = r"nobody|somebody|anybody|everybody|whoever|whomever|whom|he|him|his|himself|she|her|hers"
_UNIDIOMATIC: Final = (
    r"anew|for ever|foretold|foretells?|mend(?:s|ed|ing)?|so long|by turns|made again|makes? (?:it|them) again|"
    r"g(?:i|a)v(?:e|es|en|ing) way|e\.g\.|i\.e\.|whilst|amongst|afterwards|towards"
)
_BRITISH: Final = (
    r"colour\w*|honour\w*|favour\w*|behaviour\w*|neighbour\w*|centres?|grey|artefacts?|catalogues?|"
    r"cancelling|(?:un)?modelled|modelling|labelled|labelling|travelled|licence[sd]?|practise\w*|"
    r"(?:util|synchron|serial|deserial|normal|initial|recogn|organ|optim|minim|maxim|summar|prioriti?|random|"
    r"author|general|special|categor|visual|emphas|character|custom|final|stabil|local|central|penal|harmon|memor)is"
    r"(?:e|es|ed|ing|ation|ations|er|ers)"
)
FORBIDDEN: Final = re.compile(rf"(?<![\w.])(?:{_PEOPLE}|{_UNIDIOMATIC}|{_BRITISH})(?![\w(])", re.IGNORECASE)


def finds(path: Path) -> Iterator[str]:
    """`path:line: word` of every forbidden word in one file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for found in FORBIDDEN.finditer(line):
            yield f"{path}:{number}: {found[0]}"


def files(*places: Path) -> list[Path]:
    """Every text under these files and folders."""
    below = (own for place in places for own in ([place] if place.is_file() else sorted(place.rglob("*"))))
    return [own for own in below if own.suffix in SUFFIXES and own.is_file()]


if __name__ == "__main__":
    places = [Path(word) for word in sys.argv[1:]] or [ROOT / place for place in PLACES]
    for path in files(*places):
        print(*finds(path), sep="\n", end="\n" if any(finds(path)) else "")
