"""CEL selectors: what holds for a device, what is not supported, and that nothing is unbounded."""

import time

import pytest

from scheduler.objects import device_cel, device_selectors
from scheduler.objects.device_api import Device
from scheduler.objects.device_facts import Facts, reading
from scheduler.objects.device_selectors import ALL_STEPS, LONGEST, Selectors, Unsupported
from tests.objects.reading import struct

DEVICE = """
name: gpu-0
attributes:
  type: {string: gpu}
  index: {int: 3}
  ok: {bool: true}
  productName: {string: NVIDIA H100}
  tags: {strings: [a, b]}
  dra.example.com/driver: {version: 1.2.3}
  odd: {bool: 7}
capacity: {memory: {value: 80Gi}}
"""
OWN = 'device.attributes["gpu.example.com"]'
CAPACITY = 'device.capacity["gpu.example.com"]'
OTHER = 'device.attributes["dra.example.com"]'


def facts(text: str = DEVICE) -> Facts:
    return Facts("gpu.example.com", dict(reading(struct(Device, text), "gpu.example.com")))


HOLD = [
    'device.driver == "gpu.example.com"',
    f'{OWN}.type == "gpu" && {OWN}.index < 4',
    f"{OWN}.ok",
    f"has({OWN}.type) && !has({OWN}.nothing)",
    f'"type" in {OWN} && !("nothing" in {OWN})',
    f'{OWN}["type"] in ["cpu", "gpu"]',
    f'{OWN}.index > 1 ? {OWN}.type == "gpu" : false',
    f'cel.bind(own, {OWN}, own.type == "gpu" && own.index == 3)',
    f'{OWN}.nothing == "gpu" || true',
    f'{OWN}.productName.lowerAscii().matches("^.*h100$")',
    f'{OWN}.productName.split(" ")[1] == "H100" && {OWN}.productName.indexOf("H") == 7',
    f'{OWN}.productName.substring(0, 6) == "NVIDIA" && "a".upperAscii() == "A" && " a ".trim() == "a"',
    f'{OWN}.tags.exists(tag, tag == "b") && "a" in {OWN}.tags',
    f'{CAPACITY}.memory.compareTo(quantity("40Gi")) > 0 && {CAPACITY}.memory == quantity("81920Mi")',
    f'{CAPACITY}.memory.isGreaterThan(quantity("40Gi")) && {CAPACITY}.memory.isLessThan(quantity("1Ti"))',
    f"{CAPACITY}.memory.isInteger() && {CAPACITY}.memory.asInteger() > 0 && {CAPACITY}.memory.sign() == 1",
    'isQuantity("40Gi") && !isQuantity("many") && isSemver("1.0.0") && !isSemver("1.0")',
    f'{OTHER}.driver.isGreaterThan(semver("1.2.3-alpha.1")) && {OTHER}.driver == semver("1.2.3+build")',
    'semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && semver("1.0.0-a").isLessThan(semver("1.0.0-a.1"))',
    f"{OTHER}.driver.major() == 1 && {OTHER}.driver.minor() == 2 && {OTHER}.driver.patch() == 3",
    "device.allowMultipleAllocations == false",
    f"{OWN}.type != 1 && {OWN}.ok != 1 && !({OWN}.index in ['3', true])",
]


@pytest.mark.parametrize("expression", HOLD)
def test_it_holds(expression):
    """And its opposite does not, after the same reads."""
    selectors = Selectors()
    assert selectors.match((expression,), facts())
    assert not selectors.match((f"!({expression})",), facts())


REFUSED = {
    "(": "cannot be parsed",
    "device.driver": "its result is not a boolean",
    f'{OWN}.nothing == "gpu"': "it fails for a device",
    'device.attributes["unknown"].type == "gpu"': "it fails for a device",
    f"{OWN}.odd": "it fails for a device",
    f"{CAPACITY}.memory < 1": "it fails for a device",
    'semver("1").major() == 1': "it fails for a device",
    f'{OWN}.index.compareTo(quantity("1")) == 0': "it fails for a device",
    f"{OWN}.type.reverse()": "it uses a function that Gangwright does not know",
    f'{OWN}.all(name, name != "")': "it reads all attributes of a device",
    f"size({OWN}) > 1": "it reads all attributes of a device",
    '"gpu.example.com" in device.attributes': "it reads all attributes of a device",
    f'{OWN}.type * 1000000000 == ""': "it fails for a device",
    f'"%999999999d" % {OWN}.index == ""': "it fails for a device",
    '["x"]' + ".map(a, a + a)" * 40 + '[0] == ""': "it builds a text or a list that is too long",
    "(" * 700 + "true" + ")" * 700: "it is nested too deeply",
    "[1,2,3,4,5,6,7,8,9].all(a, " * 5 + "true" + ")" * 5: "it takes too long",
    '"' + "x" * LONGEST + '" == ""': "characters",
}


@pytest.mark.parametrize("expression", REFUSED, ids=lambda text: text[:40])
def test_it_is_not_supported(expression):
    """It says why, at once, and nothing else is raised."""
    began = time.monotonic()
    with pytest.raises(Unsupported, match=REFUSED[expression]):
        Selectors().match((expression,), facts())
    assert time.monotonic() - began < 30


def test_devices_that_differ_in_what_is_not_read_are_evaluated_once(monkeypatch):
    """Thousands of devices with a UUID each: one evaluation for each value of the attribute that is read."""
    calls = []
    evaluated = device_cel.evaluated
    monkeypatch.setattr(device_cel, "evaluated", lambda *all_: calls.append(1) or evaluated(*all_))
    selectors, expression = Selectors(), f'{OWN}.type == "gpu"'
    for number in range(1000):
        kind = ("gpu", "mig")[number % 2]
        own = facts(f"{{attributes: {{type: {{string: {kind}}}, uuid: {{string: u{number}}}}}}}")
        assert selectors.match((expression,), own) is (kind == "gpu")
    assert len(calls) == 2


def test_an_attribute_is_read_with_its_type():
    """1, true and "1" are three values of one attribute."""
    selectors, expression = Selectors(), f"has({OWN}.a) && {OWN}.a == 1"
    assert selectors.match((expression,), facts("attributes: {a: {int: 1}}"))
    for other in ("{bool: true}", "{string: '1'}"):
        assert not selectors.match((expression,), facts(f"attributes: {{a: {other}}}"))
    assert not selectors.match((expression,), facts("attributes: {}"))


def test_an_expression_that_tells_all_devices_apart_ends(monkeypatch):
    """After so many steps it is not supported for further devices; what is known stays known."""
    monkeypatch.setattr(device_selectors, "ALL_STEPS", ALL_STEPS // 100)
    selectors, expression = Selectors(), f'{OWN}.uuid == "u1"'
    first = facts("attributes: {uuid: {string: u1}}")
    assert selectors.match((expression,), first)
    with pytest.raises(Unsupported, match="takes too long"):
        for number in range(1000):
            selectors.match((expression,), facts(f"attributes: {{uuid: {{string: v{number}}}}}"))
    assert selectors.match((expression,), first)


def test_expressions_are_forgotten():
    """No more are kept than a cluster uses."""
    selectors = Selectors()
    for number in range(device_selectors.EXPRESSIONS + 10):
        assert selectors.match((f"{number} == {number}",), facts())
    assert len(selectors._known) <= device_selectors.EXPRESSIONS
