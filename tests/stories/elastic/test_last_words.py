"""How a job ends is what happened, not the first exit code."""

import asyncio

import pytest

from bench.elastic.jobs import SCRIPTS, STANDIN, in_phase, job, slots

pytestmark = pytest.mark.timeout(900)

ENDS = {
    "all return": ([], "fail", "Succeeded", "Training finished"),
    "one exits halfway": (
        ["--bad-end", "exit"],
        "fail",
        "EarlyExit",
        " exited with code 0 at step 20, before ",
    ),
    "one returns halfway": (
        ["--bad-end", "return"],
        "fail",
        "EarlyExit",
        " while the training continued in ",
    ),
    "one may exit halfway": (["--bad-end", "exit"], "allow", "Succeeded", "Training finished"),
    "an export fails": (
        ["--bad-end", "export"],
        "fail",
        "ExportFailed",
        "code 1: OSError: No space left on device",
    ),
}
"""What rank 1 does, spec.earlyExit, and how the job ends: succeeded, or failed for a reason; and what it says."""


@pytest.mark.parametrize("case", ENDS)
async def test_the_end_of_a_job_is_what_happened(jobs, kubelet, case):
    """It has succeeded when the training function returned on all members, and nothing is trained again otherwise."""
    words, early, end, said = ENDS[case]
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 2, 2, *STANDIN, "--steps", 40, *words, spec={"earlyExit": early}))
    over = await jobs.until("train", in_phase("Succeeded", "Failed"))

    failed = [
        one["reason"] for one in over["conditions"] if (one["type"], one["status"]) == ("Failed", "True")
    ]
    assert (failed or [over["phase"]]) == [end]
    assert said in over["reason"]
    assert over["restarts"] == 0


async def test_a_script_that_is_not_elastic_runs_once(jobs, kubelet):
    """Plain Horovod ends with code 0 and never enters an elastic function: its job fails at once and says what to do."""
    plain = (
        f"import sys; sys.path.append({str(SCRIPTS)!r}); import standin as hvd; hvd.init(); print(hvd.size())"
    )
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 2, 2, "-c", plain))
    over = await jobs.until("train", in_phase("Succeeded", "Failed"))

    assert over["phase"] == "Failed"
    assert " and never called a function decorated with hvd.elastic.run. " in over["reason"]
    assert over["restarts"] == 0


async def test_a_script_of_another_kind_is_recognized_before_it_trains(jobs, kubelet):
    """Its processes would train for ten minutes, each alone. The job fails as soon as one asks for a process group of
    PyTorch, and no worker is replaced.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 2, 2, SCRIPTS / "other_kind.py"))
    over = await jobs.until("train", in_phase("Succeeded", "Failed"))

    failed = [one["reason"] for one in over["conditions"] if one["type"] == "Failed"]
    assert (over["phase"], failed) == ("Failed", ["NotElastic"])
    sign = (
        " has a script that is not elastic: it calls torch.distributed.init_process_group without Horovod. "
    )
    assert sign in over["reason"]
    assert over["restarts"] == 0
    assert await jobs.told("train", "WorkerLost") == []
