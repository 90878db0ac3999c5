"""The pools of devices: their slices, and which of them count.

Lives here: `DevicePools`, which its owner updates with the seen slices. Never here: which requests can use a device
(`device_slices`).

The slices of a pool count if they belong to its newest generation and all of them exist. The slices of a generation
number themselves, so an incomplete pool is recognized. kube-scheduler allocates nothing from it.
Source: `k8s.io/dynamic-resource-allocation/structured` 1.37, GatherPools.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.model.demand import Taint, TaintEffect
from scheduler.objects import device_api as api
from scheduler.objects.device_facts import Reading, reading

_EFFECTS: Final = {effect.value: effect for effect in TaintEffect}

_ODD: Final[tuple[tuple[str, Callable[[api.Device], object]], ...]] = (
    ("devices with shared counters", lambda own: own.consumes_counters),
    ("devices that allow multiple allocations", lambda own: own.allow_multiple_allocations),
    ("devices with binding conditions", lambda own: own.binding_conditions),
    ("devices that use resources of the node", lambda own: own.node_allocatable_resources),
)
"""What makes a device more than one of a number of devices, which the planner does not model."""

_ELSEWHERE: Final = "devices that do not belong to one node"


class PoolKey(NamedTuple):
    driver: str
    name: str


class DeviceId(NamedTuple):
    pool: PoolKey
    name: str


@dataclass(frozen=True, slots=True)
class Device:
    """odd: why the planner does not model it; empty: it does."""

    reading: Reading
    taints: tuple[Taint, ...]
    odd: str


@dataclass(slots=True)
class Slice:
    """Some devices of a pool.  node: empty if they do not belong to one node.

    matching, usable: for each device the columns that select it, and those that also tolerate its taints, as bits.
    """

    pool: PoolKey
    generation: int
    count: int
    node: str
    devices: Mapping[str, Device]
    matching: dict[str, int] = field(default_factory=dict, compare=False)
    usable: dict[str, int] = field(default_factory=dict, compare=False)


class DevicePools:
    """The slices that exist, as far as seen."""

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        """By name."""
        self._pools: dict[PoolKey, set[str]] = {}
        self._on_node: dict[str, set[PoolKey]] = {}
        self._current: dict[PoolKey, list[Slice]] = {}

    def see(self, found: api.ResourceSlice) -> Slice | None:
        """The slice that replaces the one of this name. None: nothing has changed."""
        spec, name = found.spec, found.metadata.name
        pool = PoolKey(spec.driver, spec.pool.name)
        node = spec.node_name or ""
        devices = {own.name: _device(own, spec.driver, node) for own in spec.devices or ()}
        own = Slice(pool, spec.pool.generation, spec.pool.resource_slice_count, node, devices)
        return None if self.slices.get(name) == own else own

    def put(self, name: str, own: Slice) -> None:
        self.slices[name] = own
        self._pools.setdefault(own.pool, set()).add(name)
        self._on_node.setdefault(own.node, set()).add(own.pool)
        self._current.pop(own.pool, None)

    def take(self, name: str) -> Slice | None:
        """The removed slice, if it existed."""
        own = self.slices.pop(name, None)
        if own is None:
            return None
        self._current.pop(own.pool, None)
        left = self._pools[own.pool]
        left.discard(name)
        if not any(self.slices[other].node == own.node for other in left):
            self._on_node[own.node].discard(own.pool)
            if not self._on_node[own.node]:
                del self._on_node[own.node]
        if not left:
            del self._pools[own.pool]
        return own

    def current(self, pool: PoolKey) -> list[Slice]:
        """The slices of the newest generation. None of them counts while one is missing, or if a name is not unique."""
        known = self._current.get(pool)
        if known is None:
            slices = [self.slices[name] for name in self._pools.get(pool, ())]
            newest = max((own.generation for own in slices), default=0)
            known = [own for own in slices if own.generation == newest]
            names = [name for own in known for name in own.devices]
            if not known or len(known) != known[0].count or len(names) != len(set(names)):
                known = []
            self._current[pool] = known
        return known

    def find(self, device: DeviceId) -> Slice | None:
        """The current slice with this device."""
        return next((own for own in self.current(device.pool) if device.name in own.devices), None)

    def pools_on(self, node: str) -> Iterable[PoolKey]:
        """The pools with a slice of this node."""
        return self._on_node.get(node, ())

    def nodes_of(self, pool: PoolKey) -> Iterator[str]:
        for name in self._pools.get(pool, ()):
            yield self.slices[name].node

    def nodes(self) -> Iterable[str]:
        """All nodes with a slice."""
        return self._on_node


def taint(found: api.DeviceTaint) -> Taint | None:
    """The taint. None: it does not prevent an allocation."""
    return Taint(found.key, found.value, _EFFECTS[found.effect]) if found.effect in _EFFECTS else None


def _device(found: api.Device, driver: str, node: str) -> Device:
    taints = (kept for own in found.taints or () if (kept := taint(own)) is not None)
    odd = next((text for text, has in _ODD if has(found)), "" if node else _ELSEWHERE)
    return Device(reading(found, driver), tuple(taints), odd)
