"""The least that a filter call costs here: the same server library, a handler that looks at nothing.

    python -m bench.micro.bare

It answers the node it was asked about. A machine that is shared holds up one call in a hundred whoever answers it: what
this takes is the machine's, what the extender takes more is the extender's. Ends with its standard input.
"""

import asyncio
import json
import sys

from aiohttp import web


async def _answer(request: web.Request) -> web.Response:
    asked = json.loads(await request.read())
    return web.json_response({"NodeNames": asked["NodeNames"]})


async def _run() -> None:
    app = web.Application()
    app.router.add_post("/v1/filter", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_run())
