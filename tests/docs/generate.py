"""The tables that follow from the code: `python -m tests.docs.generate` writes them into their pages.

A generated part is between `<!-- made: NAME -->` and `<!-- end -->`, on any page of docs/.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from tests.docs import command_reference, elasticjob_reference, settings_reference
from tests.docs.pages import DOCS
from tests.telemetry.rows import ELASTIC, METRICS, markdown

BLOCK: Final = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

MAKERS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": command_reference.summary,
    "cli": command_reference.commands,
    "cluster-options": command_reference.cluster_options,
    "metrics": lambda: markdown(METRICS),
    "elastic-metrics": lambda: markdown(ELASTIC),
    "settings": settings_reference.table,
    "elasticjob-spec": lambda: elasticjob_reference.table("spec"),
    "elasticjob-status": lambda: elasticjob_reference.table("status"),
}


def rewritten(text: str) -> str:
    """The page with every generated part as the code has it now."""
    return BLOCK.sub(lambda found: f"{found[1]}{MAKERS[found[2]]()}\n{found[3]}", text)


if __name__ == "__main__":
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            path.write_text(new, encoding="utf-8")
