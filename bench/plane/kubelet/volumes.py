"""The volumes of one pod, as folders: made before its containers, kept fresh while it lives.

Served are emptyDir, hostPath, configMap, secret, downwardAPI and projected ones with these and service-account tokens.
A changed ConfigMap is not written again, tokens are: at four fifths of their life.
"""

import asyncio
import base64
import datetime as dt
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.plane.client import Client, Object, where
from bench.plane.errors import ApiError
from bench.plane.kubelet.environment import Addresses, ConfigError, Reference, field

RENEW_AT = 0.8
"""The share of a token's life after which it is renewed, as a kubelet does."""

AGAIN = 1.0
"""Seconds until a renewal that failed is tried once more."""

TOKEN_LIFE = 3600
"""Seconds, where the pod does not say (the API's own default)."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of ours and where a container sees it."""

    source: Path
    path: str
    read_only: bool


class Volumes:
    """Of one pod, in `folder`. `await prepare()`, then `renew()` as a task for as long as the pod runs."""

    def __init__(self, api: Client, pod: Object, folder: Path, addresses: Addresses) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._addresses = addresses
        self._places: dict[str, Path] = {}
        self._tokens: dict[Path, Object] = {}
        """File → the source of the projected volume that asks for a token there."""
        self._due: dict[Path, float] = {}
        """File → when its token is renewed, in seconds since the epoch."""

    async def prepare(self) -> None:
        """Makes every folder. May be called again after a failure. Raises ConfigError, ApiError."""
        for volume in self._pod["spec"].get("volumes", ()):
            self._places[volume["name"]] = await self._made(volume)

    async def renew(self) -> None:
        """Renews tokens when they are due, for ever."""
        while self._due:
            soonest = min(self._due.values())
            await asyncio.sleep(max(0.0, soonest - dt.datetime.now(dt.UTC).timestamp()))
            for place in [place for place, due in self._due.items() if due <= soonest]:
                try:
                    await self._token(place)
                except (ApiError, aiohttp.ClientError):
                    self._due[place] = soonest + AGAIN

    async def renew_now(self) -> None:
        """Every token anew, as if four fifths of its life were over."""
        for place in self._tokens:
            await self._token(place)

    def mounts(self, container: Object) -> Iterator[Mount]:
        """What a container mounts. Raises ConfigError."""
        for wish in container.get("volumeMounts", ()):
            if wish["name"] not in self._places:
                raise ConfigError(f"volumeMounts: {wish['name']!r} is no volume of this pod")
            source = self._places[wish["name"]]
            if inner := wish.get("subPath"):
                source /= inner
                if not source.exists():
                    source.mkdir(parents=True)
            yield Mount(source, wish["mountPath"], wish.get("readOnly", False))

    async def _made(self, volume: Object) -> Path:
        if "hostPath" in volume:
            return _on_host(volume["hostPath"])
        place = self._folder / str(volume["name"])
        place.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            return place
        for kind, write in self._writers.items():
            if kind in volume:
                await write(place, volume[kind])
                return place
        raise ConfigError(f"volume {volume['name']}: {', '.join(set(volume) - {'name'})} is not known here")

    @property
    def _writers(self) -> Mapping[str, Callable[[Path, Object], Coroutine[Any, Any, None]]]:
        return {
            "configMap": self._config_map,
            "secret": self._secret,
            "downwardAPI": self._downward,
            "projected": self._projected,
            "serviceAccountToken": self._wanted_token,
        }

    async def _projected(self, place: Path, said: Object) -> None:
        for source in said.get("sources", ()):
            for kind, write in self._writers.items():
                if kind in source:
                    await write(place, source[kind])

    async def _config_map(self, place: Path, said: Object) -> None:
        _write_items(place, said, await self._content("configmaps", said))

    async def _secret(self, place: Path, said: Object) -> None:
        _write_items(place, said, await self._content("secrets", said))

    async def _downward(self, place: Path, said: Object) -> None:
        for item in said.get("items", ()):
            if "fieldRef" not in item:
                raise ConfigError(f"downwardAPI {item['path']}: only fieldRef is known here")
            _write(place / item["path"], field(self._pod, item["fieldRef"]["fieldPath"], self._addresses))

    async def _wanted_token(self, place: Path, said: Object) -> None:
        self._tokens[place / said["path"]] = said
        await self._token(place / said["path"])

    async def _token(self, place: Path) -> None:
        meta, said = self._pod["metadata"], self._tokens[place]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec = {
            "audiences": [said["audience"]] if said.get("audience") else [],
            "expirationSeconds": said.get("expirationSeconds", TOKEN_LIFE),
            "boundObjectRef": bound,
        }
        account = self._pod["spec"].get("serviceAccountName", "default")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = where("serviceaccounts", meta["namespace"], account, "token")
        issued = (await self._api.create(path, body))["status"]
        now = dt.datetime.now(dt.UTC).timestamp()
        life = dt.datetime.fromisoformat(issued["expirationTimestamp"]).timestamp() - now
        self._due[place] = now + RENEW_AT * life
        _write(place, issued["token"], mode=0o600)

    async def _content(self, kind: str, said: Object) -> dict[str, bytes]:
        name = said.get("name") or said["secretName"]
        try:
            return await content(self._api, (kind, name), self._pod["metadata"]["namespace"])
        except ConfigError:
            if said.get("optional"):
                return {}
            raise


async def content(api: Client, reference: Reference, namespace: str) -> dict[str, bytes]:
    """The keys of a ConfigMap or Secret. Raises ConfigError when there is none."""
    kind, name = reference
    try:
        found = await api.get(where(kind, namespace, name))
    except ApiError as error:
        if error.status == 404:
            raise ConfigError(error.message) from None
        raise
    plain = found.get("data") or {}
    if kind == "secrets":
        return {key: base64.b64decode(value) for key, value in plain.items()}
    coded = found.get("binaryData") or {}
    return {key: value.encode() for key, value in plain.items()} | {
        key: base64.b64decode(value) for key, value in coded.items()
    }


def _write_items(place: Path, said: Object, found: Mapping[str, bytes]) -> None:
    """All keys, or those that `items` chooses, under the paths it gives them."""
    chosen = {item["key"]: item["path"] for item in said.get("items", ())} or {key: key for key in found}
    for key, path in chosen.items():
        if key in found:
            _write(place / path, found[key])
        elif not said.get("optional"):
            raise ConfigError(f"references non-existent config key: {key}")


def _write(place: Path, text: str | bytes, mode: int = 0o644) -> None:
    """All at once: whoever reads meanwhile gets the old file or the new one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.new")
    fresh.write_bytes(text.encode() if isinstance(text, str) else text)
    fresh.chmod(mode)
    fresh.replace(place)


def _on_host(said: Object) -> Path:
    place, kind = Path(said["path"]), said.get("type", "")
    if kind.endswith("OrCreate"):
        place.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        raise ConfigError(f"hostPath type check failed: {place} is not there")
    return place
