"""What both clients have of ``httpx``: how long it waits, and what its exceptions are here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import httpx

from ._calls import late
from ._errors import ConnectionFailedError

#: How long a connection may take to be made, and a write to go on.
_CONNECT, _WRITE = 10.0, 60.0
#: How much longer than the deadline to wait for the server to say that it is over.
_GRACE = 5.0


def timeouts(deadline: float | None) -> httpx.Timeout:
    """Programs may say nothing for as long as they like; only a deadline bounds the wait for an answer."""
    read = None if deadline is None else max(deadline, 0.0) + _GRACE
    return httpx.Timeout(connect=_CONNECT, read=read, write=_WRITE, pool=None)


@contextlib.contextmanager
def failed(deadline: float | None) -> Generator[None, None, None]:
    """Turns what ``httpx`` raises into what this package raises."""
    try:
        yield
    except httpx.ReadTimeout as error:
        raise late(deadline or 0.0) from error
    except httpx.TransportError as error:
        raise ConnectionFailedError(f"the server cannot be reached, or the connection was lost: {error}") from error
