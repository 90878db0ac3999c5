"""The page in a real browser: what it shows, to whom, and that nothing written by a stranger becomes more than text."""

import pytest

from scheduler.model import events as ev
from scheduler.model.workload import Asleep, OwnerTraits
from tests.engine.support.cast import a_gang_of_pods, a_membership
from tests.status.support import chromium
from tests.status.support.browser import browsing
from tests.status.support.page import CONTRASTS, ENTER, ESCAPE, FOUND, TAB, shown, text
from tests.status.support.reviewing import ADMIN, BOB, JANE
from tests.status.support.scene import HOSTILE, a_scene

pytestmark = [pytest.mark.slow, pytest.mark.skipif(FOUND is None, reason=chromium.MISSING)]

REQUESTS = "performance.getEntriesByType('resource').length"


@pytest.fixture
def world():
    return a_scene()


async def test_the_page_shows_queue_nodes_and_gangs(status):
    """With reasons and numbers, and with a cell for every GPU in its gang's colour."""
    async with shown(status, ADMIN) as tab:
        queue, areas = await text(tab, "#queue"), await text(tab, "#areas")
        cells = await tab.run("document.querySelectorAll('#areas .cell').length")
        tinted = await tab.run("document.querySelectorAll('#areas .cell.sample').length")
        colours = await tab.run(
            "new Set([...document.querySelectorAll('#areas .cell.sample')]"
            ".map((one) => getComputedStyle(one).backgroundColor)).size"
        )
        wrongs = tab.wrongs()

    assert "team-b/huge" in queue
    assert "needs 12 × 4 nvidia.com/gpu; the cluster fits 11" in queue
    assert "2 of 3 exist" in queue
    assert "rack a1-r1" in areas
    assert (cells, tinted, colours) == (64, 17, 2)
    assert wrongs == []


async def test_suspended_gangs_have_a_place_of_their_own(world, status):
    """Which is not there while there are none; how they go on is said, and they are not among those that are placed."""
    asleep = Asleep("nightly", "gangwright", a_membership("night", 4, namespace="team-b"))
    seen = ev.OwnerSeen(OwnerTraits("nightly", remakes_freely=True, namespace="team-b", asleep=asleep))
    async with shown(status, ADMIN) as tab:
        before = await tab.run("document.getElementById('asleep').hidden")
        world.engine.observe([seen], world.now)
        await tab.until("!document.getElementById('asleep').hidden")
        asleep_rows, placed = await text(tab, "#asleep"), await text(tab, "#gang-rows")
        wrongs = tab.wrongs()

    assert before is True
    assert "team-b/night" in asleep_rows
    assert "to resume it, run: gangwright resume team-b/night" in asleep_rows
    assert "night" not in placed
    assert wrongs == []


async def test_hidden_gangs_have_no_names(status):
    """Whoever may read one namespace sees the others' gangs as numbers."""
    async with shown(status, JANE) as tab:
        whole = await tab.run("document.documentElement.outerHTML")
        seen = await text(tab)

    assert "team-a/train" in seen
    assert "hidden" in seen
    assert "team-b" not in whole
    assert "huge" not in whole


async def test_hostile_names_stay_text(world, status):
    """What a user wrote as a name, a label or an annotation is shown as he wrote it, and makes no element."""
    world.submit(a_gang_of_pods(HOSTILE, 2, namespace="team-a", gpu=1))
    world.submit(a_gang_of_pods('"><script>alert(1)</script>', 9, namespace="team-a", gpu=8))
    world.settle(10)
    async with shown(status, ADMIN) as tab:
        elements = await tab.run(
            "document.querySelectorAll('img:not([src=\"icon.svg\"]), main script').length"
        )
        queue, gangs, areas = [await text(tab, f"#{place}") for place in ("queue", "gang-rows", "areas")]
        await tab.run(
            "[...document.querySelectorAll('#gang-rows button.gang')].find((one) => one.innerText.includes('img')).click()"
        )
        await tab.until("document.getElementById('detail').open")
        title = await text(tab, "#detail-title")
        after = await tab.run("document.querySelectorAll('img:not([src=\"icon.svg\"]), main script').length")
        wrongs = tab.wrongs()

    assert (elements, after) == (0, 0)
    assert HOSTILE in queue
    assert f"team-a/{HOSTILE}" in gangs
    assert "<script>" in queue
    assert f"team-a/{HOSTILE}" in areas
    assert title == f"team-a/{HOSTILE}"
    assert wrongs == []


async def test_the_token_stays_in_memory(status):
    """It is in no address, in no storage unless it is asked for, and gone after a reload."""
    async with shown(status, ADMIN) as tab:
        kept = await tab.run("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        addresses = await tab.run(
            "[location.href, ...performance.getEntriesByType('resource').map((one) => one.name)].join()"
        )
        field = await tab.run("document.getElementById('token').value")
        await tab.call("Page.reload")
        await tab.until("document.readyState === 'complete' && !document.getElementById('door').hidden")

    assert ADMIN not in kept + addresses + field
    assert all(one.startswith(status.url) for one in addresses.split(","))


async def test_the_token_is_remembered_where_that_is_asked_for(status):
    """Until the tab is closed, or until it is to be forgotten."""
    async with shown(status, ADMIN, keep=True) as tab:
        await tab.call("Page.reload")
        await tab.until("document.getElementById('shown')?.hidden === false")
        await tab.run("document.getElementById('leave').click()")
        await tab.until("!document.getElementById('door').hidden")
        kept = await tab.run("JSON.stringify({...sessionStorage})")

    assert ADMIN not in kept


