"""A headless Chromium, spoken to in its own protocol over a WebSocket.

Lives here: starting and ending it, and the few commands that the tests use. Never here: what the page should look like.
"""

import asyncio
import base64
import itertools
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.status.support.chromium import Chromium

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
    "--no-first-run", "--disable-extensions", "--disable-background-networking", "--mute-audio", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
"""It talks to loopback and to nobody else."""

WITHIN = 30.0
"""Seconds that anything may take."""


@dataclass
class Tab:
    """One page, as the protocol has it."""

    socket: aiohttp.ClientWebSocketResponse
    events: list[dict[str, Any]] = field(default_factory=list)
    _numbers: itertools.count = field(default_factory=itertools.count)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command and its result. Raises AssertionError with what Chromium says is wrong."""
        number = next(self._numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(WITHIN):
            while True:
                told = await self.socket.receive_json()
                if told.get("id") == number:
                    assert "error" not in told, (method, told["error"])
                    return told["result"]
                self.events.append(told)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page, awaited where it is a promise."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true."""
        async with asyncio.timeout(WITHIN):
            while not await self.run(script):
                await asyncio.sleep(0.05)

    async def show(self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def key(self, name: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                text=text,
            )

    async def pass_time(self, seconds: float) -> None:
        """Let the page's clock run on at once, timers and requests included."""
        await self.call(
            "Emulation.setVirtualTimePolicy", policy="pauseIfNetworkFetchesPending", budget=1000 * seconds
        )
        async with asyncio.timeout(WITHIN):
            while not any(told.get("method") == "Emulation.virtualTimeBudgetExpired" for told in self.events):
                self.events.append(await self.socket.receive_json())

    async def picture(self, place: Path) -> Path:
        """The whole page, also what is below the edge, as a PNG."""
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        place.write_bytes(base64.b64decode(shot["data"]))
        return place

    def wrongs(self) -> list[str]:
        """Errors and warnings that the page, its console or its policy gave rise to; failed requests by the API
        excepted.
        """
        said = []
        for event in self.events:
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    said.append(str(params["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                    said.append(str(params["args"]))
                case "Log.entryAdded" if params["entry"]["source"] != "network":
                    said.append(params["entry"]["text"])
        return said


@asynccontextmanager
async def browsing(chromium: Chromium) -> AsyncIterator[Tab]:
    """A running browser with one empty tab."""
    with tempfile.TemporaryDirectory(prefix="gangwright-chromium-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            chromium.program,
            *FLAGS,
            f"--user-data-dir={folder}",
            "about:blank",
            env={**os.environ, **chromium.environ},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(folder, "DevToolsActivePort"), process)
            async with aiohttp.ClientSession() as session, _tab(session, port) as tab:
                yield tab
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def _tab(session: aiohttp.ClientSession, port: int) -> AsyncIterator[Tab]:
    async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
        place = (await answer.json())["webSocketDebuggerUrl"]
    async with session.ws_connect(place, max_msg_size=0) as socket:
        tab = Tab(socket)
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            await tab.call(f"{domain}.enable")
        yield tab


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(WITHIN):
        while not (file.exists() and file.read_text(encoding="utf-8").strip()):
            assert process.returncode is None, "Chromium ended at once"
            await asyncio.sleep(0.05)
    return int(file.read_text(encoding="utf-8").split()[0])
