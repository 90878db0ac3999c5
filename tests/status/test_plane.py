"""The status service on a real control plane: real tokens, real RBAC, and no right beyond those of manifests/."""

import asyncio
import json
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.plane import Fleet, Plane, nodes, where
from bench.plane.certificates import Identity
from bench.plane.client import Client
from bench.plane.installation import EXTENDER, Installation
from scheduler.objects import labels
from scheduler.serving.token_reviews import TOKENS

pytestmark = pytest.mark.plane

TENANTS = ("team-a", "team-b")
READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reader", "namespace": "team-a"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "create"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "reader", "namespace": "team-a"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [
        {"kind": "ServiceAccount", "name": "default", "namespace": "team-a"},
        {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"},
    ],
}
JANE = Identity("jane")
"""Known by a client certificate; a service account is known by a token. Both have one namespace's rights and no more."""
COMMANDS = {
    "list": ["list", "-A"],
    "queue": ["queue"],
    "explain": ["explain", "team-a/gang-of-team-a"],
    "nodes": ["nodes"],
    "simulate": ["simulate", "-n", "team-a", "-f"],
}


@dataclass
class Told:
    """What the service answered, by who asked."""

    jane: dict[str, Any]
    stranger: int
    nobody: int
    detail: int
    foreign: int
    drained: int
    revoked: int
    commands: dict[tuple[str, str], "subprocess.CompletedProcess[str]"]
    pages: dict[str, str]
    """The user that the page of `gangwright ui` names, by how it is known."""
    refused: list[Any]
    used: set[tuple[str, str]]
    denied: dict[str, list[Any]]
    """What the API server forbade each of the two people while it ran the commands."""


@pytest.fixture(scope="module")
def told() -> Told:
    with (
        Plane(controllers=True, audit=True) as plane,
        Installation(plane, scheduler=False, aggregated=True) as gangwright,
    ):
        answers = asyncio.run(_asked(plane, gangwright))
        people = {"token": "system:serviceaccount:team-a:default", "certificate": JANE.user}
        return Told(
            **answers,
            refused=plane.audit.refused(EXTENDER.user),
            used=plane.audit.used(EXTENDER.user),
            denied={road: plane.audit.refused(user) for road, user in people.items()},
        )


async def _asked(plane: Plane, gangwright: Installation) -> dict[str, Any]:
    async with plane.client() as admin, aiohttp.ClientSession() as session:
        await nodes.create(admin, Fleet(racks=2, nodes_per_rack=2))
        for namespace in TENANTS:
            await admin.create(where("namespaces"), {"metadata": {"name": namespace}})
            await admin.until(where("serviceaccounts", namespace, "default"), bool)
            await admin.create(where("pods", namespace), _pod(f"gang-of-{namespace}"))
        plane.apply([READER, BINDING])
        token = await _token(admin, "team-a")

        async def ask(path: str, word: str | None, method: str = "GET") -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {word}"} if word else {}
            body = {} if method == "POST" else None
            address = f"{gangwright.status}{path}"
            async with session.request(method, address, headers=headers, json=body) as answer:
                return answer.status, await answer.json()

        async with asyncio.timeout(30):
            while len((jane := (await ask("/v1/gangs", token))[1])["gangs"]) < len(TENANTS):
                await asyncio.sleep(0.2)
        node = (await ask("/v1/nodes", token))[1]["nodes"][0]["name"]
        found = {
            "jane": jane,
            "stranger": (await ask("/v1/gangs", "no.such.token"))[0],
            "nobody": (await ask("/v1/gangs", None))[0],
            "detail": (await ask("/v1/gangs/team-a/gang-of-team-a", token))[0],
            "foreign": (await ask("/v1/gangs/team-b/gang-of-team-b", token))[0],
            **await asyncio.to_thread(_commands, plane, token),
            "drained": (await ask(f"/v1/nodes/{node}/drain", token, "POST"))[0],
        }
        await admin.delete(where("serviceaccounts", "team-a", "default"))
        fresh = await _token(admin, "team-b")
        await admin.delete(where("serviceaccounts", "team-b", "default"))
        async with asyncio.timeout(20):  # the API server learns of it by a watch of its own
            while (await admin.create(TOKENS, {"spec": {"token": fresh}}))["status"].get("authenticated"):
                await asyncio.sleep(0.05)
        return found | {"revoked": (await ask("/v1/gangs", fresh))[0]}


