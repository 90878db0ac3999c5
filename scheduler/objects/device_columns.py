"""Requests for devices as resources, which the planner counts like any other resource.

Lives here: `DeviceColumn`, which names the devices that a request can use, `DeviceSet`, and their names as resources. Never here: which
devices those are (`device_slices`), or requests (`device_claims`).

A request without selectors has the name that Kubernetes gives to a device class as an extended resource. Any other
request has that name with a hash. A request for all devices of a node is no number of devices. It is counted in a
resource of its own, of which a node has WHOLE while all devices can be allocated together. The request takes all of it,
and each device in use takes one.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from scheduler.model.demand import Toleration
from scheduler.model.resources import ALL_DEVICES, DEVICE_CLASS, EQUAL_DEVICES

WHOLE: Final = 4096
"""What a request for all devices takes. It is more than a node has devices."""

MOST: Final = 32
"""Devices that one claim can have at most, as in the API."""


class DeviceColumn(NamedTuple):
    """The devices that a request can use.  whole: the request is for all of them."""

    device_class: str
    selectors: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    whole: bool = False

    @property
    def is_plain(self) -> bool:
        """All devices of the class without taints."""
        return not self.selectors and not self.tolerations and not self.whole

    @property
    def name(self) -> str:
        """The resource. That of a request for all devices has no domain, because it is not a number of devices."""
        hashed = blake2b(repr(self[1:3]).encode(), digest_size=4).hexdigest()
        if self.whole:
            return f"{ALL_DEVICES}{self.device_class}~{hashed}"
        return f"{DEVICE_CLASS}{self.device_class}" + ("" if self.is_plain else f"~{hashed}")


class DeviceSet(NamedTuple):
    """The devices of one claim that must have one value of an attribute in common (`matchAttribute`).

    parts: how many devices of which columns. As a resource, a node has as many as sets fit into its free devices, and a
    claim takes one.
    """

    attribute: str
    parts: tuple[tuple[DeviceColumn, int], ...]

    @property
    def name(self) -> str:
        hashed = blake2b(repr(self).encode(), digest_size=4).hexdigest()
        return f"{EQUAL_DEVICES}{self.attribute.rpartition('/')[2]}~{hashed}"
