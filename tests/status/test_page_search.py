"""The page finds, sorts and marks gangs, and its address says how: in a real browser."""

import pytest
import pytest_asyncio

from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.world import World
from tests.status.support import chromium
from tests.status.support.browser import browsing
from tests.status.support.page import ENTER, FOUND, shown, text
from tests.status.support.reviewing import ADMIN, JANE, everybody
from tests.status.support.scene import POLICY
from tests.status.support.served import served
from tests.support.builders import some_nodes

pytestmark = [pytest.mark.slow, pytest.mark.skipif(FOUND is None, reason=chromium.MISSING)]

NAMES = (
    "[...document.querySelectorAll('#queue-rows .gang, #gang-rows .gang')].map((one) => one.innerText.trim())"
)

LOOK = """
(name) => {
  const row = [...document.querySelectorAll('.gang')].find((one) => one.innerText.trim() === name);
  const mark = row.querySelector('.cell');
  return `${mark.className} ${mark.dataset.mark} ${getComputedStyle(mark).backgroundColor}`;
}
"""


@pytest.fixture(scope="module")
def crowd():
    """80 nodes in two areas, and twenty gangs that fill forty of them."""
    world = World(some_nodes(areas=2, racks=5, nodes=8, gpu=8), POLICY)
    for number in range(20):
        world.submit(a_gang_of_pods(f"gang-{number}", 2, namespace="team-a", gpu=8))
    world.settle(30)
    return world


@pytest_asyncio.fixture
async def busy(crowd):
    async with served(crowd.engine, everybody(), now=crowd.now, endless=True) as running:
        yield running


async def search(tab, words):
    await tab.run(
        f"document.getElementById('q').value = {words!r};"
        "document.getElementById('q').dispatchEvent(new Event('input')); true"
    )


# ── search ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("huge", ["team-b/huge"]),
        ("TEAM-A tra", ["team-a/train"]),
        ("insufficient", ["team-b/huge"]),
        ("no such gang", []),
    ],
)
async def test_one_box_finds_names_and_reasons(status, words, names):
    """All words must occur in namespace, name, owner, reason or state; the number found is said."""
    async with shown(status, ADMIN) as tab:
        await search(tab, words)
        found, said = await tab.run(NAMES), await text(tab, "#found")

    assert found == names
    assert said == f"{len(names)} of 5 gangs"


async def test_a_search_dims_other_gangs_on_the_map(status):
    """The cells of the gangs that are found keep their color."""
    async with shown(status, ADMIN) as tab:
        await search(tab, "solo")
        clear = await tab.run("document.querySelectorAll('#areas .sample:not(.out)').length")
        dim = await tab.run("document.querySelectorAll('#areas .sample.out').length")

    assert (clear, dim) == (1, 16)


async def test_the_address_has_the_search(status):
    """All users who open it see the same, and it never has the token."""
    async with browsing(FOUND) as tab:
        await tab.show(f"{status.url}/#q=train&sort=name&map=compact&token={ADMIN}")
        await tab.until("!document.getElementById('shown').hidden")
        found, chosen = await tab.run(NAMES), await tab.run("document.getElementById('sort').value")
        strips = await tab.run("document.querySelectorAll('#areas .strip').length")
        place = await tab.run("location.href")
        await search(tab, "")
        cleared = await tab.run("location.href")

    assert (found, chosen, strips) == (["team-a/train"], "name", 8)
    assert place == f"{status.url}/#q=train&sort=name&map=compact"
    assert cleared == f"{status.url}/#sort=name&map=compact"


