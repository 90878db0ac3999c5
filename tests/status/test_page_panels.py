"""The page's quotas, timeline and dry runs, and what axe-core says of all of it: in a real browser."""

import json
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import yaml

from scheduler.clock import steady
from scheduler.model import events as ev
from scheduler.model.decision import Reason
from scheduler.model.policy import Policy
from scheduler.model.preemption_units import Kind, Unit
from scheduler.model.queueing import Estimate, Share
from scheduler.model.workload import GangKey, Uid
from scheduler.status.operator_api import Trial
from tests.engine.support.cast import a_gang_of_pods
from tests.engine.support.world import World
from tests.status.support import axe, chromium
from tests.status.support.page import FOUND, shown, text
from tests.status.support.reviewing import ADMIN, BOB, JANE, everybody
from tests.status.support.scripted import Scripted
from tests.status.support.served import served
from tests.support.builders import GPU, some_nodes

pytestmark = [pytest.mark.slow, pytest.mark.skipif(FOUND is None, reason=chromium.MISSING)]

SAMPLES = sorted((Path(__file__).parents[2] / "manifests" / "samples").rglob("*.yaml"))

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata:
      labels:
        gangwright.io/gang: train
      annotations:
        gangwright.io/min-members: "2"
    spec:
      schedulerName: gangwright
      containers:
        - name: worker   # reads nothing
          image: training:1
          args: ["--steps", "100"]
          resources:
            limits: {nvidia.com/gpu: 8}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  text: |
    kind: Pod
