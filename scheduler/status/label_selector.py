"""Label selectors in kubectl's syntax, and the gangs that they choose. Pure.

Lives here: which gang has the labels: one whose first pod has them. The ledger keeps the labels of pods anyway, for
PodDisruptionBudgets. Never here: the syntax of a selector (`names`).
"""

import re
from typing import Final, TypeAlias

from scheduler.ledger.gang import GangRecord
from scheduler.model.demand import Operator, Requirement
from scheduler.model.neighbors import read_labels
from scheduler.status import members

Selector: TypeAlias = tuple[Requirement, ...]
"""All requirements must hold. An empty selector chooses every gang."""

_PARTS: Final = re.compile(r"(!?)([^=!]+)(==|=|!=)?(.*)")


def parse(text: str) -> Selector:
    """The selector for a text that matches `names.LABEL_SELECTOR`; the empty selector for the empty text."""
    return tuple(map(_requirement, text.split(","))) if text else ()


def _requirement(term: str) -> Requirement:
    absent, key, compared, value = _PARTS.fullmatch(term).groups()  # type: ignore[union-attr]
    if compared:
        return Requirement(key, Operator.NOT_IN if compared == "!=" else Operator.IN, (value,))
    return Requirement(key, Operator.DOES_NOT_EXIST if absent else Operator.EXISTS)


def chooses(selector: Selector, record: GangRecord) -> bool:
    """Whether the gang's first pod has these labels."""
    first = members.eldest(record)
    labels = read_labels(first.pod.labels) if first is not None else {}
    return all(own.holds(labels) for own in selector)
