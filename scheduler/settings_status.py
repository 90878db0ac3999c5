"""The settings of the status service: where people reach it, and how long the API server's word on them counts."""

from dataclasses import dataclass
from typing import Annotated

from scheduler import settings_reader as reader

_path = reader.text(r"[^\x00]{0,4096}", "must be a path")
_host = reader.text(r"[-A-Za-z0-9.:]{0,253}", "must be an address or a host name")
_audience = reader.text(r"[\x21-\x7e]{1,253}", "must be one word, such as gangwright or https://example.com")


@dataclass(frozen=True, slots=True)
class StatusServer:
    """Where people reach us, with the command line and the page, and whom we believe."""

    serve: Annotated[bool, reader.flag()] = True
    """false: no status service at all."""

    host: Annotated[str, _host] = "127.0.0.1"
    """Address to listen on. Loopback: `kubectl port-forward` reaches it, the network does not. Any other address needs
    status.cert and status.key: tokens are sent."""

    port: Annotated[int, reader.whole(0, 65535)] = 10272
    """0: any that is free."""

    cert: Annotated[str, _path] = ""
    """File of our certificate, PEM. Empty: plain HTTP. Read again when it changes."""

    key: Annotated[str, _path] = ""
    """File of the certificate's key, PEM."""

    client_ca: Annotated[str, _path] = ""
    """File of the cluster's authority for client certificates, PEM: who shows a certificate that it signed is the user
    of its common name and the groups of its organizations, as for the API server. Empty: bearer tokens only. Read
    again when it changes, for new connections."""

    audiences: Annotated[tuple[str, ...], reader.many(_audience)] = ()
    """Of which a bearer token must have one. None: tokens for the API server itself, which people have anyway; then
    whoever runs this service could use them there."""

    remember: Annotated[float, reader.seconds(1, 600)] = 60.0
    """How long a yes of the API server counts, to a token or to a right to look. Whoever loses a right sees for so long
    what he saw before; what acts is asked about anew every time."""

    remember_refusal: Annotated[float, reader.seconds(0.1, 600)] = 10.0
    """How long a no counts: whoever was just given a right need not wait long."""

    connections: Annotated[int, reader.whole(4, 65536)] = 128
    """Connections at a time; a browser keeps six. Beyond it the oldest that has shown no token or certificate is closed."""

    keep_alive: Annotated[float, reader.seconds(1, 3600)] = 60.0
    """How long an idle connection stays open."""

    @property
    def client_names(self) -> tuple[str, ...]:
        """Whoever the authority signed is somebody; what he may do is asked of the API server."""
        return ()
