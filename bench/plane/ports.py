"""Ports of the loopback, asked from the kernel and kept.

A port that is only asked for and given back may be somebody else's before the program opens it, and again while the
program is stopped for a moment. So each one stays bound here (never listening, so it takes no connections) with
SO_REUSEPORT, and the programs open it with the same option.
"""

import socket
import ssl
import urllib.error
import urllib.request

HOST = "127.0.0.1"


class Ports:
    """The ports of one plane; `close` gives them back."""

    def __init__(self) -> None:
        self._kept: list[socket.socket] = []

    def take(self) -> int:
        """A port that stays ours; its program must open it with SO_REUSEPORT."""
        kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind((HOST, 0))
        self._kept.append(kept)
        return int(kept.getsockname()[1])

    @staticmethod
    def loose() -> int:
        """A port that was free a moment ago, for the program that does not know SO_REUSEPORT (kwok)."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
            asked.bind((HOST, 0))
            return int(asked.getsockname()[1])

    def close(self) -> None:
        for kept in self._kept:
            kept.close()
        self._kept.clear()


def answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    """True when a GET of `url` is answered with 200 within two seconds."""
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def unverified() -> ssl.SSLContext:
    """For the health of programs that make themselves a certificate; carries no secret."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
