"""Where objects of a kind are found: the API server's own word on it.

Lives here: kind → path. Never here: what an object says.
"""

import msgspec

from scheduler import errors
from scheduler.errors import SettingsError
from scheduler.kube.client import Client


class _Kind(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespaced: bool = False


class _Kinds(msgspec.Struct):
    resources: list[_Kind] = []


class Discovery:
    """Paths of objects, each API group asked about once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, dict[str, _Kind]] = {}

    async def path(self, version: str, kind: str, namespace: str, name: str) -> str:
        """Where this object is. version: its apiVersion. Raises SettingsError for a kind that the cluster lacks."""
        found = (await self._kinds(version)).get(kind)
        if found is None:
            raise SettingsError(
                "kind", f"{version} {kind}", "this cluster has no such kind; is its definition installed?"
            )
        inside = f"/namespaces/{namespace}" if found.namespaced else ""
        return f"{_root(version)}{inside}/{found.name}/{name}"

    async def _kinds(self, version: str) -> dict[str, _Kind]:
        if version not in self._known:
            try:
                body = await self._client.request("GET", _root(version))
                found = msgspec.json.decode(body, type=_Kinds)
            except errors.NotFound:
                found = _Kinds()
            except msgspec.MsgspecError as error:
                raise errors.Garbled(f"GET {_root(version)}", str(error)) from error
            self._known[version] = {own.kind: own for own in found.resources if "/" not in own.name}
        return self._known[version]


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
