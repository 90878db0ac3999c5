"""Answers about a cluster, computed locally from a document, in the schemas of the status API.

Lives here: the views of the status service on a local engine in the state of the cluster, and on a second engine that
went on to decide. Never here: how an answer is shown, or where the document comes from.

Why two engines: the second one has assigned nodes that were never assigned in the cluster. The first one shows the
present state. The second one shows why gangs wait and what would happen.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from scheduler.engine import Engine
from scheduler.engine.explanation import foresee
from scheduler.errors import GangwrightError, SettingsError
from scheduler.ledger.gang import GangRecord
from scheduler.model.decision import TEXT, Place, Reason, is_in_vain
from scheduler.model.events import Event
from scheduler.model.queueing import Estimate
from scheduler.model.workload import GangKey
from scheduler.placement.scoring import fragmentation
from scheduler.replay import DecisionTrace, Document, judge, stand
from scheduler.status import accounting, gang_views, node_schemas, node_views, schemas, share_views
from scheduler.status.authorization import Sight, aliases
from scheduler.status.gang_views import UNASKED, Outlook, Page, at_once
from scheduler.status.operator_api import would_leave

EVERYTHING: Final = Sight(None, aliases(b""))
"""The document was read with the caller's own rights, so it contains nothing that the caller may not read."""

ALL: Final = Page(0, 2**31)
QUESTIONS: Final = 1_000
"""Planning steps per forecast: a second or two on a cluster of a thousand nodes. A user waits for it, so gangs far back
in a long queue get no forecast. The status service takes longer and forecasts more of them."""

FORGOTTEN: Final = "only the status service knows finished gangs. Leave out --offline"

AT_ONCE: Final = "it fits now"

UNKNOWN: Final = (
    "computed locally from what you may read; only the status service knows reservations, back-offs, excluded nodes and "
    "tries"
)
"""What a local answer can't know."""


def _refuse(selector: str) -> None:
    if selector:
        raise SettingsError(
            "--selector", selector, "requires the status service. Leave out --selector or --offline"
        )


class OfflineAnswers:
    """Answers about this cluster. more: hypothetical facts, see `replay.stand`. away: why no replica is active."""

    def __init__(self, document: Document, more: Iterable[Event] = (), away: str = "") -> None:
        self._document = document
        self._more = tuple(more)
        self._away = away

    @property
    def now(self) -> float:
        return self._document.taken

    @cached_property
    def standing(self) -> Engine:
        return stand(self._document, self._more)

    @cached_property
    def judged(self) -> DecisionTrace:
        return judge(self._document, self._more)

    @cached_property
    def forecasts(self) -> Mapping[GangKey, Estimate]:
        """Expected starts of waiting gangs that don't start at once."""
        return foresee(self.judged.engine.outlook(self.now), QUESTIONS)

    @cached_property
    def _outlook(self) -> Outlook:
        return Outlook(in_vain=lambda record: is_in_vain(self.judged.decision(record.key)))

    def gangs(self, namespace: str | None = None, selector: str = "") -> list[schemas.GangRow]:
        """All gangs, or those of one namespace, by name. Raises SettingsError if a selector is given."""
        _refuse(selector)
        found = at_once(gang_views.gangs(self.standing, EVERYTHING, self.now, ALL, self._outlook, namespace))
        return [self._with_reason(row) for row in found.gangs]

    def queue(self, selector: str = "") -> list[schemas.GangRow]:
        """Pending gangs in queue order, followed by those that can't be placed.

        Raises SettingsError if a selector is given.
        """
        _refuse(selector)
        found = at_once(gang_views.queue(self.standing, EVERYTHING, self.now, ALL, self._outlook))
        return [self._with_reason(row) for row in found.gangs]

    def gang(self, namespace: str, name: str) -> schemas.GangDetail | None:
        """The gang of this name, or the pod of this name without a gang."""
        record = gang_views.find(self.standing, namespace, name)
        if record is None:
            return None
        here = gang_views.detail(self.standing, record, EVERYTHING, self.now, self._outlook)
        engine = self.judged.engine
        asked = engine.inquire(record.key, self.now)
        found = asked.answer(engine.policy) if asked is not None else UNASKED
        why = gang_views.detail(engine, self._judged(record.key), EVERYTHING, self.now, found=found)
        return msgspec.structs.replace(
            here,
            gang=self._with_reason(here.gang),
            shortfalls=why.shortfalls,
            nearest=why.nearest,
            would_cost=why.would_cost,
            behind=why.behind,
            refusal=why.refusal,
            victims=self.victims(record.key),
        )

    def nodes(self) -> node_schemas.NodeList:
        """All nodes by name, with the gangs on them."""
        return at_once(node_views.nodes(self.standing, EVERYTHING, ALL))

    def fragmentation(self) -> dict[str, float]:
        """By device, 0 … 1: the share of its free units that existing gangs can't use."""
        return dict(fragmentation(self.standing.snapshot(), self.standing.demands_seen()))

    def shares(self) -> accounting.ShareList:
        """Usage, guarantee and ceiling of each namespace."""
        return at_once(share_views.shares(self.standing, EVERYTHING))

    def history(self, _namespace: str | None, _limit: int) -> accounting.HistoryList:
        """Raises GangwrightError: the cluster doesn't show finished gangs."""
        raise GangwrightError(FORGOTTEN)

    def seats(self, namespace: str, name: str) -> dict[str, str]:
        """Pod → node for a waiting gang that could start at once."""
        record = gang_views.find(self.judged.engine, namespace, name)
        place = self.judged.seats(record.key) if record is not None else None
        if record is None or place is None:
            return {}
        return {record.members[uid].pod.key.name: node for uid, node in place.seats.items()}

    def away(self) -> str:
        """Why no gang is scheduled now, as far as the Pods show."""
        return self._away

    def notes(self) -> Iterator[str]:
        """Notes on these answers."""
        if self._away:
            yield self._away
        yield UNKNOWN

    def victims(self, key: GangKey) -> list[schemas.VictimRow]:
        """The victims that this gang would preempt to start."""
        room = self.judged.room(key)
        if room is None:
            return []
        return [gang_views.victim(self.judged.engine, unit, EVERYTHING) for unit in room.victims]

    def _judged(self, key: GangKey) -> GangRecord:
        return self.judged.engine.ledger.registry.gangs[key]

    def _with_reason(self, row: schemas.GangRow) -> schemas.GangRow:
        """The present row, with the planner's decision."""
        key = GangKey(row.namespace or "", row.key or "")
        decision = self.judged.decision(key)
        if decision is None:
            return row
        if isinstance(decision, Place):
            at_once = schemas.Forecast(self.now, self.now, self.now)
            text = f"{TEXT[Reason.QUEUED]}: {AT_ONCE}"
            return msgspec.structs.replace(row, reason=Reason.QUEUED, message=text, forecast=at_once)
        after = gang_views.row(self.judged.engine, self._judged(key), EVERYTHING, self.now)
        forecast = gang_views.forecast(self.forecasts.get(key))
        room = self.judged.room(key)
        said = after.message if room is None else would_leave(room.victims)
        return msgspec.structs.replace(row, reason=after.reason, message=said, forecast=forecast)
