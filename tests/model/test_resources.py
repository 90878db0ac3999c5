"""Amounts of resources: their sums, and their texts."""

import pytest

from scheduler.model.resources import (
    ALL_DEVICES,
    CPU,
    DEVICE_CLASS,
    EQUAL_DEVICES,
    MEMORY,
    combined,
    described,
    is_device,
    is_shown,
)


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        (CPU, 1500, "1.5 cpu"),
        (MEMORY, 2**30, "1Gi memory"),
        ("nvidia.com/gpu", 4, "4 nvidia.com/gpu"),
        (f"{DEVICE_CLASS}gpu", 2, "2 of device class gpu"),
        (f"{DEVICE_CLASS}gpu~0123abcd", 2, "2 of device class gpu with selectors"),
        (f"{ALL_DEVICES}gpu~0123abcd", 4096, "all devices of device class gpu"),
        (f"{EQUAL_DEVICES}pcieRoot~0123abcd", 1, "devices with one pcieRoot"),
    ],
)
def test_an_amount_as_text(resource: str, value: int, text: str) -> None:
    """In the words of whoever asked for it."""
    assert described(resource, value) == text


def test_only_numbers_of_devices_are_devices() -> None:
    """A right to all devices of a node, or a set of devices, is no number of them, and is not shown."""
    names = [f"{DEVICE_CLASS}gpu~0123abcd", f"{ALL_DEVICES}gpu~0123abcd", f"{EQUAL_DEVICES}root~0123abcd"]
    assert [is_device(name) for name in names] == [True, False, False]
    assert [is_shown(name) for name in names] == [True, False, False]


def test_sum_and_difference() -> None:
    """Sorted, and without zeros."""
    one, other = (("a", 1), ("c", 2)), (("b", 3), ("c", 2))
    assert combined(one, other) == (("a", 1), ("b", 3), ("c", 4))
    assert combined(one, other, -1) == (("a", 1), ("b", -3))
    assert combined(combined(one, other), other, -1) == one
    assert combined(one, ()) is one
