"""The site that `make docs` builds: strictly, in the words of docs/, and from nowhere else."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Page
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
        ("text\n* a\n  b\n* c\n\nend", "text\n\n*   a\n    b\n*   c\n\nend"),
        ("* a\n  * b\n    c\n\n  d", "*   a\n    *   b\n        c\n\n    d"),
        (
            "1. a\n\n   ```sh\n   b\n     c\n   ```\n2. d",
            "1.  a\n\n    ```sh\n    b\n      c\n    ```\n2.  d",
        ),
        ("```\n* a\n[b](../../c.md)\n```", "```\n* a\n[b](../../c.md)\n```"),
    ],
)
def test_the_dialect_of_the_site(text, there):
    """Links that leave docs/ become paths, anchors and lists become those of the site, and code stays as it is."""
    page = Page(Path(DOCS / "concepts" / "made-up.md"), text)
    assert dialect(page) == f"{there}\n"
