"""What the API server spends its processor time on, from its own profile.

Lives here: which functions stand for which cause. Never here: when the profile is taken (`throughput`).
`go tool pprof` reads the profile; the Go that builds the plane's programs is used.
"""

import asyncio
import os
import re
import subprocess
import urllib.request
from collections.abc import Mapping
from typing import Final

from bench.plane import Plane, binaries, toolchain

SECONDS: Final = 5
"""Of the profile: shorter than a run of 1,000 pods."""

CAUSES: Final[Mapping[str, str]] = {
    "patch": r"handlers\.\(\*patcher\)\.patchResource\.func2$",
    "patch: strategic merge": r"handlers\.\(\*smpPatcher\)\.applyPatchToCurrentObject$",
    "field management": r"managedfields/internal\.\(\*FieldManager\)\.UpdateNoErrors$",
    "admission policies": r"policy/validating\.\(\*Plugin\)\.Validate$",
    "binding": r"pod/storage\.\(\*BindingREST\)\.Create$",
    "event": r"handlers\.CreateResource\.createHandler\.func1\.2$",
    "transaction of etcd": r"client/v3\.\(\*txn\)\.Commit$",
    "watches": r"handlers\.\(\*WatchServer\)\.HandleHTTP$",
    "watch cache": r"cacher\.\(\*Cacher\)\.startCaching$",
    "garbage collection": r"runtime\.gcBgMarkWorker$",
}
"""Cause → the function in which its time is spent. A cause may be part of another."""

ROW: Final = re.compile(r"^\s*\S+\s+[\d.]+%\s+[\d.]+%\s+\S+\s+([\d.]+)%\s+(.+?)(?: \(inline\))?$")
"""A line of `pprof -top`: flat, flat%, sum%, cum, cum%, function."""


async def profile(plane: Plane) -> dict[str, float]:
    """By cause, the percentage of the API server's processor time in the next `SECONDS` seconds."""
    return shares(await asyncio.to_thread(_read, plane))


def shares(text: str) -> dict[str, float]:
    """The same from what `pprof -top` prints."""
    rows = [(float(found[1]), found[2]) for line in text.splitlines() if (found := ROW.match(line))]
    return {
        cause: max((percent for percent, function in rows if re.search(pattern, function)), default=0.0)
        for cause, pattern in CAUSES.items()
    }


def _read(plane: Plane) -> str:
    place, path = plane.folder / "apiserver.profile", f"/debug/pprof/profile?seconds={SECONDS}"
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=plane.context())]
    with urllib.request.build_opener(*handlers).open(plane.url + path, timeout=SECONDS + 30) as answer:
        place.write_bytes(answer.read())
    go = toolchain.find(binaries.cache_root(), os.environ)
    command = [
        str(go.command),
        "tool",
        "pprof",
        "-top",
        "-cum",
        "-nodecount=100000",
        "-nodefraction=0",
        str(place),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=go.env).stdout
