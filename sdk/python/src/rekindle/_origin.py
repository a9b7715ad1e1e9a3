"""The trace and the step that calls are part of, for as long as a block of ``with`` goes on."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
import re
import secrets
from collections.abc import Generator

_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_ID = re.compile(r"[0-9a-f]{32}")
_STEP = re.compile(r"[!-~]([ -~]{0,62}[!-~])?")


@dataclasses.dataclass(frozen=True)
class _Origin:
    trace: str | None = None
    step: str | None = None


_current: contextvars.ContextVar[_Origin] = contextvars.ContextVar("rekindle_origin", default=_Origin())


@contextlib.contextmanager
def step(name: str | None = None, *, trace: str | None = None) -> Generator[None, None, None]:
    """Calls in this block, of whichever client, are part of a step and of a trace.

    ``trace`` is a ``traceparent`` as W3C has it, or the 32 digits of a trace's id; it stays in force in blocks within
    this one, and is else the variable TRACEPARENT. Works with threads and with ``asyncio``.
    """
    if name is not None and _STEP.fullmatch(name) is None:
        raise ValueError(f"{name!r} names no step; use 1 to 64 printable ASCII characters")
    if trace is not None and _ID.fullmatch(trace):
        trace = f"00-{trace}-{secrets.token_hex(7)}01-01"
    elif trace is not None and _PARENT.fullmatch(trace) is None:
        raise ValueError(f"{trace!r} names no trace; use a traceparent, or 32 hexadecimal digits")
    outer = _current.get()
    token = _current.set(_Origin(trace or outer.trace, name or outer.step))
    try:
        yield
    finally:
        _current.reset(token)


def headers() -> dict[str, str]:
    """What says so in a call."""
    origin = _current.get()
    own: dict[str, str] = {}
    parent = origin.trace or os.environ.get("TRACEPARENT")
    # One of the environment that is none is left out, as W3C wants it.
    if parent and _PARENT.fullmatch(parent):
        own["traceparent"] = parent
    if origin.step:
        own["rekindle-step"] = origin.step
    return own