async def test_the_page_is_live(world, status):
    """A gang that comes, and a gang that goes, are shown without anybody's doing; it can be paused."""
    async with shown(status, ADMIN) as tab:
        world.submit(a_gang_of_pods("fresh", 1, namespace="team-a", gpu=2))
        world.settle(10)
        await tab.until("document.getElementById('gang-rows').innerText.includes('team-a/fresh')")
        news = await text(tab, "#news")
        await tab.run("document.getElementById('live').click()")
        paused = await tab.run("document.getElementById('live').getAttribute('aria-pressed')")
        asked = await tab.run(REQUESTS)
        await tab.pass_time(60)
        later = await tab.run(REQUESTS)

    assert "pending gangs. First: team-b/huge" in news
    assert paused == "false"
    assert later == asked


async def test_the_page_says_what_its_replica_does(world, status):
    """That it acts, and while it has lost sight of the cluster that nobody is placed."""
    async with shown(status, ADMIN) as tab:
        acts = await text(tab, "#standing")
        world.engine.observe([ev.LostSight()], world.now)
        await tab.until("document.getElementById('standing').textContent.includes('scheduling paused')")

    assert acts.endswith("Active replica")


async def test_an_unknown_token_is_told(status):
    """In words that are read out, and the door stays."""
    async with browsing(FOUND) as tab:
        await tab.show(f"{status.url}/")
        await tab.until("!document.getElementById('door').hidden")
        await tab.run(
            "document.getElementById('token').value = 'foreign'; document.getElementById('door-form').requestSubmit(); true"
        )
        await tab.until("!document.getElementById('trouble').hidden")
        said, role = await text(tab, "#trouble"), await tab.run("document.getElementById('trouble').role")
        hidden = await tab.run("document.getElementById('shown').hidden")

    assert "the token is invalid or expired" in said
    assert role == "alert"
    assert hidden is True


async def test_an_outage_is_told_and_ends(status, reviewing):
    """What was seen stays on the page meanwhile."""
    async with shown(status, BOB) as tab:
        reviewing.away = True
        status.clock[0] += 120
        await tab.until("!document.getElementById('trouble').hidden")
        said, cells = (
            await text(tab, "#trouble"),
            await tab.run("document.querySelectorAll('#areas .cell').length"),
        )
        reviewing.away = False
        await tab.until("document.getElementById('trouble').hidden")

    assert "the API server does not answer" in said
    assert cells == 64


async def test_a_gang_is_opened_and_closed_by_keyboard(status):
    """Tab comes to it, Enter opens it, Escape closes it, and the focus is back where it was."""
    async with shown(status, ADMIN) as tab:
        await tab.run("document.getElementById('queue').focus()")
        await tab.key(*TAB)
        focused = await tab.run("document.activeElement.innerText")
        await tab.key(*ENTER)
        await tab.until("document.getElementById('detail').open")
        inside = await text(tab, "#detail")
        await tab.key(*ESCAPE)
        await tab.until("!document.getElementById('detail').open")
        back = await tab.run("document.activeElement.innerText")

    assert focused.strip() == back.strip() == "team-b/huge"
    assert "[object" not in inside
    assert "pack by rack" in inside
    assert "Missing resources" in inside
    assert "The gang needs 12" in inside
    assert "Reservation\nstarts by " in inside


async def test_a_redraw_does_not_take_the_focus(world, status):
    """Whoever stands on a gang stands on it still when its row is drawn anew."""
    async with shown(status, ADMIN) as tab:
        await tab.run("document.querySelector('#queue-rows button.gang').focus()")
        world.submit(a_gang_of_pods("another", 9, namespace="team-b", gpu=8))
        world.settle(10)
        await tab.until("document.getElementById('queue-rows').innerText.includes('another')")
        focused = await tab.run("document.activeElement.innerText")

    assert focused.strip() == "team-b/huge"


@pytest.mark.parametrize("width", [1280, 375])
async def test_a_screen_reader_finds_its_way(status, width):
    """Tables with names and heads, headings, buttons with names, and a node in words; on a phone too."""
    async with shown(status, ADMIN, width) as tab:
        tree = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
    roles = [
        (node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]
    ]
    named = {role: [name for kind, name in roles if kind == role] for role, _ in roles}

    assert named["table"] == ["Pending gangs", "Running gangs", "Quotas"]
    assert {"Gang", "Position", "Reason", "Members", "Devices", "Waiting", "Starts", "Priority"} <= set(
        named["columnheader"]
    )
    assert len(named["rowheader"]) == 7
    assert {
        "Overview",
        "Queue",
        "Cluster",
        "Timeline",
        "Running gangs",
        "Quotas",
        "Would it start?",
        "area a0",
    } <= set(named["heading"])
    assert all(named["button"])
    assert named["combobox"] == ["Sort by", "Show", "Map", "Past"]
    assert named["searchbox"] == ["Search for gangs"]
    everything = " ".join(name for _, name in roles)
    assert "0 of 8 gpu free, team-a/train 8" in everything


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("dark", [False, True])
async def test_it_can_be_read(status, tmp_path, width, dark):
    """Nothing is wider than the screen, every text has contrast enough, and there is a picture to look at."""
    async with shown(status, ADMIN, width, dark=dark) as tab:
        wide = await tab.run("document.documentElement.scrollWidth")
        poor = await tab.run(CONTRASTS)
        picture = await tab.picture(tmp_path / f"page-{width}-{'dark' if dark else 'light'}.png")

    assert wide <= width
    assert poor == []
    assert picture.stat().st_size > 10_000
