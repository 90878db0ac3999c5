"""What the demo says is true. Every claim is checked where it is made; the exit code tells whether all of them held."""

from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from bench.demo.record import Record

PARTLY = 5.0
"""Seconds between first and last bind of a gang that would count as standing partly bound."""


@dataclass
class Claims:
    """Claims made so far; those that did not hold are remembered."""

    console: Console
    made: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, said: str, holds: object, detail: str = "") -> bool:
        """Says it, with the figure that proves it, and whether it holds."""
        self.made += 1
        mark = ("✔ ", "bold green") if holds else ("✘ ", "bold red")
        line = Text.assemble("  ", mark, said, (f"  {detail}" if detail else "", "dim"))
        self.console.print(line, soft_wrap=True)
        if not holds:
            self.failed.append(f"{said} {detail}".strip())
        return bool(holds)


def check_whole(claims: Claims, record: Record) -> None:
    """What must hold of every gang, by a watch that knows nothing of Gangwright."""
    gangs = record.gangs()
    partly = {gang: record.partly(gang) for gang in gangs if record.bound(gang)}
    broken = [gang for gang in gangs if record.bound(gang) != len(record.of(gang))]
    longest = max(partly.values(), default=0.0)
    claims.check(
        "No gang ever stood partly bound",
        not broken and longest < PARTLY,
        f"independent watch: the longest moment between the first and the last bind of a gang was {longest:.2f} s",
    )
    claims.check(
        "Every plan was written before the first bind of its gang, and kept to",
        not record.unplanned,
        f"{len(record.pods)} binds compared with {len(record.planned)} plans",
    )
