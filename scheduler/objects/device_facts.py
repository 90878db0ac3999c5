"""What selectors may read of a device.

Lives here: `Facts`, and how they are read from a device of the API. Never here: the evaluation of a selector.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from scheduler.objects.device_api import Device

Key: TypeAlias = tuple[str, str, str]
"""What an expression reads: DRIVER, or one of `attributes` or `capacity` with its domain and its name."""

Value: TypeAlias = tuple[str, Any]
"""A type of the API (`int`, `bool`, `string`, `version`, `quantity`, or a list of one) and a hashable value."""

Reading: TypeAlias = tuple[tuple[Key, Value], ...]
"""The attributes and capacities of a device."""

DRIVER: Final[Key] = ("driver", "", "")

_TYPES: Final[Mapping[str, type]] = {"int": int, "bool": bool, "string": str, "version": str}


@dataclass(frozen=True, slots=True)
class Facts:
    """values: by attribute or capacity."""

    driver: str
    values: Mapping[Key, Value]

    def read(self, key: Key) -> Value | None:
        """The value; None if the device does not have it."""
        return ("string", self.driver) if key == DRIVER else self.values.get(key)


def reading(device: Device, driver: str) -> Reading:
    """Attributes and capacities, with the driver's name as the domain of names without one. Unknown types are left out."""
    said = [
        (_key("attributes", name, driver), _value(own)) for name, own in (device.attributes or {}).items()
    ]
    said += [
        (_key("capacity", name, driver), ("quantity", str(own.value)))
        for name, own in (device.capacity or {}).items()
    ]
    return tuple(_shared(key, *value) for key, value in said if value is not None)


def attribute_key(name: str) -> Key:
    """The key of an attribute with its full name."""
    return _key("attributes", name, "")


@lru_cache(maxsize=65_536)
def _shared(key: Key, kind: str, value: Any) -> tuple[Key, Value]:
    """One object for equal attributes. Most attributes are the same for thousands of devices."""
    return (key, (kind, value))


@lru_cache(maxsize=4096)
def _key(kind: str, name: str, driver: str) -> Key:
    domain, _, own = name.rpartition("/")
    return (kind, domain or driver, own)


def _value(said: Mapping[str, Any]) -> Value | None:
    for kind, value in said.items():
        if kind in _TYPES and type(value) is _TYPES[kind]:
            return (kind, value)
        single = _TYPES.get(kind.removesuffix("s"))
        if single is not None and isinstance(value, list) and all(type(own) is single for own in value):
            return (kind, tuple(value))
    return None
