"""The settings of the queue: who goes first, what may pass, whose room it is, who gives way.

A module of its own because shares are the one part of the settings that a service reads again while it runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import yaml

from scheduler import settings_reader as reader
from scheduler.model import names
from scheduler.model.policy import Policy
from scheduler.model.queueing import Backfill, Order, Reclaim, Share
from scheduler.model.resources import Amounts, InvalidQuantity, amount

_CORE: Final = Policy()
_DAY: Final = 86400.0
_NAMESPACE: Final = reader.text(
    names.NAMESPACE,
    "must be the name of a namespace: lower-case letters, digits and '-'",
)


def _amounts(node: yaml.Node) -> Amounts:
    """Quantities by resource, such as {nvidia.com/gpu: 16, cpu: "200", memory: 1Ti}."""
    found = {}
    for name, child in reader.entries(node):
        try:
            found[name] = amount(name, str(child.value) if isinstance(child, yaml.ScalarNode) else "")
        except InvalidQuantity:
            raise reader.Wrong(child, f"must be a quantity of {name}, such as 16, 500m or 64Gi") from None
    return tuple(sorted(found.items()))


_SHARE: Final[Mapping[str, reader.Kind]] = {
    "guaranteed": _amounts,
    "ceiling": _amounts,
    "weight": reader.number(0.001, 1e6),
}


def _shares(node: yaml.Node) -> Mapping[str, Share]:
    """A share by namespace."""
    found: dict[str, Share] = {}
    for namespace, child in reader.entries(node):
        _NAMESPACE(yaml.ScalarNode("tag:yaml.org,2002:str", namespace, child.start_mark, child.end_mark))
        given: dict[str, Any] = {}
        for key, value in reader.entries(child):
            if key not in _SHARE:
                raise reader.Wrong(child, f"{key!r} is unknown here: a share has {', '.join(_SHARE)}")
            given[key] = _SHARE[key](value)
        share = Share(**given)
        ceiling = dict(share.ceiling)
        above = next((name for name, value in share.guaranteed if value > ceiling.get(name, value)), None)
        if above is not None:
            raise reader.Wrong(child, f"the ceiling of {above} must not be below what is guaranteed of it")
        found[namespace] = share
    return found


@dataclass(frozen=True, slots=True)
class Queue:
    """Who goes first, what may start past those who wait, and who gives way."""

    order: Annotated[Order, reader.word(Order)] = _CORE.order
    """Among gangs of one priority: `fifo`; `las`, least attained service first, which needs no estimates; `shortest`
    expected runtime first; `fair`, the namespace that uses least of its share first."""

    backfill: Annotated[Backfill, reader.word(Backfill)] = _CORE.backfill
    """While the first gang waits for room: `reserve` lets others start where they do not delay it; `free` wherever
    there is room, so that large gangs may wait for ever; `none` keeps the order strictly."""

    age_limit: Annotated[float, reader.seconds(1, 365 * _DAY)] = _CORE.age_limit
    """Who has waited so long goes before all younger ones of his priority, whatever the order: nothing starves. Three
    days: in a queue whose waits are longer than the limit every order is that of arrival."""

    age_factor: Annotated[float, reader.number(0, 1e6)] = _CORE.age_factor
    """With the order `shortest` only who has also waited for so many times his own expected runtime (bounded slowdown):
    an hour of work is not held up by a week of it that has waited for a few days. 0: the limit alone counts."""

    las_quantum: Annotated[float, reader.seconds(1, 365 * _DAY)] = _CORE.las_quantum
    """Device-time of the first band of `las`; the second is twice as wide, the third and last has no end. Also the
    shortest turn of a gang that gives way by being suspended. Half an hour: of what was measured on real traces the
    best for the wait of large gangs, at the same mean."""

    default_runtime: Annotated[float, reader.seconds(1, 365 * _DAY)] = _CORE.default_runtime
    """How long a gang is taken to run of which nobody knows anything."""

    preemption: Annotated[bool, reader.flag()] = _CORE.preemption
    """Whether pods of lower priority give way to a whole gang. Never part of a gang below its quorum."""

    reclaim: Annotated[Reclaim, reader.word(Reclaim)] = _CORE.reclaim
    """From whom a namespace takes back what is guaranteed to it: `any` borrower, or those of `lower-priority`."""

    evictions_per_namespace: Annotated[int, reader.whole(1, 100_000)] = _CORE.evictions_per_namespace
    """Victims of one namespace on their way out at a time: nobody's jobs vanish all at once."""

    preemption_cooldown: Annotated[float, reader.seconds(0, _DAY)] = _CORE.preemption_cooldown
    """After victims were asked to leave for a gang, before others are asked to for the same one."""

    shares: Annotated[Mapping[str, Share], _shares] = field(default_factory=dict)
    """By namespace: `guaranteed` amounts, lent while idle and taken back when needed; `ceiling`, never to be passed;
    `weight` for the order `fair`. Read again when the file changes."""
