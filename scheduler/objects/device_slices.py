"""The devices of the nodes as amounts of resources: from pools, device classes and taint rules.

Lives here: `DeviceSlices`, which its owner updates with the seen objects. Never here: claims (`device_claims`).

For each device, a number has one bit per column (`DeviceColumn`): which requests can use it. Whatever is counted is
counted by these numbers, so that a device that several kinds of requests can use counts in all of their columns.
Selectors are evaluated in `settle`, once for any number of changes.

A column with a device that the planner cannot count, or with a selector that cannot be evaluated, is not modeled, and
says why (`gap`).
Source: `k8s.io/dynamic-resource-allocation/structured` 1.37, isSelectable.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.model.demand import Taint, Toleration
from scheduler.objects import device_api as api
from scheduler.objects.device_columns import MOST, WHOLE, DeviceColumn, DeviceSet
from scheduler.objects.device_facts import Facts, Value, attribute_key
from scheduler.objects.device_pools import DeviceId, DevicePools, PoolKey, Slice, taint
from scheduler.objects.device_requests import expressions
from scheduler.objects.device_selectors import Selectors, Unsupported

COLUMNS: Final = 64
"""Columns at most: each is a column of every matrix of the planner."""

SETS: Final = 16
"""Sets of devices with one value of an attribute at most: each is a column, too, and takes longer to count."""

TOO_MANY: Final = f"spec.resourceClaims: the cluster has more than {COLUMNS} kinds of device requests"


@dataclass(frozen=True, slots=True)
class _Class:
    selectors: tuple[str, ...]
    resource: str
    created: str


class _Rule(NamedTuple):
    selector: api.RuleSelector
    taint: Taint

    def concerns(self, pool: PoolKey) -> bool:
        return self.selector.driver in {None, pool.driver} and self.selector.pool in {None, pool.name}


class DeviceSlices:
    """The devices that exist, as far as seen."""

    def __init__(self) -> None:
        self.pools = DevicePools()
        self._classes: dict[str, _Class] = {}
        self._resources: dict[str, str] = {}
        self._rules: dict[str, _Rule] = {}
        self._selectors = Selectors()
        self.columns: dict[DeviceColumn, int] = {}
        """Each column that is counted, and its bit."""
        self.sets: set[DeviceSet] = set()
        """The sets that are counted."""
        self._names: dict[int, tuple[str, ...]] = {}
        self._reasons: dict[DeviceColumn, dict[str, str]] = {}
        self._together: Counter[int] = Counter()
        self._provided: Counter[str] = Counter()
        self._providers: dict[str, frozenset[str]] = {}
        self._stale_slices: set[str] = set()
        self._stale_columns: set[DeviceColumn] = set()
        self._touched: set[str] = set()
        self._touched_pools: set[PoolKey] = set()
        self.is_crowded = False
        """A column was refused, and none was dropped since."""
        self.version = 0
        """Changes when other requests may have become unsupported, or may use the same devices."""

    # Objects

    def see_slice(self, found: api.ResourceSlice) -> None:
        own, name = self.pools.see(found), found.metadata.name
        if own is not None:
            self.lose_slice(name)
            self.pools.put(name, own)
            self._stale_slices.add(name)
            self._touched.update(self.pools.nodes_of(own.pool))

    def lose_slice(self, name: str) -> None:
        own = self.pools.take(name)
        if own is None:
            return
        self._touched.update(self.pools.nodes_of(own.pool))
        self._touched.add(own.node)
        self._touched_pools.add(own.pool)
        self._stale_slices.discard(name)
        self._count(own, -1)
        for reasons in self._reasons.values():
            self.version += reasons.pop(name, None) is not None

    def see_class(self, found: api.DeviceClass) -> None:
        name, spec = found.metadata.name, found.spec
        created = found.metadata.creation_timestamp or ""
        own = _Class(expressions(spec.selectors), spec.extended_resource_name or "", created)
        if self._classes.get(name) == own:
            return
        self._classes[name] = own
        self.want(DeviceColumn(name))
        self._class_changed(name)

    def lose_class(self, name: str) -> None:
        if self._classes.pop(name, None) is not None:
            self._drop(DeviceColumn(name))
            self._class_changed(name)

    def see_rule(self, found: api.DeviceTaintRule) -> None:
        own = taint(found.spec.taint)
        selector = found.spec.device_selector or api.RuleSelector()
        self.lose_rule(found.metadata.name)
        if own is not None:
            self._rules[found.metadata.name] = rule = _Rule(selector, own)
            self._rule_changed(rule)

    def lose_rule(self, name: str) -> None:
        rule = self._rules.pop(name, None)
        if rule is not None:
            self._rule_changed(rule)

    def see_node(self, name: str, provided: Iterable[str]) -> None:
        """The extended resources that the node has of itself, from device plugins."""
        before, now = self._providers.get(name, frozenset()), frozenset(provided)
        if before != now:
            self._provided.subtract(before)
            self._provided.update(now)
            if now:
                self._providers[name] = now
            else:
                self._providers.pop(name, None)
                self._provided = +self._provided
            self._touched.add(name)
            self.version += bool((before ^ now) & self._resources.keys())

    # Columns

    def want(self, column: DeviceColumn) -> bool:
        """Count this column from now on. False: there are too many."""
        if column in self.columns:
            return True
        if column.whole and not self.want(column._replace(whole=False)):
            return False
        free = (1 << number for number in range(COLUMNS))
        taken = set(self.columns.values())
        bit = next((own for own in free if own not in taken), None)
        if bit is None:
            self.is_crowded = True
            return False
        self.columns[column] = bit
        self._reasons[column] = {}
        self._stale_columns.add(column)
        self._names.clear()
        return True

    def want_set(self, equal: DeviceSet) -> bool:
        """Count this set from now on. False: there are too many."""
        if equal not in self.sets:
            if len(self.sets) >= SETS:
                self.is_crowded = True
                return False
            self.sets.add(equal)
            self._touched.update(self.pools.nodes())
        return True

    def keep(self, wanted: Iterable[DeviceColumn], sets: Collection[DeviceSet]) -> None:
        """Drop the columns and sets of requests that no longer exist. Columns of classes stay."""
        needed = set(wanted)
        needed |= {column._replace(whole=False) for column in needed}
        dropped = [own for own in self.columns if not own.is_plain and own not in needed]
        for column in dropped:
            self._drop(column)
        unused = self.sets.difference(sets)
        self.sets -= unused
        if dropped or unused:
            self._touched.update(self.pools.nodes())
            self.is_crowded = False
            self.version += 1

    def gap(self, column: DeviceColumn) -> str:
        """Why requests of this column are not modeled. Empty: they are."""
        base = column._replace(whole=False)
        if base not in self.columns:
            return TOO_MANY
        return next(iter(self._reasons[base].values()), "")

    def requested(self, column: DeviceColumn, count: int) -> dict[str, int]:
        """What a request takes that has no devices yet: also in each column that selects all of its devices."""
        base = self.columns.get(column._replace(whole=False), 0)
        masks = [mask for mask in self._together if mask & base]
        common = base
        if masks:
            common = masks[0]
            for mask in masks:
                common &= mask
        taken = dict.fromkeys(self._named(common), 1 if column.whole else count)
        taken |= {
            resource: 1 if column.whole else count
            for resource, name in self._resources.items()
            if not self._provided[resource] and self.columns.get(DeviceColumn(name), 0) & common
        }
        return taken | {column.name: WHOLE if column.whole else count}

    # What nodes have

    def capacity(self, node: str) -> dict[str, int]:
        """By resource, the devices of the node that can be allocated, whether in use or not."""
        pools = [self.pools.current(pool) for pool in self.pools.pools_on(node)]
        mine = [own for slices in pools for own in slices if own.node == node]
        counted = self._counted(node, (mask for own in mine for mask in own.usable.values()))
        for column in [own for own in self.columns if own.whole and all(pools)]:
            base = column._replace(whole=False)
            bit = self.columns[base]
            selected = sum(1 for own in mine for mask in own.matching.values() if mask & bit)
            if 1 <= selected == counted.get(base.name, 0) <= MOST:
                counted[column.name] = WHOLE
        return counted | {equal.name: count for equal in self.sets if (count := self.fits(equal, node))}

    def fits(self, equal: DeviceSet, node: str, taken: Container[DeviceId] = ()) -> int:
        """How many of these sets the node's devices make, without those that are taken."""
        parts = [(self.columns.get(column, 0), count) for column, count in equal.parts]
        # Together they bound the sets too, because parts can select the same devices.
        parts.append((sum({bit for bit, _ in parts}), sum(count for _, count in parts)))
        by_value: dict[Value, list[int]] = {}
        for pool in self.pools.pools_on(node):
            for own in self.pools.current(pool):
                key = attribute_key(equal.attribute)
                for name, mask in own.usable.items() if own.node == node else ():
                    value = dict(own.devices[name].reading).get(key) if mask & parts[-1][0] else None
                    if value is not None and DeviceId(pool, name) not in taken:
                        found = by_value.setdefault(value, [0] * len(parts))
                        for place, (bit, _) in enumerate(parts):
                            found[place] += bool(mask & bit)
        return sum(
            min(have // count for have, (_, count) in zip(found, parts, strict=True))
            for found in by_value.values()
        )

    def used(self, devices: Iterable[DeviceId], node: str) -> dict[str, int]:
        """By resource, how much of the node's capacity these devices are."""
        return self._counted(node, (mask for device in devices if (mask := self._usable(device, node))))

    def node_of(self, device: DeviceId) -> str:
        """The node of a device. Empty: the device is unknown, or does not belong to one node."""
        own = self.pools.find(device)
        return own.node if own is not None else ""

    def resources_of(self, device_class: str) -> Iterator[str]:
        """The extended resources that a class backs."""
        yield DeviceColumn(device_class).name
        yield from (resource for resource, name in self._resources.items() if name == device_class)

    def settle(self) -> tuple[set[str], set[PoolKey]]:
        """Evaluate what has changed. Returns the nodes and the pools whose devices may have changed."""
        fresh, self._stale_columns = self._stale_columns & self.columns.keys(), set()
        together = set(+self._together)
        if fresh:
            for name, own in self.pools.slices.items():
                self._touched.add(own.node)
                if name not in self._stale_slices:
                    self._evaluate(name, own, fresh)
        for name in sorted(self._stale_slices):
            self._stale_slices.discard(name)
            self._evaluate(name, self.pools.slices[name], self.columns)
        self._together = +self._together
        self.version += together != set(self._together)
        touched, self._touched = self._touched - {""}, set()
        pools, self._touched_pools = self._touched_pools, set()
        return touched, pools.union(*map(self.pools.pools_on, touched))

    # Parts

    def _class_changed(self, name: str) -> None:
        self._stale_columns.update(own for own in self.columns if own.device_class == name)
        self._touched.update(self.pools.nodes())
        self.version += 1
        newest = sorted(self._classes.items(), key=lambda item: (item[1].created, item[0]))
        best: dict[str, tuple[str | None, str]] = {}
        for other, own in newest:
            # The newest class counts; of classes of the same age, the one whose name comes first.
            if own.resource and best.get(own.resource, (None, ""))[0] != own.created:
                best[own.resource] = (own.created, other)
        self._resources = {resource: other for resource, (_, other) in best.items()}
        self._names.clear()

    def _rule_changed(self, rule: _Rule) -> None:
        for name, own in self.pools.slices.items():
            if rule.concerns(own.pool):
                self._stale_slices.add(name)
                self._touched.add(own.node)

    def _drop(self, column: DeviceColumn) -> None:
        bit = self.columns.pop(column, 0)
        self._touched.update(self.pools.nodes())
        self._reasons.pop(column, None)
        self._stale_columns.discard(column)
        self._names.clear()
        if bit:
            for own in self.pools.slices.values():
                self._count(own, -1)
                for masks in (own.matching, own.usable):
                    masks.update({name: mask & ~bit for name, mask in masks.items()})
                self._count(own, 1)

    def _evaluate(self, name: str, own: Slice, columns: Iterable[DeviceColumn]) -> None:
        """Which of these columns select each device of the slice, and why a column cannot tell."""
        self._count(own, -1)
        chosen = [(column, self.columns[column]) for column in columns if not column.whole]
        kept = ~sum(bit for _, bit in chosen)
        reasons: dict[DeviceColumn, str] = {}
        rules = [rule for rule in self._rules.values() if rule.concerns(own.pool)]
        for device, it in own.devices.items():
            facts = Facts(own.pool.driver, dict(it.reading))
            named = (rule.taint for rule in rules if rule.selector.device in {None, device})
            taints = (*it.taints, *named)
            matching, usable = own.matching.get(device, 0) & kept, own.usable.get(device, 0) & kept
            for column, bit in chosen:
                try:
                    if not self._selects(column, facts):
                        continue
                except Unsupported as why:
                    reasons.setdefault(column, str(why))
                    continue
                if it.odd:
                    reasons.setdefault(
                        column, f"spec.resourceClaims: device class {column.device_class} has {it.odd}"
                    )
                    continue
                matching |= bit
                usable |= bit if _tolerated(taints, column.tolerations) else 0
            own.matching[device], own.usable[device] = matching, usable
        self._count(own, 1)
        for column, _ in chosen:
            if self._reasons[column].pop(name, "") != (why_not := reasons.get(column, "")):
                self.version += 1
            if why_not:
                self._reasons[column][name] = why_not

    def _selects(self, column: DeviceColumn, facts: Facts) -> bool:
        own = self._classes.get(column.device_class)
        if own is None:
            return False
        whose = f"device class {column.device_class}"
        try:
            if not self._selectors.match(own.selectors, facts):
                return False
            whose = "a request"
            return self._selectors.match(column.selectors, facts)
        except Unsupported as why:
            raise Unsupported(
                f"spec.resourceClaims: the selector of {whose} is not supported: {why}"
            ) from why

    def _count(self, own: Slice, sign: int) -> None:
        """Devices of one node, by the columns that can use them."""
        if own.node:
            for mask in own.usable.values():
                self._together[mask] += sign

    def _usable(self, device: DeviceId, node: str) -> int:
        own = self.pools.find(device)
        return own.usable.get(device.name, 0) if own is not None and own.node == node else 0

    def _counted(self, node: str, masks: Iterable[int]) -> dict[str, int]:
        counted: dict[str, int] = {}
        for mask, count in Counter(masks).items():
            for name in self._named(mask):
                counted[name] = counted.get(name, 0) + count
        own = self._providers.get(node, frozenset())
        for resource, name in self._resources.items():
            devices = counted.get(DeviceColumn(name).name, 0)
            if devices and resource not in own:
                counted[resource] = devices
        return counted

    def _named(self, mask: int) -> tuple[str, ...]:
        """The columns in this number, and requests for all devices of one of them."""
        known = self._names.get(mask)
        if known is None:
            bits = self.columns
            known = self._names[mask] = tuple(
                column.name for column in bits if mask & bits[column._replace(whole=False)]
            )
        return known


def _tolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    return all(any(own.tolerates(taint) for own in tolerations) for taint in taints)
