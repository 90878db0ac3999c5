"""A quorum that no round of the rendezvous holds."""

import msgspec

from tests.elastic.controller.house import LIMITS, House, job, pods, status, train


async def test_a_quorum_that_no_round_holds(api, tmp_path):
    """It stands in a condition with field, value and bound, and nothing is started; who trains already goes on as
    before.
    """
    limits = msgspec.structs.replace(LIMITS, ring=2, ring_bound="rendezvous.roundLimit")
    async with House(api, tmp_path, limits=limits) as house:
        job(api)
        actors = await train(house, 2)
        job(api, "large", minWorkers=3)
        job(api, minWorkers=3)
        for name in ("large", "train"):
            await house.until(lambda name=name: accepted(api, name)["status"] == "False")
            said = (
                "spec.minWorkers = 3: at most 2: the rendezvous holds no larger ring (rendezvous.roundLimit)"
            )
            assert accepted(api, name)["message"] == said
        before = actors[0].step
        await house.until(lambda: actors[0].step > before)

        assert pods(api, "large") == []
        assert {quorum(pod) for pod in pods(api)} == {"2"}
        job(api, "large", minWorkers=2)
        await house.until(lambda: len(pods(api, "large")) == 2)


def accepted(api, name):
    """The condition that says whether the spec can be obeyed."""
    found = [one for one in status(api, name).get("conditions", ()) if one["type"] == "Accepted"]
    return found[0] if found else {"status": "Unknown"}


def quorum(pod):
    return pod["metadata"]["annotations"]["gangwright.io/min-members"]