async def test_an_address_opens_a_gang(status):
    """#NAMESPACE/NAME opens its details, also beside a token and once the page is there; closing them clears it."""
    async with browsing(FOUND) as tab:
        await tab.show(f"{status.url}/#team-a/train&token={ADMIN}")
        await tab.until("document.getElementById('detail').open")
        first, place = await text(tab, "#detail-title"), await tab.run("location.hash")
        await tab.run("location.hash = '#team-b/huge'; true")
        await tab.until("document.getElementById('detail-title').innerText === 'team-b/huge'")
        await tab.run("document.getElementById('detail-close').click()")
        await tab.until("location.hash === ''")
        await tab.run("location.hash = '#team-b/gone'; true")
        await tab.until("document.getElementById('detail').open")
        lost = await text(tab, "#detail-body")

    assert (first, place) == ("team-a/train", "#team-a/train")
    assert "gang gone not found in namespace team-b" in lost


async def test_mine_only_leaves_what_the_reader_may_list(status):
    """Gangs of other namespaces go; the choice is offered only where it makes a difference."""
    async with shown(status, JANE) as tab:
        everything = await tab.run(NAMES)
        await tab.run("document.getElementById('mine').click()")
        mine, place = await tab.run(NAMES), await tab.run("location.hash")
    async with shown(status, ADMIN) as tab:
        offered = await tab.run("!document.getElementById('mine-choice').hidden")

    assert len(everything) == 5
    assert len(mine) == 3
    assert all(name.startswith("team-a/") for name in mine)
    assert (place, offered) == ("#mine=1", False)


async def test_rows_are_sorted(status):
    """By what is chosen; the queue's own order is the first choice."""
    async with shown(status, ADMIN) as tab:
        before = await tab.run(NAMES)
        await tab.run(
            "document.getElementById('sort').value = 'name';"
            "document.getElementById('sort').dispatchEvent(new Event('change')); true"
        )
        after = await tab.run(NAMES)

    assert before[0] == "team-b/huge"
    assert after[:3] == ["team-a/wrong", "team-b/huge", "team-b/late"]


# ── rows ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_sentence_takes_one_line_until_it_is_opened(status):
    """By keyboard; it stays open when its row is drawn again, and a screen reader knows that it can be opened."""
    first = "document.querySelector('#queue-rows details')"
    async with shown(status, ADMIN, 700) as tab:
        closed = await tab.run(f"{first}.querySelector('.said').getBoundingClientRect().height")
        await tab.run(f"{first}.querySelector('summary').focus()")
        await tab.key(*ENTER)
        await tab.until(f"{first}.open")
        status.clock[0] += 5
        await tab.pass_time(10)
        opened = await tab.run(f"{first}.querySelector('.said').getBoundingClientRect().height")
        still = await tab.run(f"{first}.open && {first}.contains(document.activeElement)")
        tree = (await tab.call("Accessibility.getFullAXTree"))["nodes"]

    expanded = [
        one["value"]["value"]
        for node in tree
        for one in node.get("properties", [])
        if one["name"] == "expanded" and node["role"]["value"] == "DisclosureTriangle"
    ]
    assert opened > closed
    assert still is True
    assert True in expanded


# ── marks ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_gang_has_the_same_color_for_all_users(status):
    """It follows from the name, in whatever order the page met the gangs."""
    looks = set()
    for token, sort in ((ADMIN, "name"), (JANE, "age")):
        async with browsing(FOUND) as tab:
            await tab.show(f"{status.url}/#sort={sort}&token={token}")
            await tab.until("!document.getElementById('shown').hidden")
            looks.add(await tab.run(f"({LOOK})('team-a/train')"))

    assert len(looks) == 1


