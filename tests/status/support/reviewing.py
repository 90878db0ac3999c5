"""The API server as far as reviews go: whose tokens it knows, what each user may do, and whether it is there."""

import json
from dataclasses import dataclass, field
from typing import Any

from scheduler.errors import Unreachable
from scheduler.serving.token_reviews import TOKENS
from scheduler.status.authorization import ACCESS_REVIEWS

JANE = "token-of-jane"
BOB = "token-of-bob"
ADMIN = "token-of-admin"


@dataclass
class Reviewing:
    """users: by token. rights: (user, verb, resource, namespace), where "" as a namespace means all of them."""

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    rights: set[tuple[str, str, str, str]] = field(default_factory=set)
    audiences: tuple[str, ...] = ("https://kubernetes.default.svc",)
    away: bool = False
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def know(
        self, token: str, user: str, *rights: tuple[str, str, str], groups: tuple[str, ...] = ()
    ) -> None:
        self.users[token] = {"username": user, "groups": list(groups), "uid": f"uid-of-{user}"}
        self.rights |= {(user, *right) for right in rights}

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)

    async def request(self, method, path, *, params=None, body=None, content_type="", timeout=0.0):
        spec = json.loads(body)["spec"]
        self.asked.append((path, spec))
        if self.away:
            raise Unreachable(f"{method} {path}", "as scripted")
        assert method == "POST"
        return json.dumps({"status": self._answers[path](self, spec)}).encode()

    def _token(self, spec):
        user = self.users.get(spec["token"])
        wanted = set(spec.get("audiences") or self.audiences)
        shared = sorted(wanted & set(self.audiences))
        if user is None or not shared:
            return {"authenticated": False, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user, "audiences": shared}

    def _access(self, spec):
        what = spec["resourceAttributes"]
        resource = "/".join(filter(None, (what["resource"], what["subresource"])))
        users = (spec["user"], *(f"group:{group}" for group in spec["groups"]))
        return {
            "allowed": any(
                (user, what["verb"], resource, where) in self.rights
                for user in users
                for where in ("", what["namespace"])
            )
        }

    _answers = {TOKENS: _token, ACCESS_REVIEWS: _access}


def everybody() -> Reviewing:
    """Jane sees team-a, Bob sees nothing, the admin sees and does everything."""
    found = Reviewing()
    found.know(JANE, "jane", ("list", "pods", "team-a"))
    found.know(BOB, "bob")
    found.know(
        ADMIN, "admin", ("list", "pods", ""), ("create", "pods", ""), ("patch", "nodes", ""),
        ("create", "pods/eviction", ""), ("update", "jobs", ""),
    )  # fmt: skip
    return found
