"""Where the links of pages lead, and which paths pages name."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.command_lines import SHELL
from tests.docs.pages import ROOT, Page

MADE_BY_THE_READER: Final = ("manifests/overlays/mine",)

_FOLDERS: Final = "manifests|extender_config|scheduler|tests|bench|docs|\\.ci|\\.github"
_PATH: Final = re.compile(
    rf"(?:{_FOLDERS})/[\w./*-]+|[A-Z][A-Za-z-]*\.(?:md|lock|toml)|(?:pyproject|zensical)\.toml|"
    r"requirements[\w-]*\.lock|Makefile|Dockerfile"
)
_EXTERNAL: Final = re.compile(r"[a-z][a-z+.-]*:")


def complaints(page: Page) -> Iterator[str]:
    """`page:line: target: what is wrong` of every link that leads nowhere, and of every path that does not exist."""
    for link in page.links:
        wrong = _wrong(page, link.text)
        if wrong:
            yield f"{page}:{link.line}: {link.text}: {wrong}"
    for line, path in _paths(page):
        if not path.startswith(MADE_BY_THE_READER) and not _exists(path):
            yield f"{page}:{line}: {path}: does not exist"


def _wrong(page: Page, target: str) -> str:
    if _EXTERNAL.match(target):
        return ""
    path, _, anchor = target.partition("#")
    there = (page.path.parent / path).resolve() if path else page.path
    if path and not there.exists():
        return "does not exist"
    if not there.is_relative_to(ROOT):
        return "is outside of the repository"
    if anchor and anchor not in (page.anchors if there == page.path else _anchors(there)):
        return f"no heading has the anchor {anchor}"
    return ""


@cache
def _anchors(path: Path) -> frozenset[str]:
    return frozenset(Page(path).anchors) if path.suffix == ".md" else frozenset()


def _paths(page: Page) -> Iterator[tuple[int, str]]:
    """Paths in backticks, and in commands: what `-k` and `-f` name, and where `cd` goes."""
    for piece in page.words:
        if _PATH.fullmatch(piece.text):
            yield piece.line, piece.text
    for block in page.blocks:
        if block.kind in SHELL:
            for offset, line in enumerate(block.text.splitlines()):
                for path in re.findall(rf"(?:\s|=)((?:{_FOLDERS})/[\w./-]+)", f" {line}"):
                    yield block.line + offset, path


def _exists(path: str) -> bool:
    return any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists()
