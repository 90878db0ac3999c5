"""Amounts of resources, and the assignment of resources to matrix columns.

Every amount is a whole number of its resource's unit: thousandths of a core for CPU (kube-scheduler's `MilliCPU`),
bytes for memory and storage, pieces for everything else.  They are stored as float64, which is exact for whole numbers
up to 2**53 (8 PiB of memory on one node). So sums and differences are exact and no comparison needs an epsilon.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES: Final = "hugepages-"
"""Prefix of resources that are huge pages of one size."""

ATTACHED_VOLUMES: Final = "attachable-volumes-"
"""Prefix of resources that are volumes of one driver. A node without an amount of it attaches any number."""

LOCAL_VOLUMES: Final = "local-volumes-"
"""Prefix of resources that are available volumes of one node, for claims of one kind."""

DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every device class has. A hash after ~ stands for more selectors."""

ALL_DEVICES: Final = "all-devices~"
"""Prefix of the right to all devices of one class on a node, with a class and a hash."""

EQUAL_DEVICES: Final = "equal-devices~"
"""Prefix of sets of devices that have one value of an attribute, with the attribute and a hash."""

NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""Resources that every node has, in the order of the first columns of every matrix."""

EXACT: Final = 2**53
"""Above this a float64 no longer holds every whole number, so larger amounts are rejected."""

UNLIMITED: Final = EXACT
"""The capacity of a node that attaches any number of volumes of a driver."""

Vector: TypeAlias = NDArray[np.float64]
"""float64[r], in the units of a ResourceAxis."""

Amounts: TypeAlias = tuple[tuple[str, int], ...]
"""Sorted (resource, amount) pairs without zeros: a vector before its axis is known."""

_SUFFIX: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?")
_PART: Final = re.compile(r"[^/]+/.*(mem|core|vgpu)")
_LONGEST: Final = 64
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class InvalidQuantity(ValueError):  # noqa: N818 - a word of the field
    """Text that is not a Kubernetes quantity, or an amount that no node can have."""


def parse_quantity(text: str) -> Decimal:
    """The number that a Kubernetes quantity stands for, for example `500m`, `4Gi` or `1e3`.

    Raises InvalidQuantity when the text is not a quantity.
    Grammar: apimachinery's `resource.Quantity`.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise InvalidQuantity(f"{text[:_LONGEST]!r} must be a quantity, for example 500m, 4Gi or 2")
    number, exponent, suffix = match.groups()
    return Decimal(number + (exponent or "")) * _SUFFIX[suffix or ""]


def amount(resource: str, text: str) -> int:
    """The whole number of units of `resource` that a quantity stands for, rounded up as in kube-scheduler.

    Raises InvalidQuantity for text that is not a quantity, is negative, or is above EXACT.
    """
    exact = parse_quantity(text) * (1000 if resource == CPU else 1)
    whole = int(exact.to_integral_value(rounding=ROUND_CEILING))
    if not 0 <= whole <= EXACT:
        raise InvalidQuantity(f"{text!r} of {resource} must be between 0 and {EXACT} units")
    return whole


def amounts(pairs: Mapping[str, int]) -> Amounts:
    """The same amounts, sorted and without zeros, so that equal demands compare equal."""
    return tuple(sorted((name, value) for name, value in pairs.items() if value))


