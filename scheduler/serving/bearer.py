"""Who asks, as far as a request shows it: a bearer token.

Lives here: the one header that carries it. Never here: whether anybody believes the token; the edges ask.
"""

from typing import Final

from aiohttp import web

LONGEST_TOKEN: Final = 16_384
"""Characters; a token with the groups of a large directory has some 8,000."""


class Unknown(Exception):  # noqa: N818 - a word of the field
    """Nobody is shown that could be believed; the text says what would be right."""


def token(request: web.Request) -> str | None:
    """The bearer token of a request, None where it shows none. Raises Unknown for a header of another kind."""
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, word = header.partition(" ")
    word = word.strip()
    if scheme.lower() != "bearer" or not word:
        raise Unknown("the Authorization header must be: Bearer TOKEN")
    if len(word) > LONGEST_TOKEN or not (word.isascii() and word.isprintable()):
        raise Unknown("the token is none: it is too long, or has characters that no token has")
    return word
