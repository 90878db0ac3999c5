"""Answers about a cluster, worked out here from a document, in the shapes of the status API.

Lives here: the views of the status service, looked at on an engine of our own that stands where the cluster stands,
beside one that went on to decide. Never here: how an answer is shown, or where the document comes from.

Why two engines: the one that decided has given seats that nobody was given in the cluster. What *is* is told from the
first, *why* somebody waits and *what would happen* from the second.
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
"""What was read with the caller's own rights holds nothing that he may not read."""

ALL: Final = Page(0, 2**31)
QUESTIONS: Final = 1_000
"""Questions that a forecast may ask: a second or two on a cluster of a thousand nodes. Somebody waits for it, so those
far back in a long queue are told nothing; the status service takes its time and tells them more."""

FORGOTTEN: Final = "only the status service remembers gangs that ended: leave out --offline"

AT_ONCE: Final = "there is room for it now"

UNKNOWN: Final = (
    "worked out here, from what you may read; reservations, back-offs, barred nodes and tries are known to the status "
    "service alone"
)
"""What an answer of this kind cannot know."""


def _refuse(selector: str) -> None:
    if selector:
        raise SettingsError(
            "--selector", selector, "only the status service knows labels: ask it, or leave this out"
        )


class OfflineAnswers:
    """What can be said of this cluster. more: facts that are not so, see `replay.stand`. away: why nobody acts."""

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
        """When those who wait are expected to start, beside those who start at once."""
        return foresee(self.judged.engine.outlook(self.now), QUESTIONS)

    @cached_property
    def _outlook(self) -> Outlook:
        return Outlook(in_vain=lambda record: is_in_vain(self.judged.decision(record.key)))

    def gangs(self, namespace: str | None = None, selector: str = "") -> list[schemas.GangRow]:
        """All gangs, or those of one namespace, by name. Raises SettingsError where a selector is given."""
        _refuse(selector)
        found = at_once(gang_views.gangs(self.standing, EVERYTHING, self.now, ALL, self._outlook, namespace))
        return [self._with_reason(row) for row in found.gangs]

    def queue(self, selector: str = "") -> list[schemas.GangRow]:
        """The gangs that wait, in the order in which they are asked about; behind them those that cannot be placed.

        Raises SettingsError where a selector is given.
        """
        _refuse(selector)
        found = at_once(gang_views.queue(self.standing, EVERYTHING, self.now, ALL, self._outlook))
        return [self._with_reason(row) for row in found.gangs]

    def gang(self, namespace: str, name: str) -> schemas.GangDetail | None:
        """The gang of this name, or the pod of this name that is of no gang."""
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
        """All nodes, by name, and who is on them."""
        return at_once(node_views.nodes(self.standing, EVERYTHING, ALL))

    def fragmentation(self) -> dict[str, float]:
        """By device, 0 … 1: the share of its free units that the gangs here could not use where they are."""
        return dict(fragmentation(self.standing.snapshot(), self.standing.demands_seen()))

    def shares(self) -> accounting.ShareList:
        """What each namespace uses, and may."""
        return at_once(share_views.shares(self.standing, EVERYTHING))

    def history(self, _namespace: str | None, _limit: int) -> accounting.HistoryList:
        """Raises GangwrightError: the cluster does not tell what ended."""
        raise GangwrightError(FORGOTTEN)

    def seats(self, namespace: str, name: str) -> dict[str, str]:
        """Pod → node, as they would be given to a waiting gang at once."""
        record = gang_views.find(self.judged.engine, namespace, name)
        place = self.judged.seats(record.key) if record is not None else None
        if record is None or place is None:
            return {}
        return {record.members[uid].pod.key.name: node for uid, node in place.seats.items()}

    def away(self) -> str:
        """Why nothing of this happens now, as far as the Pods tell."""
        return self._away

    def notes(self) -> Iterator[str]:
        """What is said beside these answers."""
        if self._away:
            yield self._away
        yield UNKNOWN

    def victims(self, key: GangKey) -> list[schemas.VictimRow]:
        """Who would have to leave for this gang, so that it has room."""
        room = self.judged.room(key)
        if room is None:
            return []
        return [gang_views.victim(self.judged.engine, unit, EVERYTHING) for unit in room.victims]

    def _judged(self, key: GangKey) -> GangRecord:
        return self.judged.engine.ledger.registry.gangs[key]

    def _with_reason(self, row: schemas.GangRow) -> schemas.GangRow:
        """The row as it stands, with what the planner would say."""
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
