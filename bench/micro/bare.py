"""The least that calls to the extender cost here: the same server library, a handler that looks at nothing.

    python -m bench.micro.bare [BYTES]

It answers the node it was asked about, and what the other ports are asked with constants; BYTES: of /metrics. A machine
that is shared holds up one call in a hundred, whatever answers it: what this takes is the machine's, what the extender
takes more is the extender's. Ends with its standard input.
"""

import asyncio
import json
import sys

from aiohttp import web

PORTS = ("url", "probes", "status")
LONGEST_HEADER = 32 * 2**10


async def _answer(request: web.Request) -> web.Response:
    asked = json.loads(await request.read())
    return web.json_response({"NodeNames": asked["NodeNames"]})


def _constant(body: bytes) -> web.Application:
    """Whatever it is asked."""

    async def told(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", told)
    return app


async def _run(size: int) -> None:
    app = web.Application()
    app.router.add_post("/v1/filter", _answer)
    runners = [
        web.AppRunner(each, access_log=None, max_field_size=LONGEST_HEADER)
        for each in (app, _constant(b"x" * size), _constant(b"{}"))
    ]
    urls = {}
    for name, runner in zip(PORTS, runners, strict=True):
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        urls[name] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    print(json.dumps(urls), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for runner in runners:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]) if sys.argv[1:] else 0))
