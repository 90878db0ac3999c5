"""Moves that free capacity for a gang, as users see them. Pure."""

from collections.abc import Iterator

from scheduler.ledger import gang_spec
from scheduler.model.departures import Defrag
from scheduler.model.workload import GangKey, Pod
from scheduler.status import move_schemas


def defrag(found: Defrag | None, *, started: bool = False) -> move_schemas.DefragAnswer:
    """The moves, pod by pod, without a check of rights. None: no gang waits for capacity."""
    if found is None:
        return move_schemas.DefragAnswer(None, [], "", started=False)
    seats = dict(sorted((found.pods[uid].key.name, node) for uid, node in found.seats.items()))
    own = next((found.pods[uid] for uid in found.seats or found.pods), None)
    head = move_schemas.DefragHead(found.gang.namespace, _called(found.gang, own), seats)
    return move_schemas.DefragAnswer(head, list(_moves(found)), found.told, started)


def _moves(found: Defrag) -> Iterator[move_schemas.PodMove]:
    for move in found.moves:
        for uid, node in sorted(move.seats.items(), key=lambda seat: found.pods[seat[0]].key):
            pod = found.pods[uid]
            gang = _called(move.gang, pod)
            yield move_schemas.PodMove(pod.key.namespace, gang, pod.key.name, pod.node or "", node)


def _called(gang: GangKey, pod: Pod | None) -> str:
    """The gang's name; the pod's name for a pod without a gang."""
    return pod.key.name if pod is not None and gang_spec.is_gang_of_one(gang) else gang.name
