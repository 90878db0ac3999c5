"""The marks and colors of gangs in a terminal. Every cell carries its gang's letter or number as well, so that nothing
is lost without colors.
"""

from collections.abc import Iterable, Mapping

from rich.style import Style
from rich.text import Text

FREE = "·"

INKS = (
    "black on #8ecae6", "black on #ffb703", "black on #90be6d", "black on #f28482", "black on #cdb4db",
    "black on #f9c74f", "black on #43aa8b", "black on #f8961e", "white on #577590", "black on #b5e48c",
    "white on #9d4edd", "black on #ffafcc", "white on #386641", "black on #bde0fe", "white on #bc4749",
)  # fmt: skip
"""Told apart side by side; reused after so many gangs."""


class Palette:
    """The mark and the ink of every gang, given out in order of asking."""

    def __init__(self, gangs: Iterable[str], marks: Mapping[str, str] | None = None) -> None:
        self._inks = {gang: INKS[number % len(INKS)] for number, gang in enumerate(gangs)}
        self._marks = marks or {}

    def mark(self, gang: str) -> str:
        return self._marks.get(gang, gang[:1].upper())

    def cell(self, gang: str | None, width: int = 1, *, surplus: bool = False) -> Text:
        """A free cell for None; what is above a quorum has a small letter."""
        if gang is None:
            return Text(FREE.center(width), style="dim")
        mark = self.mark(gang).lower() if surplus else self.mark(gang)
        return Text(mark.center(width), style=self._inks[gang])

    def faint(self, gang: str, mark: str) -> Text:
        """Another mark, in the gang's color: it has the place, and does not use it yet."""
        return Text(mark, style=Style(color=Style.parse(self._inks[gang]).bgcolor))

    def stretch(self, gang: str, width: int) -> Text:
        """The mark, and a line to the end of its time."""
        return Text(self.mark(gang).ljust(width, "╌")[:width], style=self._inks[gang])

    def name(self, gang: str) -> Text:
        return Text.assemble(self.cell(gang, 3), f" {gang}")
