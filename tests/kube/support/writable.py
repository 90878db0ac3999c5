"""The small API server with writes: what a controller makes, changes and removes is then told by its watches.

What it honours: POST (AlreadyExists; the API server adds uid and version), PUT and merge PATCH with a
`resourceVersion` (409 when it is not the newest) and a uid (422 when it is another's) as preconditions, `/status` apart
from the rest, DELETE with a uid as precondition (409). A pod with a node stays until `gone` is told of it, as long as
a kubelet needs; one without a node goes at once. A namespaced collection and the whole are one.
"""

import re
from typing import Any

import msgspec
from aiohttp import web

from tests.kube.support.api_server import PODS, ApiServer, Refuse, status_body

_PLACE = re.compile(
    r"(?P<root>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<kind>[a-z]+)"
    r"(/(?P<name>[^/]+))?(/(?P<part>status|scale))?"
)
APPLY = "application/apply-patch+yaml"
SINCE = "2026-01-01T00:00:00Z"


class Writable(ApiServer):
    """`kinds`: the collections that exist, such as `/api/v1/pods`; writes of every other are 404."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.objects = {kind: {} for kind in kinds}
        self.writes: list[tuple[str, str, Any]] = []
        """Method, path and body of every write that came, refused ones included."""
        self.refused: dict[tuple[str, str], list[Refuse]] = {}
        """By method and collection, or the path of one object: what the next such writes are answered with."""
        self.lost: dict[tuple[str, str], int] = {}
        """By method and collection: how many of the next answers get lost though the write is done."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return await super()._answer(request)
        raw = await request.read()
        body = msgspec.json.decode(raw) if raw else {}
        self.writes.append((request.method, request.path, body))
        place = _PLACE.fullmatch(request.path)
        if place is None:
            return _no(404)
        path = f"{place['root']}/{place['kind']}"
        both = ((request.method, path), (request.method, request.path))
        waiting = next((found for key in both if (found := self.refused.get(key))), ())
        if waiting or self.refusals:
            refuse = waiting.pop(0) if waiting else self.refusals.popleft()  # type: ignore[union-attr]
            return await self._refused(refuse)
        if path not in self.objects:
            return _no(404)
        said = _Write(path, place["namespace"] or "", place["name"] or "", place["part"] or "", body)
        if request.content_type == APPLY and (said.namespace, said.name) not in self.objects[path]:
            answer = self._post(said)
        else:
            answer = getattr(self, f"_{request.method.lower()}")(said)
        return await self._refused(Refuse(504)) if self._loses(request.method, path) else answer

    def _loses(self, method: str, path: str) -> bool:
        """What was asked is done, and its answer gets lost."""
        left = self.lost.get((method, path), 0)
        self.lost[method, path] = max(0, left - 1)
        return left > 0

    async def _object(self, call: Any) -> web.Response:
        place = _PLACE.fullmatch(call.path)
        known = place and self.objects.get(f"{place['root']}/{place['kind']}", {})
        if place and not place["name"] and known is not None:
            inside = {**known}
            return self._list_of([o for (ns, _), o in inside.items() if ns == place["namespace"]])
        found = (known or {}).get((place["namespace"] or "", place["name"])) if place else None
        return web.json_response(found) if found else _no(404)

    def _list_of(self, items: list[dict[str, Any]]) -> web.Response:
        return web.json_response(
            {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}
        )

    def _happened(self, path: str, kind: str, obj: dict[str, Any]) -> None:
        """Watches of one namespace are told too."""
        super()._happened(path, kind, obj)
        root, _, plural = path.rpartition("/")
        if namespace := obj["metadata"].get("namespace"):
            super()._happened(f"{root}/namespaces/{namespace}/{plural}", kind, obj)

    # Writes

    def _post(self, said: "_Write") -> web.Response:
        meta = said.body.get("metadata", {})
        name = meta.get("name") or f"{meta['generateName']}{self.version:x}"
        if (said.namespace, name) in self.objects[said.path]:
            return _no(409, "AlreadyExists")
        own = {"name": name, "namespace": said.namespace, "uid": f"uid-{next(self._uids)}"}
        first = {"creationTimestamp": SINCE, "generation": 1, "labels": {}}
        made = self._store(said, {**said.body, "metadata": {**first, **meta, **own}}, "ADDED")
        return web.json_response(made, status=201)

    def _put(self, said: "_Write") -> web.Response:
        return self._change(said, {**said.body, "metadata": said.body["metadata"]})

    def _patch(self, said: "_Write") -> web.Response:
        return self._change(said, None)

    def _change(self, said: "_Write", whole: dict[str, Any] | None) -> web.Response:
        known = self.objects[said.path].get((said.namespace, said.name))
        if known is None:
            return _no(404)
        meta = said.body.get("metadata") or {}
        if meta.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            return _no(422, "Invalid")
        if (
            meta.get("resourceVersion", known["metadata"]["resourceVersion"])
            != known["metadata"]["resourceVersion"]
        ):
            return _no(409, "Conflict")
        kept = {
            key: value for key, value in said.body.items() if (key == "status") == (said.part == "status")
        }
        kept.pop("metadata", None)
        new = {**known, **kept} if whole is not None else merged(known, kept)
        if said.part == "" and (said.body.get("metadata") or {}).keys() - {"uid", "resourceVersion"}:
            new = merged(new, {"metadata": {k: v for k, v in meta.items() if k in {"labels", "annotations"}}})
        return web.json_response(self._store(said, new))

    def _store(self, said: "_Write", new: dict[str, Any], kind: str = "MODIFIED") -> dict[str, Any]:
        self.version += 1
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.version)}}
        self.objects[said.path][said.namespace, new["metadata"]["name"]] = new
        self._happened(said.path, kind, new)
        return new

    def _delete(self, said: "_Write") -> web.Response:
        known = self.objects[said.path].get((said.namespace, said.name))
        if known is None:
            return _no(404)
        wanted = (said.body.get("preconditions") or {}).get("uid")
        if wanted not in {None, known["metadata"]["uid"]}:
            return _no(409, "Conflict")
        if said.path == PODS and known.get("spec", {}).get("nodeName"):
            known = {**known, "metadata": {**known["metadata"], "deletionTimestamp": SINCE}}
            return web.json_response(self._store(said, known))
        self.delete(said.name, said.path, said.namespace)
        return web.json_response({"kind": "Status", "status": "Success"})

    # What others do

    def make(self, path: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        """Somebody creates an object, with the metadata that a POST of it would have; `metadata` adds to it."""
        meta = {**fields.pop("metadata", {}), "name": name}
        self._post(_Write(path, namespace, "", "", {"metadata": meta, **fields}))
        return self.objects[path][namespace, name]

    def change(self, path: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        """Somebody merges these fields into an object, its status included."""
        known = self.objects[path][namespace, name]
        return self._store(_Write(path, namespace, name, "", {}), merged(known, fields))


class _Write:
    def __init__(self, path: str, namespace: str, name: str, part: str, body: Any) -> None:
        self.path, self.namespace, self.name, self.part, self.body = path, namespace, name, part, body


def merged(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


def _no(code: int, reason: str = "") -> web.Response:
    return web.Response(status=code, body=status_body(code, reason=reason))
