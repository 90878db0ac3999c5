"""Who asks: the holder of a bearer token, or of a client certificate that the cluster's authority signed.

Lives here: a user, and what a certificate says of him; a token is found by `serving.bearer`. Never here: whether the
API server believes a token; `reviews` asks.

A token counts before a certificate, as with the API server: who shows one wants to be its holder.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

AUTHENTICATED: Final = "system:authenticated"
"""The group of everybody whom the API server knows; of a certificate's holder it must be added by whoever reads it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A user as the API server knows him; what an access review is asked about."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def holder(certificate: Mapping[str, Any] | None, now: float) -> Subject | None:
    """Whom a client certificate names, in the form of `SSLSocket.getpeercert`: CN the user, every O a group.

    Its signature was checked when the connection was made; the connection may have outlived it since, so its end is
    checked again. now: seconds since the epoch.
    """
    if not certificate or ssl.cert_time_to_seconds(certificate["notAfter"]) < now:
        return None
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    users = [value for key, value in parts if key == "commonName" and value]
    if not users:
        return None
    groups = [value for key, value in parts if key == "organizationName"]
    return Subject(users[0], tuple(dict.fromkeys([*groups, AUTHENTICATED])))
