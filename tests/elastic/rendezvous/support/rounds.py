"""Rounds as tests of the rendezvous need them, and its questions that wait."""

import asyncio


async def a_round(running, *uids, job="team/job"):
    """These workers as the members of the job's next round."""
    for uid in uids:
        if uid not in running.desk.workers:
            running.hire(uid, job)
    return await running.desk.publish(job, uids)


async def until_one_waits(running):
    """Until the rendezvous has a question that waits."""
    while running.metrics.registry.get_sample_value("gangwright_elastic_waits") == 0:
        await asyncio.sleep(0)
