"""The site that `make docs` builds: strictly, in the words of docs/, and from nowhere else."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Page, pages
from tests.docs.site import SiteError, build, dialect

LOADED = re.compile(
    r"""<(?:link|script|img|iframe|source|video|audio|embed|object)\b[^>]*?(?:href|src|data)=["']?([^"'\s>]+)"""
)
"""What a browser fetches on its own; a link that a reader follows is none of it."""


def test_the_site_is_built_strictly(tmp_path):
    """Every page of docs/ is on the site, no link of the site leads nowhere, and nothing is loaded from elsewhere."""
    site = build(tmp_path)
    made = list(site.rglob("*.html"))
    loaded = {target for path in made for target in LOADED.findall(path.read_text(encoding="utf-8"))}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))

    assert len(made) == len(list(DOCS.rglob("*.md"))) + 1  # and the page for what does not exist
    assert loaded
    assert not [target for target in loaded if re.match(r"(?:https?:)?//", target)]
    assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", styles)


def test_a_broken_site_is_none(tmp_path):
    """A page that links to none stops the build, with its name and line."""
    source = tmp_path / "pages"
    source.mkdir()
    (source / "README.md").write_text("# A\n\n[b](nowhere.md)\n", encoding="utf-8")

    with pytest.raises(SiteError, match=r"README\.md:3"):
        build(tmp_path, source)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("see [a](../reference/cli.md#output)", "see [a](../reference/cli.md#output)"),
        ("see [the bench](../../bench/README.md#x)", "see the bench (`bench/README.md`)"),
        ("see [`SECURITY.md`](../../SECURITY.md), [b](#c)", "see `SECURITY.md`, [b](#c)"),
        ("[a](https://example.com/a.md)", "[a](https://example.com/a.md)"),
        ("# A\n\n# A", "# A\n\n# A {#a-1}"),
        ("| a |\n|---|\n| `b\\|c` \\| d |", "| a |\n|---|\n| `b|c` \\| d |"),
        ("```\n* a\n[b](../../c.md)\n```", "```\n* a\n[b](../../c.md)\n```"),
    ],
)
def test_the_dialect_of_the_site(text, there):
    """Links that leave docs/ become paths, anchors become those of the site, and code stays as it is."""
    page = Page(Path(DOCS / "concepts" / "made-up.md"), text)
    assert dialect(page) == f"{there}\n"


def unread_lists(page):
    """Lines from 1 where the site reads a list as another text: no blank line before it, or a block in it that is not
    indented by four spaces.
    """
    lines = page.text.splitlines()
    for token in page.tokens:
        if token.map is None or token.type not in {
            "bullet_list_open",
            "ordered_list_open",
            "fence",
            "table_open",
        }:
            continue
        begin = token.map[0]
        depth = len(lines[begin]) - len(lines[begin].lstrip())
        if token.level and depth % 4:
            yield begin + 1
        if token.type.endswith("list_open") and not token.level and begin and lines[begin - 1].strip():
            yield begin + 1


@pytest.mark.parametrize("page", [own for own in pages() if own.path.is_relative_to(DOCS)], ids=str)
def test_lists_are_those_of_both(page):
    """GitHub and the site read the same lists from a page."""
    assert list(unread_lists(page)) == []


@pytest.mark.parametrize(
    ("text", "line"), [("a\n* b\n* c", 2), ("1. a\n\n   ```sh\n   b\n   ```\n", 3), ("* a\n  * b\n", 2)]
)
def test_a_list_of_one_alone_is_found(text, line):
    """A list without a blank line before it, and a block in a list that is indented by two or three spaces."""
    assert list(unread_lists(Page(DOCS / "concepts" / "made-up.md", text))) == [line]
