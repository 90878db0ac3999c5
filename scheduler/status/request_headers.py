"""How the API server says who sends a request that it passes on: its request headers.

Lives here: the ConfigMap kube-system/extension-apiserver-authentication as a value, and a user read from headers as it
says. Never here: a check of the API server's certificate; the handshake does that by `authority` and `names`.

Source: kube-apiserver's flags `--requestheader-*`, which it publishes there for every aggregated API.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self
from urllib.parse import unquote

from scheduler.status.authorization import Subject

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class RequestHeaders(NamedTuple):
    """Which client is the API server, and which headers of its requests name the user."""

    authority: str
    """Certificates, PEM: one of them signed the API server's client certificate."""
    names: tuple[str, ...]
    """Common names of which that certificate must have one; none: any."""
    users: tuple[str, ...]
    groups: tuple[str, ...]
    uids: tuple[str, ...]
    extras: tuple[str, ...]
    """How the names of headers begin whose rest is a key of the user's `extra`."""

    @classmethod
    def read(cls, said: Mapping[str, str]) -> Self:
        """The data of the ConfigMap. Raises ValueError, which says what is missing or wrong."""
        authority = said.get("requestheader-client-ca-file", "")
        if "BEGIN CERTIFICATE" not in authority:
            raise ValueError(
                "requestheader-client-ca-file holds no certificate: start kube-apiserver with "
                "--requestheader-client-ca-file"
            )
        users = _words(said, "requestheader-username-headers")
        if not users:
            raise ValueError("requestheader-username-headers is empty: no header names the user")
        return cls(
            authority,
            _words(said, "requestheader-allowed-names"),
            users,
            _words(said, "requestheader-group-headers"),
            _words(said, "requestheader-uid-headers"),
            _words(said, "requestheader-extra-headers-prefix"),
        )

    def subject(self, headers: Iterable[tuple[str, str]]) -> Subject | None:
        """The user that these headers name; None where they name none."""
        every = [(name.lower(), value) for name, value in headers]

        def values(names: tuple[str, ...]) -> list[str]:
            return [value for own in names for name, value in every if name == own.lower() and value]

        extra: dict[str, list[str]] = {}
        for prefix in map(str.lower, self.extras):
            for name, value in every:
                if name.startswith(prefix):
                    extra.setdefault(unquote(name.removeprefix(prefix)), []).append(value)
        user, uid = values(self.users), values(self.uids)
        if not user:
            return None
        told = tuple(sorted((key, tuple(own)) for key, own in extra.items()))
        return Subject(user[0], tuple(values(self.groups)), uid[0] if uid else "", told)


def _words(said: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A list, as JSON. Raises ValueError."""
    text = said.get(name) or "[]"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ValueError(f"{name} = {text!r:.200}: must be a JSON list of words")
    return tuple(found)