def _commands(plane: Plane, token: str) -> dict[str, Any]:
    """Each command and the page as each of the two people runs it, with nothing but its kubeconfig."""
    by_certificate = plane.kubeconfig(JANE)
    document = json.loads(by_certificate.read_text())
    document["users"][0]["user"] = {"token": token}
    by_token, manifest = plane.folder / "by-token.kubeconfig", plane.folder / "job.json"
    by_token.write_text(json.dumps(document))
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **_pod("tried", 1)}))
    found = {}
    for road, kubeconfig in ("token", by_token), ("certificate", by_certificate):
        for name, words in COMMANDS.items():
            last = [str(manifest)] if name == "simulate" else []
            found[road, name] = _run(kubeconfig, *words, *last)
    return {"commands": found, "pages": {"token": _page(by_token), "certificate": _page(by_certificate)}}


def _page(kubeconfig: Path) -> str:
    """The user that the page is told."""
    command = [sys.executable, "-m", "scheduler", "ui", "--no-browser", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url, _, secret = process.stdout.readline().strip().partition("#token=")
        try:
            asked = urllib.request.Request(f"{url}v1/cluster", headers={"Authorization": f"Bearer {secret}"})
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return json.load(answer)["user"]
        finally:
            process.terminate()


def _run(kubeconfig: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "scheduler", *words, f"--kubeconfig={kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _pod(gang: str, members: int = 2) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{gang}-0",
            "labels": {labels.GANG: gang},
            "annotations": {labels.MIN_MEMBERS: str(members)},
        },
        "spec": {"schedulerName": "gangwright", "containers": [{"name": "main", "image": "none"}]},
    }


async def _token(admin: Client, namespace: str) -> str:
    path = f"{where('serviceaccounts', namespace, 'default')}/token"
    made = await admin.create(path, {"spec": {"expirationSeconds": 600}})
    return str(made["status"]["token"])


def test_a_service_account_sees_the_names_of_its_own(told):
    """Its token is believed, its Role shows it one namespace, and the other gang is a number."""
    names = {row["name"] for row in told.jane["gangs"]}

    assert names == {"gang-of-team-a", None}
    assert told.detail == 200
    assert told.foreign == 403


@pytest.mark.parametrize("road", ["token", "certificate"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers_a_user_of_one_namespace(told, road, name):
    """After the documented install alone, by token and by client certificate: names of others stay hidden."""
    done = told.commands[road, name]

    assert (done.returncode, done.stderr) == (0, "")
    assert "team-b" not in done.stdout
    if name in {"list", "queue", "explain"}:
        assert "gang-of-team-a" in done.stdout


def test_the_api_server_forbids_them_nothing(told):
    """Each command asks only what its user may ask."""
    assert told.denied == {"token": [], "certificate": []}


def test_tokens_that_nobody_made_are_refused(told):
    """No token, one that is none, and one whose account is gone."""
    assert (told.nobody, told.stranger, told.revoked) == (401, 401, 401)


def test_acting_needs_rights_that_a_reader_has_not(told):
    """Draining a node is not for whoever may look."""
    assert told.drained == 403


def test_our_own_rights_suffice(told):
    """Under the roles of manifests/ nothing was refused to Gangwright, and both reviews were used."""
    assert told.refused == []
    assert {
        ("create", "tokenreviews.authentication.k8s.io"),
        ("create", "subjectaccessreviews.authorization.k8s.io"),
        ("get", "configmaps"),
        ("get", "secrets"),
        ("update", "secrets"),
        ("get", "apiservices.apiregistration.k8s.io"),
        ("patch", "apiservices.apiregistration.k8s.io"),
    } <= told.used


def test_the_page_opens_with_any_kubeconfig(told: Told):
    """`gangwright ui` asks through the API server, which knows a person by a token or by a client certificate."""
    assert told.pages == {"token": "system:serviceaccount:team-a:default", "certificate": JANE.user}
