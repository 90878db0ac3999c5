"""The site: `python -m tests.docs.site` builds docs/ into site/, and fails at the first warning.

docs/ is written for GitHub. The site's Markdown is another dialect, so its pages are copies: anchors of repeated headings
are written out, and a link that leaves docs/ becomes the path that it leads to. Both read a block in a list if it is
indented by four spaces.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.docs.pages import DOCS, ROOT, Page

CONFIGURATION: Final = ROOT / "zensical.toml"
WORK: Final = ROOT / "build" / "documentation"
SITE: Final = ROOT / "site"

ORDER: Final = (
    "README.md",
    *("get-started", "get-started/try-it.md", "get-started/install.md", "get-started/first-gang.md"),
    *("tasks", "tasks/run", "tasks/run/job.md", "tasks/manage"),
    *("concepts", "concepts/overview.md"),
    *("troubleshooting.md", "operations", "reference"),
)
"""What comes first in the menu, folders and pages alike; the rest follows by name."""

STYLE: Final = ".md-typeset table td:first-child code { white-space: nowrap; }\n"
"""Keys and options are not broken at the edge of their column."""

_COLOR: Final = re.compile(r"\x1b\[[\d;]*m")
_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


class SiteError(Exception):
    """The site has a page that links nowhere, or cannot be built at all."""


def build(work: Path, source: Path = DOCS) -> Path:
    """The folder with the site of these pages, inside of the folder to work in. Raises SiteError with what is wrong."""
    copy(work / "docs", source)
    (work / "docs" / "site.css").write_text(STYLE, encoding="utf-8")
    first, rest = CONFIGURATION.read_text(encoding="utf-8").split("\n\n", 1)
    own = f'{first}\nextra_css = ["site.css"]\nnav = {menu(source)}\n\n{rest}'
    (work / CONFIGURATION.name).write_text(own, encoding="utf-8")
    program = Path(sysconfig.get_path("scripts")) / "zensical"
    done = subprocess.run(
        [program, "build", "--strict", "--clean"], cwd=work, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SiteError(_COLOR.sub("", done.stderr + done.stdout).split("Traceback")[0])
    return work / "site"


def menu(source: Path, folder: str = "") -> str:
    """The pages and folders of a folder, in their order, as TOML."""

    def rank(name: str) -> tuple[int, str]:
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    below = [own for own in (source / folder).iterdir() if own.suffix == ".md" or any(own.rglob("*.md"))]
    names = sorted((str(own.relative_to(source)) for own in below), key=rank)
    return f"[{', '.join(_entry(source, name) for name in names)}]"


def _entry(source: Path, name: str) -> str:
    if name.endswith(".md"):
        return f'"{name}"'
    title = Path(name).name.replace("-", " ").capitalize()
    return f'{{"{title}" = {menu(source, name)}}}'


def copy(place: Path, source: Path = DOCS) -> None:
    """docs/ in the site's dialect."""
    shutil.rmtree(place, ignore_errors=True)
    for path in sorted(own for own in source.rglob("*") if own.is_file()):
        there = place / path.relative_to(source)
        there.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            there.write_text(dialect(Page(path), source), encoding="utf-8")
        else:
            shutil.copy(path, there)


def dialect(page: Page, docs: Path = DOCS) -> str:
    """The text of a page as the site reads it."""
    lines = page.text.splitlines()
    fenced = {
        number
        for token in page.tokens
        if token.type in {"fence", "code_block"}
        for number in range(*token.map or (0, 0))
    }
    tables = {
        number
        for token in page.tokens
        if token.type == "table_open"
        for number in range(*token.map or (0, 0))
    }
    for heading in page.headings:
        if re.search(r"-\d+$", heading.anchor) and lines[heading.line].startswith("#"):
            lines[heading.line] += f" {{#{heading.anchor}}}"
    for number, line in enumerate(lines):
        if number in fenced:
            continue
        if number in tables:
            line = re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), line)
        lines[number] = _LINK.sub(lambda link: _link(link, page.path, docs), line)
    return "\n".join(lines) + "\n"


def _link(link: re.Match[str], path: Path, docs: Path) -> str:
    text, target = link[1], link[2]
    if re.match(r"[a-z][a-z+.-]*:|#", target):
        return link[0]
    file, _, _ = target.partition("#")
    there = (path.parent / file).resolve()
    if there.is_relative_to(docs):
        return link[0]
    named = f"`{there.relative_to(ROOT)}`" if there.is_relative_to(ROOT) else f"`{file}`"
    return text if text == named else f"{text} ({named})"


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    try:
        made = build(WORK)
    except SiteError as broken:
        sys.exit(str(broken))
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(made, SITE)
    print(f"{SITE}/index.html")