def combined(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    """The sum, or with a sign of -1 the difference."""
    if not other:
        return one
    total = dict(one)
    for name, value in other:
        total[name] = total.get(name, 0) + sign * value
    return amounts(total)


def written(resource: str, value: float) -> str:
    """A whole number of units of `resource` in Kubernetes notation: `0.5` of cpu, `64Gi` of memory, `8` of a device."""
    whole, power = int(value), 0
    if resource == CPU:
        return f"{(Decimal(whole) / 1000).normalize():f}"
    if is_bytes(resource):
        while whole and whole % 1024 == 0 and power < len(_BINARY) - 1:
            whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


def described(resource: str, value: float) -> str:
    """An amount as text: `4 nvidia.com/gpu`, `2 of device class gpu`."""
    if resource.startswith(ALL_DEVICES):
        return f"all devices of device class {resource.removeprefix(ALL_DEVICES).partition('~')[0]}"
    if resource.startswith(EQUAL_DEVICES):
        return f"devices with one {resource.removeprefix(EQUAL_DEVICES).partition('~')[0]}"
    return f"{written(resource, value)} {of_class(resource) or resource}"


def of_class(resource: str) -> str:
    """The device class of the resource as text: `of device class gpu`. Empty: it stands for none."""
    name, _, hashed = resource.partition("~")
    if not name.startswith(DEVICE_CLASS):
        return ""
    return f"of device class {name.removeprefix(DEVICE_CLASS)}{' with selectors' if hashed else ''}"


def is_device(resource: str) -> bool:
    """Whether it is an extended resource, for example a GPU."""
    return "/" in resource


def is_unlimited(resource: str) -> bool:
    """Whether a node that names no amount of the resource has no limit, instead of none of it."""
    return resource.startswith(ATTACHED_VOLUMES)


def is_shown(resource: str) -> bool:
    """Whether users see its amounts. Volumes, rights to all devices and sets of devices are counted for placement alone,
    and count in no share.
    """
    return not resource.startswith((ATTACHED_VOLUMES, LOCAL_VOLUMES, ALL_DEVICES, EQUAL_DEVICES))


def lacks(known: Container[str], wanted: Amounts) -> bool:
    """A wanted resource is missing among the known ones, so no node has it."""
    return any(name not in known and not is_unlimited(name) for name, _ in wanted)


def is_part_of_device(resource: str) -> bool:
    """Whether, by its name, other schedulers count parts of a device by it: its memory, its cores or virtual devices.

    HAMi's `nvidia.com/gpumem` and `nvidia.com/gpucores`, `volcano.sh/vgpu-number`, `koordinator.sh/gpu-core`,
    `aliyun.com/gpu-mem`. If nodes have it, it is a resource like any other.
    """
    return _PART.match(resource) is not None and not resource.startswith(DEVICE_CLASS)


def is_bytes(resource: str) -> bool:
    """Whether its unit is a byte."""
    return resource in {MEMORY, EPHEMERAL_STORAGE} or resource.startswith(HUGE_PAGES)


@dataclass(frozen=True, slots=True)
class ResourceAxis:
    """The assignment of columns to resources: NATIVE first, then extended resources in order of appearance."""

    names: tuple[str, ...] = NATIVE
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {name: column for column, name in enumerate(self.names)})

    def __len__(self) -> int:
        return len(self.names)

    @property
    def devices(self) -> tuple[int, ...]:
        """The columns of devices, such as GPUs."""
        return tuple(column for column, name in enumerate(self.names) if is_device(name))

    def extended(self, names: Iterable[str]) -> "ResourceAxis":
        """This axis, extended by columns for new names."""
        fresh = sorted({name for name in names if name not in self.index})
        return ResourceAxis(self.names + tuple(fresh)) if fresh else self

    def vector(self, wanted: Amounts) -> Vector:
        """float64[r]: the amounts in columns.  Raises KeyError for a resource that no node has."""
        row = np.zeros(len(self.names))
        for name, value in wanted:
            if name in self.index or not is_unlimited(name):
                row[self.index[name]] = value
        return row

    def part(self, wanted: Amounts) -> Vector:
        """float64[r]: the amounts in columns. Resources that no node has are left out."""
        row = np.zeros(len(self.names))
        for name, value in wanted:
            if (column := self.index.get(name)) is not None:
                row[column] = value
        return row

    @property
    def unnamed(self) -> Vector:
        """float64[r]: what a node has of resources that it does not name: nothing, or no limit."""
        return np.array([UNLIMITED if is_unlimited(name) else 0.0 for name in self.names], dtype=np.float64)

    def moved(
        self, matrix: NDArray[np.float64], before: "ResourceAxis", new: Vector | float = 0.0
    ) -> NDArray[np.float64]:
        """float64[n, r]: a matrix with the columns of the axis `before` in these columns.

        new: float64[r] or one for all, the amounts in columns that it had not.
        """
        if before is self:
            return matrix
        out = np.full((len(matrix), len(self)), new)
        for column, name in enumerate(self.names):
            if name in before.index:
                out[:, column] = matrix[:, before.index[name]]
        return out
