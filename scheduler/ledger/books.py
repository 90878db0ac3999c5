"""The books compared with each other: what is told twice must be told alike.

Lives here: sentences about what must never be true. Never here: anything that mends it.
"""

from collections.abc import Container, Mapping

from scheduler.ledger.node_table import NodeTable
from scheduler.ledger.registry import Registry
from scheduler.model.workload import Uid


def wrongs(
    roll: Registry, nodes: NodeTable, holding: Mapping[Uid, str], leased: Container[Uid] = ()
) -> list[str]:
    """Holds are told by the members, by an index and by the use of room; room is used by nobody unknown."""
    held = {
        uid: member.hold.node
        for record in roll.gangs.values()
        for uid, member in record.members.items()
        if member.hold is not None
    }
    wrong = [
        f"hold of {uid} on {node} is not counted" for uid, node in held.items() if nodes.place(uid) != node
    ]
    wrong += [] if held == holding else ["the index of holds differs from the holds"]
    return wrong + [
        f"{uid} uses room and nobody knows it"
        for uid, _, _ in nodes.places()
        if not (roll.knows(uid) or uid in leased)
    ]
