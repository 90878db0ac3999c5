"""Whoever can reach the master's port, and what comes of it."""

import asyncio
import io
import json
import pickle
import ssl
from collections import Counter

import aiohttp
import pytest

from bench.elastic.jobs import job, of_size, slots, whole
from bench.plane import where

pytestmark = pytest.mark.timeout(900)

TURNS = 10

BEAT = {"phase": "Training", "round": 1, "step": 10**6, "values": {"forged": 1.0}}
VALUE = "/v1/rounds/{round}/kv/global/0"
ATTEMPTS = (
    ("nobody", "POST", "/v1/beat", BEAT, 401, "NoToken"),
    ("altered", "POST", "/v1/beat", BEAT, 401, "TokenRefused"),
    ("elsewhere", "POST", "/v1/beat", BEAT, 401, "TokenForOthers"),
    ("stranger", "POST", "/v1/beat", BEAT, 403, "NoWorker"),
    ("stranger", "POST", "/v1/ready", {"round": 1, "why": "failure"}, 403, "NoWorker"),
    ("stranger", "POST", "/v1/exit", {"why": "done", "code": 0}, 403, "NoWorker"),
    ("stranger", "GET", VALUE, None, 403, "NoWorker"),
    ("stranger", "PUT", VALUE, b"10.0.0.7", 403, "NoWorker"),
    ("worker", "POST", "/v1/beat", {**BEAT, "step": -1}, 400, "Invalid"),
    ("worker", "POST", "/v1/leave", {"why": "forged", "grace_s": "now"}, 400, "Invalid"),
    ("worker", "POST", "/v1/exit", b'{"why": "half', 400, "Malformed"),
    ("worker", "POST", "/v1/beat", pickle.dumps(BEAT), 400, "Malformed"),
    ("worker", "POST", "/v1/beat", b" " * (2**20 + 1), 413, "TooLarge"),
    ("worker", "PUT", VALUE, pickle.dumps(("10.0.0.7", 4711)), 400, "Pickle"),
    ("worker", "PUT", "/v1/rounds/99/kv/global/0", b"10.0.0.7", 409, "RoundAhead"),
)
"""Whose token, the request, and how it is refused."""


async def token(jobs, name, uid, audience="gangwright-elastic"):
    """A token of this pod, as its kubelet would get it."""
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    spec = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": bound}
    path = where("serviceaccounts", jobs.namespace, "default", "token")
    return (await jobs.api.create(path, {"spec": spec}))["status"]["token"]


async def test_a_job_is_unharmed_by_strangers(jobs, kubelet, elastic):
    """While it trains, the master hears a foreign pod, tokens that prove nothing, and from a worker's own pod forged,
    broken and oversized bodies and pickles: each is refused and counted; the job's round goes on, and no step is lost.
    """
    await asyncio.to_thread(kubelet.add, slots(2))
    await jobs.submit(job("train", 1, 1))
    trains = await jobs.until("train", of_size(1))
    (pod,) = await jobs.workers("train")
    stranger = await jobs.pod("stranger")
    own = pod["metadata"]["name"], pod["metadata"]["uid"]
    tokens = {
        "worker": await token(jobs, *own),
        "elsewhere": await token(jobs, *own, audience="vault"),
        "stranger": await token(jobs, "stranger", stranger["metadata"]["uid"]),
    }
    tokens["altered"] = tokens["worker"][:-9] + tokens["worker"][-9:][::-1]
    told = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    trust = ssl.create_default_context(cadata=told["GANGWRIGHT_CA"])

    before = await asyncio.to_thread(elastic.metrics)
    sent = Counter()
    async with aiohttp.ClientSession(told["GANGWRIGHT_MASTER"]) as session:
        for who, method, path, body, status, reason in ATTEMPTS * TURNS:
            headers = {"Authorization": f"Bearer {tokens[who]}"} if who in tokens else {}
            raw = json.dumps(body).encode() if isinstance(body, dict) else body
            data = raw and io.BytesIO(raw)
            place = path.format(round=trains["round"])
            async with session.request(method, place, data=data, headers=headers, ssl=trust) as answer:
                found = await answer.json()
                assert (answer.status, found["error"]["reason"]) == (status, reason), (who, method, path)
            sent[reason] += 1
    last = await jobs.last_step("train")
    await jobs.until_step("train", lambda step: step["step"] > last["step"] + 10)

    after = await asyncio.to_thread(elastic.metrics)
    for reason, count in sent.items():
        name = "gangwright_elastic_refusals_total"
        assert after.value(name, reason=reason) - before.value(name, reason=reason) >= count, reason
    still = await jobs.status("train")
    assert (still["round"], still["restarts"], still["phase"]) == (trains["round"], 0, "Running")
    assert "forged" not in still["values"]
    assert [own["name"] for own in still["members"]] == [own["name"] for own in trains["members"]]
    assert await jobs.told("train", "WorkerLost") == []
    assert whole(await jobs.steps("train"))
