"""What watches tell → events of the model, batch by batch.

Lives here: which reflector feeds which sink, when everything has been read once, and that an object which cannot be
understood is left out: one user must not stop the others' gangs. What an object means is
`objects.translate`'s business.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from scheduler.kube import changes as ch
from scheduler.model.cluster import Level
from scheduler.model.events import Event
from scheduler.model.workload import Complaint
from scheduler.objects import api
from scheduler.objects.translate import Translator
from scheduler.objects.watched_resources import RESOURCES, Resource

Observe = Callable[[Sequence[Event]], None]

Unreadable = Callable[[str], None]
"""Told the kind, as a watch's name, of every object that was left out, and of a node of which a part was."""

_log = structlog.get_logger("informers")


class Informers:
    """Passes events on to `observe`; `whole` is called once, when every list was read."""

    def __init__(
        self,
        levels: tuple[Level, ...],
        observe: Observe,
        whole: Callable[[], None],
        unreadable: Unreadable = lambda _kind: None,
    ) -> None:
        self._translator = Translator(levels)
        self._observe = observe
        self._whole = whole
        self._unreadable = unreadable
        self._missing = {resource.path for resource in RESOURCES}
        self.synced = False
        self.volumes = self._translator.volumes
        """What claims are bound to, as it is read."""

    def missing(self) -> list[str]:
        """Collections whose list has not been read yet."""
        return sorted(self._missing)

    def watches(self) -> dict[str, tuple[ch.Resource[Any], ch.Sink[Any]]]:
        """By kind: what to watch, and which sink to tell. Kinds of one plural name are told apart by their API group."""
        return {
            _name(row): (
                ch.Resource(row.path, row.type, optional=row.optional, dispensable=row.dispensable),
                self._sink(row),
            )
            for row in RESOURCES
        }

    @property
    def decisive(self) -> frozenset[str]:
        """Names of the watches without which nothing is to be done."""
        return frozenset(_name(row) for row in RESOURCES if row.decides)

    def _sink(self, row: Resource) -> ch.Sink[Any]:
        def sink(batch: Sequence[ch.Change[Any]]) -> None:
            events = [event for change in batch for event in self._understood(row, change)]
            if events:
                self._observe(events)
            if not self._missing and not self.synced:
                self.synced = True
                self._whole()

        return sink

    def _understood(self, row: Resource, change: ch.Change[Any]) -> Sequence[Event]:
        """What a change means; nothing when its object cannot be understood."""
        try:
            match change:
                case ch.Seen():
                    before = self._translator.node_complaints.get(change.key.name)
                    events = self._translator.seen(change.object)
                    if isinstance(change.object, api.Node):
                        self._tell_of(row, change.key, before)
                    return events
                case ch.Gone():
                    return self._translator.gone(row.type, change.key.namespace, change.key.name, change.uid)
                case ch.Malformed():
                    self._leave_out(row, change.key, change.message)
                case ch.Synced():
                    self._missing.discard(row.path)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one object, the others count
            key = None if isinstance(change, ch.Synced) else change.key
            self._leave_out(row, key, f"{type(error).__name__}: {error}", trace=True)
        return ()

    def _tell_of(self, row: Resource, key: ch.Key, before: tuple[Complaint, ...] | None) -> None:
        """What cannot be read of a node counts as zero. That is told once, however often the node changes."""
        complaints = self._translator.node_complaints.get(key.name)
        if complaints and complaints != before:
            self._unreadable(_name(row))
            _log.warning(
                "node read in part",
                object=key.name,
                message="; ".join(map(str, complaints)),
                kind=("node read in part", key.name),
            )

    def _leave_out(self, row: Resource, key: ch.Key | None, message: str, *, trace: bool = False) -> None:
        name = _name(row)
        place = "/".join(filter(None, key)) if key else ""  # the name alone of what belongs to the cluster
        self._unreadable(name)
        _log.warning(
            "object left out",
            resource=name,
            object=place,
            message=message,
            exc_info=trace,
            kind=("object left out", name, place),  # a few lines an object, however often it changes
        )


def _name(row: Resource) -> str:
    *_, group, _version, plural = row.path.split("/")
    return f"{plural}.{group}" if "." in group else plural


KINDS: Final = tuple(map(_name, RESOURCES))
"""Names of all watches."""
