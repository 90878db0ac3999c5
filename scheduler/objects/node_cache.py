"""The seen nodes: the allocatable amounts of each, and which of them admit a pod.

Lives here: `NodeCache`, which its owner updates with the seen nodes. Never here: what pods use of them.
For readers that place nothing. The ledger keeps nodes together with the seats that it holds.
"""

from collections.abc import Mapping

from scheduler.model.admission import NodePicture, admitted
from scheduler.model.cluster import Mask, Node
from scheduler.model.demand import Demand
from scheduler.objects import api
from scheduler.objects.interner import Interner
from scheduler.objects.nodes import node


class NodeCache:
    """The nodes seen so far, in the order of their names."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._interner = Interner()
        self._picture: NodePicture | None = None

    def see(self, found: api.Node) -> bool:
        """Whether the node has changed: amounts, labels, taints, a cordon. An invalid amount counts as none."""
        seen, _ = node(found, self._interner)
        if self._nodes.get(seen.name) == seen:
            return False
        self._nodes[seen.name] = seen
        self._picture = None
        return True

    def lose(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._picture = None

    def allocatable(self) -> dict[str, Mapping[str, int]]:
        """The allocatable amounts by node and resource, in whole units."""
        return {name: dict(self._nodes[name].capacity) for name in self._now().names}

    def admitted(self, demand: Demand) -> Mask:
        """bool[n]: the nodes that selector, affinity and tolerations allow, regardless of free capacity."""
        return admitted(self._now(), demand)

    def _now(self) -> NodePicture:
        if self._picture is None:
            self._picture = NodePicture.of([self._nodes[name] for name in sorted(self._nodes)])
        return self._picture
