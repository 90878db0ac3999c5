"""What an engine keeps between two passes, compared with what it would find without it."""

from collections.abc import Iterator

import numpy as np

from scheduler.engine import Engine
from scheduler.engine.preemption_candidates import Group, PreemptionCandidates
from scheduler.model.demand import Demand
from scheduler.model.queueing import Stay
from scheduler.placement.feasibility import where
from scheduler.placement.flavors import flavors


def wrong(engine: Engine) -> list[str]:
    """Empty when all that is kept is what would be found."""
    return [*of_masks(engine), *of_views(engine)]


def of_masks(engine: Engine) -> Iterator[str]:
    """Masks and flavors of the nodes."""
    masks, snapshot = engine._masks, engine.ledger.snapshot()
    for key, (kept, basis) in masks._kept.items():
        if not basis.is_same(snapshot):
            continue
        found = where(snapshot, Demand((), *key))
        same = np.array_equal(kept.open, found.open) and np.array_equal(kept.matches, found.matches)
        if not same or {k: m.tolist() for k, m in kept.obstacles.items()} != {
            k: m.tolist() for k, m in found.obstacles.items()
        }:
            yield f"the masks kept for {key} are not those of the nodes"
    known = (
        masks._flavors
        if masks._snapshot and masks._snapshot.nodes_version == snapshot.nodes_version
        else None
    )
    if known is not None and known.tolist() != flavors(snapshot).tolist():
        yield "the flavors kept are not those of the nodes"


def of_views(engine: Engine) -> Iterator[str]:
    """Rows and uses of running gangs, but for those that have changed and were not reconciled since."""
    ledger, kept = engine.ledger, engine.cycle.candidates
    fresh = PreemptionCandidates(ledger)
    if not ledger._dirty:
        stays = kept.stays(0.0)
        ledger.registry._changed = None  # the fresh ones read every gang
        if sorted(map(_ends, stays)) != sorted(map(_ends, fresh.stays(0.0))):
            yield "the stays kept are not those of all gangs"
    for key, views in kept._views.items():
        record = ledger.registry.gangs.get(key)
        current = record is not None and views.made_for == (
            record.number,
            record.pulse,
            ledger.nodes.numbering,
            ledger.nodes.axis,
        )
        if record is None or not current or key in ledger._dirty:
            continue
        if views.groups is not None:
            found = fresh._groups(record)
            if list(map(_left, views.groups)) != list(map(_left, found)):
                yield f"the groups kept of {key} are not where its pods are"


def _ends(stay: Stay) -> tuple[str, ...]:
    """All of it, in a form that can be sorted."""
    pods = (stay.rows.tolist(), stay.uses.tolist(), stay.uids)
    return tuple(map(str, (stay.key, *pods, stay.ends, stay.latest, stay.namespace)))


def _left(group: Group) -> object:
    return group.kind, group.pods, group.numbers.tolist(), group.uses.tolist(), group.way