"""


class Seer(Scripted):
    """Forecasts one gang from now on."""

    def forecasts(self):
        now = steady()
        return {GangKey("team-b", "next"): Estimate(now + 900, now + 600, now + 1800)}


@pytest.fixture(scope="module")
def world():
    """Today: team-a/old ended, team-a/train runs, team-b/next waits, with shares; team-b/secret ended too."""
    shares = {"team-a": Share(((GPU, 4),), ((GPU, 32),)), "team-b": Share(((GPU, 8),), ())}
    made = World(some_nodes(areas=2, racks=2, nodes=2, gpu=8), Policy(shares=shares))
    made.api.now = steady() - 3600
    for name, namespace in (("old", "team-a"), ("secret", "team-b"), ("train", "team-a")):
        made.submit(a_gang_of_pods(name, 2, namespace=namespace, gpu=8))
    made.settle(10)
    made.advance(600)
    gone = [pod for pod in made.api.pods.values() if pod.key.name.startswith(("old", "secret"))]
    made.engine.observe([ev.PodGone(pod.uid, pod.key) for pod in gone], made.now)
    made.submit(a_gang_of_pods("next", 8, namespace="team-b", gpu=8))
    made.settle(10)
    return made


@pytest.fixture
def operator():
    return Seer()


@pytest_asyncio.fixture
async def status(world, operator):
    async with served(world.engine, everybody(), now=world.now, operator=operator, endless=True) as running:
        yield running


async def try_out(tab, manifest):
    await tab.run(
        f"document.getElementById('manifest').value = {json.dumps(manifest)};"
        "document.getElementById('trial-form').requestSubmit(); true"
    )
    await tab.until(
        "document.getElementById('outcome').innerText && !document.getElementById('try').disabled"
    )
    return await text(tab, "#outcome")


# ── quotas ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_quotas_are_shown(status):
    """Use, guarantee, ceiling and pending requests of each namespace; namespaces of others are one row."""
    rows = "[...document.querySelectorAll('#quota-rows tbody tr')].map((row) => [...row.children].map((one) => one.innerText))"
    async with shown(status, ADMIN) as tab:
        everything = await tab.run(rows)
    async with shown(status, JANE) as tab:
        hers = await tab.run(rows)

    assert everything == [
        ["team-a", "gpu", "", "16", "4", "12", "32", "–"],
        ["team-b", "gpu", "", "0", "8", "–", "none", "64"],
    ]
    assert hers[0] == everything[0]
    assert hers[1] == ["1 other", *everything[1][1:]]


# ── timeline ────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_timeline_shows_past_present_and_forecast(status):
    """A bar for each gang, a name that says what is drawn, and the same times as a table."""
    async with shown(status, ADMIN) as tab:
        kinds = await tab.run(
            "['.run.over', '.run:not(.over)', '.soon'].map((one) => document.querySelectorAll(`#timeline ${one}`).length)"
        )
        spoken = await tab.run("document.querySelector('#timeline svg').getAttribute('aria-label')")
        await tab.run("document.querySelector('#timeline summary').click()")
        table = await tab.run(
            "[...document.querySelectorAll('#timeline tbody tr')].map((row) => row.innerText.split('\\t').map((one) => one.trim()))"
        )

    states = {row[0]: row[1] for row in table}
    assert kinds == [2, 2, 1]  # the middle of a forecast is a bar too
    assert "2 ended gangs, 1 running, 1 forecast. The table below has the times." in spoken
    assert states == {
        "team-a/old": "deleted",
        "team-b/secret": "deleted",
        "team-a/train": "running",
        "team-b/next": "waiting",
    }
    assert table[-1][-1].startswith("in 1")


async def test_the_timeline_hides_what_the_reader_may_not_know(status):
    """Ended gangs of other namespaces are missing; a running one has no name."""
    async with shown(status, JANE) as tab:
        hers = await text(tab, "#timeline")
    async with shown(status, BOB) as tab:
        his = await text(tab, "#timeline")

    assert "team-a/old" in hers
    assert "secret" not in hers + his
    assert "team-" not in his
    assert "hidden" in his


# ── dry runs ────────────────────────────────────────────────────────────────────────────────────────────


async def test_manifests_are_tried_out(status, operator):
    """Pods, count and namespace reach the service; the answer has the nodes, which the map marks. Nothing else is sent."""
    async with shown(status, ADMIN) as tab:
        said = await try_out(tab, JOB)
        marked = await tab.run("[...document.querySelectorAll('.tried')].map((one) => one.dataset.node)")
        wrongs = tab.wrongs()

    (name, pods), *rest = operator.asked
    assert (name, rest) == ("simulate", [])
    assert [pod.key for pod in pods] == [("default", "pod-0"), ("default", "pod-1")]
    assert dict(pods[0].demand.requests)[GPU] == 8
    assert pods[0].membership.gang == GangKey("default", "train")
    assert "starts now default/train 2 pods" in said
    assert "a0-r0-n0\t2" in said
    assert "ConfigMap/settings" in said
    assert (marked, wrongs) == (["a0-r0-n0"], [])


async def test_the_gangs_that_it_would_preempt_are_named(status, operator, world):
    """As far as the reader may know them."""
    train = world.record("train", "team-a")
    unit = Unit(
        *(train.key, Kind.GANG, tuple(map(Uid, train.members)), np.zeros(2, int), np.zeros((2, 1))),
        priority=0,
        lost=120.0,
    )

    async def simulate(pods):
        return Trial(
            Reason.SEATED, "2 pods would be preempted", {pod.uid: "a0-r0-n0" for pod in pods}, (unit,)
        )

    operator.simulate = simulate
    async with shown(status, ADMIN) as tab:
        said = await try_out(tab, JOB)

    assert "would preempt default/train" in said
    assert "team-a/train\tgang\t2\t0\t2 min" in said


@pytest.mark.parametrize(
    ("manifest", "remedy"),
    [
        ("kind: Job\n\tspec: 1", "tab characters must not be used in indentation (2:1)"),
        ("kind: Job\nmetadata: {name: a}\nspec: {}", "Job/a: its pods are unknown"),
        ("a: [1, 2", "unexpected end of the stream within a flow collection (1:9)"),
        ("a: 1\nb", "expected ':' after a mapping key (2:2)"),
        ("- 1", "must contain only Kubernetes objects"),
        ("kind: RayJob\nmetadata: {name: a}\nspec: {}", "gangwright simulate -f FILE"),
    ],
)
async def test_a_wrong_manifest_is_told(status, operator, manifest, remedy):
    """With its line, and without a request."""
    async with shown(status, ADMIN) as tab:
        said = await try_out(tab, manifest)

    assert remedy in said
    assert operator.asked == []


async def test_without_the_right_to_create_pods_nothing_is_simulated(status, operator):
    """The page says which right is missing."""
    async with shown(status, JANE) as tab:
        said = await try_out(tab, JOB)

    assert "you may not create pods in namespace default" in said
    assert operator.asked == []


async def test_a_dry_run_leaves_with_its_user(status):
    """After signing out, neither the manifest nor the outcome is on the page for the next user."""
    async with shown(status, ADMIN) as tab:
        before = await try_out(tab, JOB)
        await tab.run("document.getElementById('leave').click()")
        after = await tab.run("document.getElementById('outcome').textContent")
        manifest = await tab.run("document.getElementById('manifest').value")

    assert before
    assert (after, manifest) == ("", "")


async def test_sample_manifests_are_read_as_others_read_them(status):
    """Every sample manifest, with anchors and long strings too, has the same documents for the page as for Python."""
    written = [
        'a: &x {b: 1}\nc: *x\nd: "long\n  text"',
        *(own.read_text(encoding="utf-8") for own in SAMPLES),
    ]
    async with shown(status, ADMIN) as tab:
        found = await tab.run(
            f"import('./js-yaml.mjs').then(({{loadAll}}) => JSON.stringify({json.dumps(written)}.map((own) => loadAll(own))))"
        )

    assert json.loads(found) == [list(yaml.safe_load_all(text)) for text in written]


# ── accessibility ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not axe.SCRIPT.exists(), reason=axe.MISSING)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
async def test_axe_finds_no_violation(status, width, dark):
    """Neither on the page with all panels, nor in the details of a gang; and nothing is wider than a phone."""
    async with shown(status, ADMIN, width, dark=dark) as tab:
        await try_out(tab, JOB)
        await tab.run("for (const one of document.querySelectorAll('details')) one.open = true")
        await tab.run(axe.SCRIPT.read_text(encoding="utf-8") + ";true")
        page = await tab.run(axe.VIOLATIONS)
        wide = await tab.run("document.documentElement.scrollWidth")
        await tab.run("document.querySelector('#queue-rows button.gang').click()")
        await tab.until("document.getElementById('detail').open")
        dialog = await tab.run(axe.VIOLATIONS)

    assert page == []
    assert dialog == []
    assert wide <= width
