"""Tables measured one by one. After each one the whole report is written again.

A table is a file. It is measured again if asked to, or if its file comes from another commit of `bench` or
`scheduler`. Changes that are not committed do not count: after them, ask for it again.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from bench.tables import ranges, records
from bench.tables.document import Outcome, document, duration
from bench.tables.known import Maker
from bench.tables.ranges import Ranges, RangesError
from bench.tables.records import Origin, Record, checked
from bench.tables.table import Profile

DOCUMENT: Final = "report.md"
DATA: Final = "report.json"


class Report:
    """The report of these tables in a folder. bounds: of their figures, by table."""

    def __init__(self, makers: Mapping[str, Maker], profile: Profile, folder: Path, bounds: Ranges) -> None:
        self.outcomes: dict[str, Outcome] = dict.fromkeys(makers, Outcome())
        self._makers, self._profile, self._folder, self._bounds = makers, profile, folder, bounds
        self._origin = Origin.here()

    @property
    def holds(self) -> bool:
        """Every table was measured, and every figure with a range is inside."""
        return all(one.record and not one.error and not one.outside for one in self.outcomes.values())

    def run(self, workers: int, *, again: bool) -> None:
        """Keeps what exists, and measures the rest. A table that fails does not stop the others."""
        kept = {} if again else {name: record for name in self._makers if (record := self._existing(name))}
        for name, record in kept.items():
            self.outcomes[name] = self._seen(record)
            _say(f"{name}: exists (commit {record.origin.commit}, {duration(record.seconds)})")
        missing = [name for name in self._makers if name not in kept]
        for turn, name in enumerate(missing, 1):
            self._write()
            _say(f"{name}: measuring, {turn} of {len(missing)}")
            began = time.monotonic()
            self.outcomes[name] = outcome = self._measured(name, workers)
            _say(f"{name}: {outcome.error or 'done'} ({duration(time.monotonic() - began)})")
        self._write()

    def _existing(self, name: str) -> Record | None:
        record = records.read(name, self._folder)
        if record is None or record.origin.commit == self._origin.commit:
            return record
        _say(f"{name}: exists from commit {record.origin.commit}, the code is {self._origin.commit}")
        return None

    def _measured(self, name: str, workers: int) -> Outcome:
        began = time.monotonic()
        try:
            table = checked(self._makers[name](self._profile, workers))
            record = Record(name, self._profile, table, round(time.monotonic() - began, 1), self._origin)
            records.write(record, self._folder)
        except Exception as error:
            return Outcome(error=f"{type(error).__name__}: {error}")
        return self._seen(record)

    def _seen(self, record: Record) -> Outcome:
        """With its pictures, its figures compared with their ranges."""
        own = self._bounds.get(record.name, {})
        outcome = Outcome(record, ranged=len(own))
        try:
            from bench.tables import pictures  # half a second

            outcome = replace(outcome, pictures=pictures.draw(record, self._folder))
            return replace(outcome, outside=ranges.outside(record.table, own))
        except RangesError as error:
            return replace(outcome, error=str(error))
        except Exception as error:
            return replace(outcome, error=f"{type(error).__name__}: {error}")

    def _write(self) -> None:
        records.write_text(self._folder / DOCUMENT, document(self._profile, self.outcomes))
        text = json.dumps(self.as_json(), indent=1, allow_nan=False)
        records.write_text(self._folder / DATA, text + "\n")

    def as_json(self) -> dict[str, Any]:
        """The whole report as plain values. Tables that failed are under `errors`."""
        found = self.outcomes.items()
        return {
            "profile": self._profile,
            "holds": self.holds,
            "tables": {name: one.record.as_json() for name, one in found if one.record},
            "errors": {name: one.error for name, one in found if one.error},
            "out_of_range": {
                name: [asdict(row) for row in one.outside] for name, one in found if one.outside
            },
            "ranges": {
                name: {figure: asdict(row) for figure, row in self._bounds.get(name, {}).items()}
                for name, _ in found
            },
        }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
