"""The request headers with which the API server names the user of a forwarded request.

Lives here: the ConfigMap kube-system/extension-apiserver-authentication as a value, and reading a user from the headers
that it lists. Never here: a check of the API server's certificate; the handshake does that by `authority` and `names`.

Source: kube-apiserver's flags `--requestheader-*`, which it publishes there for every aggregated API.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self
from urllib.parse import unquote

from scheduler.status.authorization import Subject

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class RequestHeaders(NamedTuple):
    """How to recognize the API server as a client, and which headers of its requests name the user."""

    authority: str
    """Certificates, PEM. One of them signed the API server's client certificate."""
    names: tuple[str, ...]
    """Accepted common names of that certificate; empty: any."""
    users: tuple[str, ...]
    groups: tuple[str, ...]
    uids: tuple[str, ...]
    extras: tuple[str, ...]
    """Prefixes of header names. The rest of such a name is a key of the user's `extra`."""

    @classmethod
    def read(cls, said: Mapping[str, str]) -> Self:
        """Read the data of the ConfigMap. Raises ValueError with the missing or wrong part."""
        authority = said.get("requestheader-client-ca-file", "")
        if "BEGIN CERTIFICATE" not in authority:
            raise ValueError(
                "requestheader-client-ca-file holds no certificate: start kube-apiserver with "
                "--requestheader-client-ca-file"
            )
        users = _words(said, "requestheader-username-headers")
        if not users:
            raise ValueError(
                "requestheader-username-headers is empty: start kube-apiserver with --requestheader-username-headers"
            )
        return cls(
            authority,
            _words(said, "requestheader-allowed-names"),
            users,
            _words(said, "requestheader-group-headers"),
            _words(said, "requestheader-uid-headers"),
            _words(said, "requestheader-extra-headers-prefix"),
        )

    def subject(self, headers: Iterable[tuple[str, str]]) -> Subject | None:
        """The user that these headers name, or None."""
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
        raise ValueError(f"{name} = {text!r:.200}: must be a JSON list of strings")
    return tuple(found)
