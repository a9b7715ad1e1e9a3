"""Where the server is and what it is shown, by arguments or by the variables that the command line knows too."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

#: Where the server of the whole machine listens.
_ROOT_SOCKET = "/run/rekindle/rekindle.sock"


@dataclasses.dataclass(frozen=True)
class Address:
    """A server."""

    url: str
    #: Its unix socket, where it is one.
    socket: str | None = None


def _variable(name: str) -> str | None:
    # An empty variable means unset.
    return os.environ.get(name) or None


def _default_socket() -> str:
    if os.geteuid() == 0:
        return _ROOT_SOCKET
    data = _variable("REKINDLE_DATA")
    if data is None:
        data = str(Path(_variable("XDG_DATA_HOME") or Path.home() / ".local/share") / "rekindle")
    return str(Path(data) / "rekindle.sock")


def address(server: str | None) -> Address:
    """The server that is meant: ``unix:/PATH`` or ``https://HOST:PORT``, else REKINDLE_SERVER, else this machine's."""
    server = server or _variable("REKINDLE_SERVER") or f"unix:{_default_socket()}"
    if server.startswith("unix:"):
        path = server.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise ValueError(f"{server!r} names no socket; use unix:/PATH")
        return Address("http://localhost", path)
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{server!r} is no address of a server; use https://HOST:PORT or unix:/PATH")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError(f"{server!r} would send the token for all to read; use https://HOST:PORT or unix:/PATH")
    return Address(server.rstrip("/"))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token(given: str | None) -> str | None:
    """The token, else REKINDLE_TOKEN."""
    return given or _variable("REKINDLE_TOKEN")


def tls(ca: str | None, client_cert: str | None, client_key: str | None) -> ssl.SSLContext:
    """Whom to trust and what to show, else REKINDLE_CA, REKINDLE_CLIENT_CERT and REKINDLE_CLIENT_KEY."""
    context = ssl.create_default_context(cafile=ca or _variable("REKINDLE_CA"))
    client_cert = client_cert or _variable("REKINDLE_CLIENT_CERT")
    if client_cert is not None:
        context.load_cert_chain(client_cert, client_key or _variable("REKINDLE_CLIENT_KEY"))
    return context
