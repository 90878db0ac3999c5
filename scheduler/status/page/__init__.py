"""The page's files, served as they are shipped: no build step, no external files.

Lives here: the file for each name. Never here: data of the cluster. The page requests it from the API, with a token
that it keeps in the browser's memory.

Why files are read once at start: a container's file system may be slow, and they do not change at run time.
"""

import hashlib
from importlib import resources
from pathlib import PurePath
from typing import Final

from aiohttp import web

KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
}
"""The content type by the end of a file's name. Other files of the folder are not served."""

FILES: Final = {
    file.name: kind
    for file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    if (kind := KINDS.get(PurePath(file.name).suffix))
}
"""The content type by the name of the file."""


def add_page(app: web.Application) -> None:
    """Serve index.html at /, and every other file under its own name."""
    folder = resources.files(__name__)
    for name, kind in FILES.items():
        path = "/" if name == "index.html" else f"/{name}"
        handler = _File((folder / name).read_bytes(), kind)
        app.router.add_get(path, handler.answer, name=f"page:{name}", allow_head=False)


class _File:
    """One file in memory."""

    def __init__(self, body: bytes, kind: str) -> None:
        self._body = body
        self._kind = kind
        self._tag = hashlib.blake2b(body, digest_size=12).hexdigest()

    async def answer(self, request: web.Request) -> web.Response:
        if any(one.value == self._tag for one in request.if_none_match or ()):
            return web.Response(status=304, headers={"ETag": f'"{self._tag}"'})
        response = web.Response(body=self._body, content_type=self._kind, charset="utf-8")
        response.etag = self._tag
        response.headers["Cache-Control"] = "no-cache"
        return response
