"""How a port of a sandbox is reached, from what the server says of it. No input or output happens here."""

from __future__ import annotations

import dataclasses
from urllib.parse import urlsplit

from . import _types as t
from ._errors import SandboxEndedError, WrongStateError


@dataclasses.dataclass(frozen=True)
class Port:
    """What a request to a port of a sandbox needs: where it is sent, and what it shows.

    >>> port = sandbox.port(8000)
    >>> httpx.get(port.url + "/path", headers=port.headers)
    """

    #: Without a slash at its end.
    url: str
    #: They hold the token of the sandbox's ports: for whoever may reach them.
    headers: dict[str, str] = dataclasses.field(repr=False)
    #: The name of the host, where that alone says which port is meant; else the headers do.
    host: str | None

    def named(self) -> str:
        """The name of the host; an error where there is none."""
        if self.host is None:
            raise WrongStateError(
                "the ports of this server have no names of their own",
                hint="use port(), whose headers say which port is meant, or have [http] domain set on the server",
            )
        return self.host


def port(info: t.SandboxInfo, number: int) -> Port:
    """A port of this sandbox."""
    if not 1 <= number <= 65535:
        raise ValueError(f"{number} is no port; use 1 to 65535")
    if info.end is not None:
        raise SandboxEndedError(f"the sandbox {info.id} has ended", hint="create a new one")
    if info.ports is None:
        raise WrongStateError(
            "the server does not tell how to reach this sandbox's ports",
            hint="the server needs [http] listen, the token the scope exec",
        )
    if not info.ports.url:
        raise WrongStateError(
            "the server listens on all addresses and has no name for ports", hint="have [http] domain set on the server"
        )
    url = info.ports.url.replace("{port}", str(number))
    headers = {
        "E2b-Sandbox-Id": info.id,
        "E2b-Sandbox-Port": str(number),
        "E2b-Traffic-Access-Token": info.ports.token,
    }
    return Port(url, headers, urlsplit(url).netloc if "{port}" in info.ports.url else None)