async def test_letters_tell_gangs_apart_where_colors_do_not(busy):
    """Twenty gangs have twenty marks, each of a color and a letter; every letter can be read in both schemes."""
    async with shown(busy, ADMIN) as tab:
        marks = await tab.run(
            "[...document.querySelectorAll('#gang-rows .cell')].map((one) => one.className + one.dataset.mark)"
        )
        shown_letter = await tab.run(
            "getComputedStyle(document.querySelector('#gang-rows .cell'), '::after').content"
        )
    poor = []
    for dark in (False, True):
        async with shown(busy, ADMIN, dark=dark) as tab:
            poor += await tab.run("""
                (async () => {
                  const { COLORS } = await import('./palette.js');
                  const place = document.getElementById('news');
                  const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255)
                    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
                    .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0.05);
                  return [...Array(COLORS).keys()].map((i) => {
                    place.className = `cell sample c${i}`;
                    const style = getComputedStyle(place);
                    const [a, b] = [light(style.color), light(style.backgroundColor)];
                    return [i, Math.max(a, b) / Math.min(a, b)];
                  }).filter(([, ratio]) => !(ratio >= 4.5));
                })()
            """)

    assert len(set(marks)) == len(marks) == 20
    assert shown_letter.startswith("attr(data-mark)") or len(shown_letter.split("/")[0].strip()) == 3
    assert poor == []


async def test_the_gang_under_the_pointer_stands_out(status):
    """A row lights its cells, by focus too, and a cell lights its row."""
    lit = "document.querySelectorAll('#areas .sample.lit').length"
    button = (
        "[...document.querySelectorAll('#gang-rows button')].find((one) => one.innerText.includes('train'))"
    )
    async with shown(status, ADMIN) as tab:
        await tab.run(f"{button}.focus()")
        by_focus = await tab.run(lit)
        await tab.run("document.activeElement.blur()")
        none = await tab.run(lit)
        await tab.run(
            "document.querySelector('#areas .sample').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
        )
        rows = await tab.run(
            "[...document.querySelectorAll('tr.lit .gang')].map((one) => one.innerText.trim())"
        )

    assert (by_focus, none) == (16, 0)
    assert rows == ["team-a/train"]


async def test_a_cell_opens_its_gang(status):
    """A click on the map is a click on the gang's name."""
    async with shown(status, ADMIN) as tab:
        await tab.run("document.querySelector('#areas .sample').click()")
        await tab.until("document.getElementById('detail').open")
        title = await text(tab, "#detail-title")

    assert title == "team-a/train"


# ── the map ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_large_cluster_has_a_compact_map(busy):
    """One strip for each node, and an area in full where the reader zooms in; the reader may choose otherwise."""
    count = "[document.querySelectorAll('#areas .strip').length, document.querySelectorAll('#areas .node').length]"
    async with shown(busy, ADMIN) as tab:
        compact = await tab.run(count)
        spoken = await tab.run("document.querySelector('#areas .rack-row').textContent")
        await tab.run("document.querySelector('[data-zoom=\"area a1\"]').click()")
        zoomed, place = await tab.run(count), await tab.run("location.hash")
        await tab.run("document.querySelector('[data-zoom=\"area a1\"]').click()")
        back = await tab.run(count)
        await tab.run(
            "document.getElementById('form').value = 'full';"
            "document.getElementById('form').dispatchEvent(new Event('change')); true"
        )
        full = await tab.run(count)

    assert (compact, zoomed, back, full) == ([80, 0], [0, 40], [80, 0], [0, 80])
    assert place == "#area=area+a1"
    assert ": 8 nodes, " in spoken
    assert "team-a/gang-" in spoken


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_numbers_agree(status):
    """A share says 0% or 100% only where that is exact, and times have one format in every language."""
    async with browsing(FOUND) as tab:
        await tab.call("Emulation.setLocaleOverride", locale="de-DE")
        await tab.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        await tab.show(f"{status.url}/")
        said = await tab.run("""
            import('./words.js').then((words) => [
              ...[0, 0.001, 0.5, 0.998, 0.99999, 1, 1.04].map(words.percent),
              words.ratio('cpu', 1500, 9600000), words.ratio('nvidia.com/gpu', 2, 960), words.moment(1e9),
            ])
        """)

    assert said == [
        *("0%", "1%", "50%", "99%", "99%", "100%", "104%"),
        *("1.5 of 9,600 cores", "2 of 960", "Sep 9, 01:46"),
    ]
