"""The chaos program: what its accountant catches, the order of its faults, the probes it carries out, and one short run."""

import json
import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from bench.chaos import faults, jobs
from bench.chaos.accounts import GANG, PARTLY, QUORUM, SEAT, Accountant
from bench.chaos.keeper import Probe
from bench.plane.nodes import node
from tests.manifests.support.rendering import containers

ROOM = {"cpu": "8", "pods": "110", "nvidia.com/gpu": "8"}
NODES = [node(name, room=ROOM, labels={}) for name in ("n", "m")]


def pod(uid, *, on=None, seat="n", gpus=4, phase="Running", quorum=1, gang="g", deleted=False):
    room = {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    notes = {QUORUM: str(quorum)} | ({SEAT: json.dumps({"node": seat})} if seat else {})
    return {
        "metadata": {"uid": uid, "name": uid, "labels": {GANG: gang}, "annotations": notes}
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
        "spec": {"containers": [{"resources": room}]} | ({"nodeName": on} if on else {}),
        "status": {"phase": phase},
    }


def kinds(*pictures, own=()):
    accountant = Accountant()
    for pods in pictures:
        accountant.look(pods, NODES, own)
    return Counter(kind for kind, _ in accountant.violations)


@pytest.mark.parametrize(
    ("pictures", "caught"),
    [
        ([[pod("a", on="n"), pod("b", on="n")]], {}),
        ([[pod("a", on="n", gpus=8, phase="Succeeded"), pod("b", on="n", gpus=8)]], {}),
        ([[pod("a", on="n", gpus=5), pod("b", seat=None)]], {}),
        (
            [[pod("a", on="n", gpus=5), pod("b", on="n")]] * 2,
            {"over-committed: bound": 1, "over-committed: bound and seats": 1},
        ),
        ([[pod("a", on="n", gpus=5), pod("b")]], {"over-committed: bound and seats": 1}),
        ([[pod("a", on="n", gpus=5), pod("b", deleted=True)]], {}),
        ([[pod("a", on="n", gpus=5), pod("b", on="n", deleted=True)]],
         {"over-committed: bound": 1, "over-committed: bound and seats": 1}),
        ([[pod("a", on="n")], [pod("a", on="m", seat="m")]], {"moved": 1}),
        ([[pod("a", on="n", seat="m")]], {"off its seat": 1}),
        ([[pod("a", on="n", seat=None)]], {"off its seat": 1}),
    ],
)  # fmt: skip
def test_wrong_seats_are_caught(pictures, caught):
    """Over-committed nodes, bound and with seats, moved pods and pods off their seats are violations, each counted once."""
    assert kinds(*pictures) == caught


def test_a_gang_in_part_is_caught():
    """Half a gang bound for over 30 s is a violation; the clock stands in an outage, and a whole gang starts it again."""
    half = [pod("a", on="n", quorum=2), pod("b", quorum=2)]
    whole = [pod("a", on="n", quorum=2, phase="Succeeded"), pod("b", on="n", quorum=2)]
    accountant = Accountant()
    for pods, passed in ((half, 20.0), (half, 0.0), (whole, 5.0), (half, PARTLY), (half, 1.0)):
        accountant.look(pods, NODES, ())
        assert not accountant.violations
        accountant.clock += passed

    accountant.look(half, NODES, ())

    assert list(accountant.violations) == [("partly bound", "g")]
    assert accountant.gangs == {"g"}


def test_a_failed_job_is_caught():
    """A Job whose condition Failed is true is a violation, and one that is complete is none."""
    said = [{"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"}]
    complete = [{"type": "Complete", "status": "True"}]
    own = [
        {"metadata": {"name": name}, "status": {"conditions": c}}
        for name, c in (("a", said), ("b", complete))
    ]

    assert kinds([], own=own) == {"job failed": 1}


def test_faults_follow_from_the_seed():
    """The same seed gives the same faults, another one another order; every kind takes its programs in turns."""
    counts = {"kill": 6, "freeze": 4, "outage": 2}
    first, again, other = (faults.schedule(seed, counts) for seed in (1, 1, 2))

    assert first == again != other
    assert Counter(map(str, first)) == {
        "kill kube-scheduler": 2, "kill extender": 2, "kill both": 2,
        "freeze both": 2, "freeze extender": 2, "outage kube-apiserver": 1, "outage etcd": 1,
    }  # fmt: skip
    assert all(0 <= fault.after <= 0.05 for fault in first)


def test_jobs_are_of_the_sizes_that_are_said():
    """Jobs have 2 to 24 members of 1 to 8 GPUs, and each fits the cluster."""
    chance = random.Random(1)
    drawn = [jobs.drawn(chance, number)["spec"] for number in range(300)]

    assert {spec["parallelism"] for spec in drawn} == set(range(2, 25))
    assert max(jobs.gpus_of({"spec": spec}) for spec in drawn) <= jobs.LARGEST


@pytest.mark.parametrize("which", ["startupProbe", "livenessProbe"])
@pytest.mark.parametrize("name", ["gangwright", "kube-scheduler"])
def test_probes_are_those_of_the_manifest(name, which):
    """Each probe of the rendered Deployment is carried out on this machine's port, with its own scheme, path and times."""
    said = containers()[name][which]
    probe = Probe.read(containers()[name], which, {10259: 1, 10271: 2})

    assert (probe.period, probe.failures) == (said["periodSeconds"], said["failureThreshold"])
    assert probe.url.startswith(said["httpGet"].get("scheme", "HTTP").lower() + "://127.0.0.1:")
    assert probe.url.endswith(said["httpGet"]["path"])


@pytest.mark.plane
@pytest.mark.extended
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="host names of their own take root")
def test_a_short_run():
    """Two kills, a freeze and an outage under load violate nothing, and a bind follows each of them."""
    words = ["--kills", "2", "--freezes", "1", "--outages", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.chaos", *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    *rows, last = map(json.loads, done.stdout.splitlines())
    assert sum(row["n"] for row in rows if row["fault"] != "none") == 4
    assert last["violations"] == {}
    assert last["gangs_bound"] > 10
