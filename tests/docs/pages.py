"""The pages of the documentation and what is on them: headings, anchors, links, code and tables.

A page is read as GitHub reads it: CommonMark with tables. Never here: what is right about a page (`test_*`).
"""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
OTHERS: Final = (
    README,
    ROOT / "AGENTS.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "bench" / "README.md",
)

_READER: Final = MarkdownIt("commonmark").enable("table")
_HTML_LINK: Final = re.compile(r"""<(?:a|img|source)\s[^>]*?(?:href|src|srcset)=["']([^"']+)["']""")


class Heading(NamedTuple):
    """One heading: its level from 1, its text without markup, its anchor, and its line from 0."""

    level: int
    text: str
    anchor: str
    line: int


class Piece(NamedTuple):
    """A part of a page: the line on which it begins, from 1; what it is (a language, for a code block); its text."""

    line: int
    kind: str
    text: str


class Page:
    """One page, or a made-up text in the place of one."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8") if text is None else text

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def tokens(self) -> list[Token]:
        return _READER.parse(self.text)

    @cached_property
    def headings(self) -> list[Heading]:
        """Every heading, in order, with the anchor that GitHub gives it."""
        found: list[Heading] = []
        counts: dict[str, int] = {}
        for opening, inline in zip(self.tokens, self.tokens[1:], strict=False):
            if opening.type != "heading_open":
                continue
            text = _plain(inline)
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            number = counts.get(slug, 0)
            counts[slug] = number + 1
            found.append(
                Heading(
                    int(opening.tag[1]), text, f"{slug}-{number}" if number else slug, (opening.map or [0])[0]
                )
            )
        return found

    @cached_property
    def anchors(self) -> set[str]:
        named = re.findall(r"""<a (?:id|name)=["']([^"']+)["']""", self.text)
        return {heading.anchor for heading in self.headings} | set(named)

    @cached_property
    def links(self) -> list[Piece]:
        """The target of every link and image."""
        return list(self._links())

    def _links(self) -> Iterator[Piece]:
        for line, token in self._inline():
            if token.type in {"link_open", "image"}:
                yield Piece(line, token.type, str(token.attrs.get("href") or token.attrs.get("src") or ""))
            elif token.type == "html_inline":
                yield from (Piece(line, "html", target) for target in _HTML_LINK.findall(token.content))
        for token in self.tokens:
            if token.type == "html_block":
                yield from (
                    Piece(_line(token), "html", target) for target in _HTML_LINK.findall(token.content)
                )

    @cached_property
    def blocks(self) -> list[Piece]:
        """Every block of code, by the first word after its fence."""
        return [
            Piece(_line(token) + 1, next(iter(token.info.split()), ""), token.content)
            for token in self.tokens
            if token.type == "fence"
        ]

    @cached_property
    def words(self) -> list[Piece]:
        """All that is in backticks in running text and tables."""
        return [
            Piece(line, "code", token.content)
            for line, token in self._inline()
            if token.type == "code_inline"
        ]

    def _inline(self) -> Iterator[tuple[int, Token]]:
        for token in self.tokens:
            if token.type == "inline":
                yield from ((_line(token), own) for own in token.children or ())

    def section(self, heading: str) -> "Page":
        """What is below this heading (`## Name`), up to the next one of its level or above. Raises KeyError."""
        level, text = len(heading) - len(heading.lstrip("#")), heading.lstrip("# ")
        for number, own in enumerate(self.headings):
            if (own.level, own.text) == (level, text.replace("`", "")):
                ends = (after.line for after in self.headings[number + 1 :] if after.level <= level)
                lines = self.text.splitlines()[own.line + 1 : next(ends, None)]
                return Page(self.path, "\n".join(lines) + "\n")
        raise KeyError(f"{self}: no heading {heading!r}")

    def table(self, heading: str) -> list[list[str]]:
        """The rows of the first table under this heading, cell by cell as written, without its head."""
        lines = self.section(heading).text.splitlines()
        begin = next(number for number, line in enumerate(lines) if line.startswith("|"))
        rows = []
        for line in lines[begin + 2 :]:
            if not line.startswith("|"):
                break
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
        return rows


def _plain(inline: Token) -> str:
    return "".join(own.content for own in inline.children or () if own.type in {"text", "code_inline"})


def _line(token: Token) -> int:
    return (token.map or [0])[0] + 1


def in_backticks(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def page(name: str) -> Page:
    """The page at this path below the repository's root."""
    return Page(ROOT / name)


def pages() -> list[Page]:
    """Every page of the documentation."""
    return [Page(path) for path in (*OTHERS, *sorted(DOCS.rglob("*.md"))) if path.exists()]
