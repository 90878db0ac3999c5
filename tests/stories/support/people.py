"""People as a cluster knows them: an account with a token and the rights it was given, and the command line in its
hands.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.plane.client import Client, Object, where
from bench.plane.control_plane import Plane
from tests.cli.support.speaking import Said, say

TOKEN_SECONDS = 3600

ROLES = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Person:
    """Whoever holds this kubeconfig."""

    kubeconfig: Path

    async def says(self, *words: str) -> Said:
        """Runs the command as this person."""
        return await asyncio.to_thread(say, *words, KUBECONFIG=str(self.kubeconfig))


async def hired(api: Client, plane: Plane, namespace: str, name: str, folder: Path) -> Person:
    """A service account of this namespace, which may do nothing yet."""
    accounts = where("serviceaccounts", namespace)
    await api.create(accounts, {"metadata": {"name": name}})
    asked = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
    token = (await api.create(f"{accounts}/{name}/token", asked))["status"]["token"]
    found = yaml.safe_load(plane.kubeconfig().read_text(encoding="utf-8"))
    for user in found["users"]:
        user["user"] = {"token": token}
    for context in found["contexts"]:
        context["context"]["namespace"] = namespace
    place = folder / f"{name}.kubeconfig"
    place.write_text(yaml.safe_dump(found), encoding="utf-8")
    return Person(place)


def role(name: str, rules: Sequence[Object]) -> Object:
    """A ClusterRole."""
    return {"apiVersion": f"{ROLES}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [*rules]}


def binding(name: str, role: str, account: str, home: str, *, inside: str = "") -> Object:
    """What gives a ClusterRole to the account of that home: inside of one namespace, or everywhere."""
    meta: dict[str, Any] = {"name": name, **({"namespace": inside} if inside else {})}
    return {
        "apiVersion": f"{ROLES}/v1",
        "kind": "RoleBinding" if inside else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }
