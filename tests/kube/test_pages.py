"""A list in pages that are bounded by bytes: nothing is lost or told twice, whatever its objects weigh."""

import msgspec
import pytest

from scheduler import errors
from scheduler.kube import listing
from scheduler.kube.client import Client
from scheduler.kube.listing import Pages, listed
from tests.kube.support.api_server import PODS, ApiServer, Refuse
from tests.kube.support.follower import Cache, Pod, Time, following, pods, until

LARGE = {"spec": {"node": "n" * 30_000}}
"""An object that only the third limit, of four, has room for."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of at most 64 objects and 200 kB; one object has at most 1 MB."""
    monkeypatch.setattr(listing, "PAGE", 64)
    monkeypatch.setattr(listing, "PAGE_BYTES", 200_000)
    monkeypatch.setattr(listing, "ANSWER_LIMIT", 1_000_000)


def limits(api: ApiServer) -> list[int]:
    return [int(call.query["limit"]) for call in api.calls if call.path == PODS and not call.watches]


def fill(api: ApiServer, *kinds: tuple[str, int, dict[str, object]]) -> list[str]:
    """So many objects of each; their names, in order."""
    names = [(f"{kind}-{number}", words) for kind, count, words in kinds for number in range(count)]
    for name, words in names:
        api.put(name, **words)
    return [name for name, _ in names]


async def read(reader: Pages) -> tuple[int, list[int]]:
    """How many objects the whole list has, and how many each page."""
    sizes, token = list[int](), ""
    while True:
        page = await reader.read(token)
        sizes.append(len(page.items or ()))
        if not (token := page.metadata.token):
            return sum(sizes), sizes


async def test_a_page_above_the_bound_is_asked_for_again_smaller(api: ApiServer, client: Client) -> None:
    """Large objects between small ones: the same page comes with fewer of them, and later ones with more again. The
    sink is told of each object once, in order.
    """
    names = fill(api, ("a", 64, {}), ("b", 20, LARGE), ("c", 200, {}))
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: reflector.synced and bool(api.streams))
        assert not reflector.restarts
    assert cache.seen == names
    assert cache.equals(api)
    assert limits(api) == [
        64,
        64,
        16,
        4,
        4,
        4,
        4,
        4,
        4,
        16,
        64,
        64,
        64,
    ]  # twice too long, five of large ones, full again
    tokens = [call.query.get("continue") for call in api.calls if not call.watches]
    assert tokens[1] == tokens[2] == tokens[3] != tokens[4]


async def test_commands_read_the_same_pages(api: ApiServer, client: Client) -> None:
    """What a person's command lists is bounded in the same way."""
    names = fill(api, ("b", 20, LARGE), ("c", 20, {}))
    assert [change.key.name for change in await listed(client, pods())] == names
    assert min(limits(api)) == 4


async def test_the_limit_is_kept_for_the_next_list(api: ApiServer, client: Client) -> None:
    """Large objects are asked for in small pages at once the second time, and small ones in full pages again."""
    fill(api, ("b", 20, LARGE))
    reader = Pages(client, pods())
    assert await read(reader) == (20, [4] * 5)
    before = len(limits(api))
    assert await read(reader) == (20, [4] * 5)
    assert limits(api)[before:] == [4] * 5
    for name in list(api.objects[PODS]):
        api.put(name[1])
    assert await read(reader) == (20, [4, 16])


async def test_one_object_above_the_bound_of_a_page_is_read(api: ApiServer, client: Client) -> None:
    """An object that no page has room for comes alone."""
    names = fill(api, ("a", 5, {}), ("b", 1, {"spec": {"node": "n" * 500_000}}), ("c", 5, {}))
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: reflector.synced)
    assert cache.seen == names
    assert 1 in limits(api)


async def test_an_object_above_all_bounds_is_told(api: ApiServer, client: Client) -> None:
    """What etcd would not hold is not read; the error says so, and each command and reflector goes on living."""
    fill(api, ("b", 1, {"spec": {"node": "n" * 1_100_000}}))
    with pytest.raises(
        errors.TooLong, match=r"^GET /api/v1/pods: 200: the answer has more than 1000000 bytes"
    ):
        await listed(client, pods())
    time = Time()
    async with following(client, Cache(), time) as reflector:
        await until(lambda: len(time.slept) > 2)
        assert reflector.restarts.keys() == {"refused"}
        assert not reflector.synced
        api.put("b-0")
        await until(lambda: reflector.synced)


async def test_a_page_that_breaks_off_is_smaller_next_time(api: ApiServer, client: Client) -> None:
    """The API server ends a page that takes too long, in its middle or before it begins."""
    names = fill(api, ("a", 40, {}))
    reader = Pages(client, pods())
    api.broken = 1
    with pytest.raises(errors.Unreachable):
        await reader.read()
    api.refusals.append(Refuse(504))
    with pytest.raises(errors.ServerError):
        await reader.read()
    assert await read(reader) == (40, [4, 16, 20])
    assert limits(api) == [64, 16, 4, 16, 64]
    api.broken = 2
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: reflector.synced)
        assert reflector.restarts == {"unreachable": 2}
    assert cache.seen == names
    assert limits(api)[5:] == [64, 16, 4, 16, 64]


async def test_an_empty_page_in_the_middle_is_a_page(api: ApiServer, client: Client) -> None:
    """A page whose objects were all sorted out has a token and no items; the list goes on behind it."""
    body = b'{"metadata": {"resourceVersion": "7", "continue": "%s"}, "items": %s}'
    item = b'[{"metadata": {"name": "a", "uid": "u", "resourceVersion": "5"}}]'
    for _ in range(2):
        api.refusals.extend(Refuse(200, body=body % part) for part in ((b"t", b"null"), (b"", item)))
    cache = Cache()
    async with following(client, cache) as reflector:
        await until(lambda: reflector.synced)
    assert cache.seen == ["a"]
    api.refusals.extend(Refuse(200, body=body % part) for part in ((b"t", b"null"), (b"", item)))
    found = await listed(client, pods())
    assert [(change.key.name, type(change.object)) for change in found] == [("a", Pod)]


def test_a_turn_of_the_loop_is_bounded_by_count_and_bytes() -> None:
    """Items of a page are handled in order, in turns of 24 or of a megabyte, and a larger one alone."""
    sizes = [10] * 82 + [600_000] * 3 + [3_000_000] + [10] * 2
    turns = list(listing.slices([msgspec.Raw(b"x" * size) for size in sizes]))
    assert [len(turn) for turn in turns] == [24, 24, 24, 12, 2, 2]
    assert [len(bytes(raw)) for turn in turns for raw in turn] == sizes
