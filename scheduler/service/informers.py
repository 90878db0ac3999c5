"""Changes from watches → events of the model, batch by batch.

Lives here: which reflector feeds which sink, and when every list has been read once. An object that cannot be parsed is
skipped, because one user must not stop the gangs of others. `objects.translate` knows the meaning of objects.
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
"""Receives the kind, as a watch's name, of every object that was skipped, and of nodes that were read only in part."""

_log = structlog.get_logger("informers")


class Informers:
    """Passes events on to `observe`. Calls `whole` once, when every list has been read."""

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
        """The volumes that claims are bound to, kept current."""
        self.devices = self._translator.devices
        """The device claims of pods, kept current."""

    def missing(self) -> list[str]:
        """Collections whose list has not been read yet."""
        return sorted(self._missing)

    def watches(self) -> dict[str, tuple[ch.Resource[Any], ch.Sink[Any]]]:
        """By kind: the resource to watch, and its sink. The API group distinguishes kinds with the same plural name."""
        return {
            _name(row): (
                ch.Resource(row.path, row.type, optional=row.optional, dispensable=row.dispensable),
                self._sink(row),
            )
            for row in RESOURCES
        }

    @property
    def decisive(self) -> frozenset[str]:
        """Names of the watches that scheduling depends on."""
        return frozenset(_name(row) for row in RESOURCES if row.decides)

    def _sink(self, row: Resource) -> ch.Sink[Any]:
        def sink(batch: Sequence[ch.Change[Any]]) -> None:
            events = [event for change in batch for event in self._understood(row, change)]
            self._settle(row, events)
            if events:
                self._observe(events)
            if not self._missing and not self.synced:
                self.synced = True
                self._whole()

        return sink

    def _understood(self, row: Resource, change: ch.Change[Any]) -> Sequence[Event]:
        """The events of a change; none if its object cannot be parsed."""
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
        except Exception as error:  # noqa: BLE001 - one bad object must not affect the others
            key = None if isinstance(change, ch.Synced) else change.key
            self._leave_out(row, key, f"{type(error).__name__}: {error}", trace=True)
        return ()

    def _settle(self, row: Resource, events: list[Event]) -> None:
        """Add the events that follow from the whole batch."""
        try:
            for event in self._translator.settle():
                events.append(event)  # noqa: PERF402 - those before an error count
        except Exception as error:  # noqa: BLE001 - one bad object must not affect the others
            self._leave_out(row, None, f"{type(error).__name__}: {error}", trace=True)

    def _tell_of(self, row: Resource, key: ch.Key, before: tuple[Complaint, ...] | None) -> None:
        """Log the parts of a node that cannot be read and count as zero: once, however often the node changes."""
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
        place = "/".join(filter(None, key)) if key else ""  # cluster-scoped objects have only a name
        self._unreadable(name)
        _log.warning(
            "object skipped",
            resource=name,
            object=place,
            message=message,
            exc_info=trace,
            kind=("object skipped", name, place),  # a few lines per object, however often it changes
        )


def _name(row: Resource) -> str:
    *_, group, _version, plural = row.path.split("/")
    return f"{plural}.{group}" if "." in group else plural


KINDS: Final = tuple(map(_name, RESOURCES))
"""Names of all watches."""
