"""The API's messages in JSON, and the frames of its streams. No input or output happens here.

What is read of an answer is declared once, at the fields of dataclasses, with the name and the kind it has in the API's
description; ``tests/test_description.py`` holds every declaration against the description a server serves.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ._errors import ProtocolError, error_of

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)
Json = dict[str, Any]

#: The last frame of a stream.
_END = 2
#: Largest message that is read of a stream. The server sends less than 1 MiB at a time.
_MAX_MESSAGE = 64 << 20


@dataclasses.dataclass(frozen=True)
class Kind(Generic[T]):
    """How a field is read, and what it must be in the description."""

    proto: str
    read: Callable[[Any], T]
    #: What it is where the answer does not have it.
    absent: Callable[[], Any]
    #: Full name of the message or enum.
    type_name: str = ""
    repeated: bool = False
    message: type[Any] | None = None


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _path(value: Any) -> str:
    # A path is bytes; what is no UTF-8 in it comes through as it does with `os.fsdecode`.
    return _bytes(value).decode("utf-8", "surrogateescape")


def _seconds(value: Any) -> float:
    return float(str(value).removesuffix("s"))


def _time(value: Any) -> dt.datetime:
    # Nanoseconds are more than `datetime` has.
    text, _, rest = str(value).removesuffix("Z").partition(".")
    moment = dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)
    return moment + dt.timedelta(microseconds=int(rest[:6].ljust(6, "0") or 0))


def _reason(value: Any) -> str:
    return str(value).removeprefix("ERROR_REASON_")


def _none() -> None:
    return None


def _json(text: Any) -> Any:
    # Of a guest: what is too deep or too long for Python is as good as not there.
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


STRING = Kind("TYPE_STRING", str, str)
MAYBE_STRING = Kind("TYPE_STRING", str, _none)
#: A text that is JSON, read.
MAYBE_JSON = Kind("TYPE_STRING", _json, _none)
BOOL = Kind("TYPE_BOOL", bool, bool)
MAYBE_BOOL = Kind("TYPE_BOOL", bool, _none)
UINT32 = Kind("TYPE_UINT32", int, int)
UINT64 = Kind("TYPE_UINT64", int, int)
MAYBE_UINT32 = Kind("TYPE_UINT32", int, _none)
MAYBE_UINT64 = Kind("TYPE_UINT64", int, _none)
BYTES = Kind("TYPE_BYTES", _bytes, bytes)
MAYBE_BYTES = Kind("TYPE_BYTES", _bytes, _none)
PATH = Kind("TYPE_BYTES", _path, str)
SECONDS = Kind("TYPE_MESSAGE", _seconds, float, "google.protobuf.Duration")
MAYBE_SECONDS = Kind("TYPE_MESSAGE", _seconds, _none, "google.protobuf.Duration")
MAYBE_TIME = Kind("TYPE_MESSAGE", _time, _none, "google.protobuf.Timestamp")
#: Why something failed: a text as errors have it, also where this version does not know it.
REASON = Kind("TYPE_ENUM", _reason, _none, "rekindle.v1.ErrorReason")
STRINGS = Kind("TYPE_STRING", list, list, repeated=True)
#: A map of texts is a repeated message in a description, of a type without a fixed name.
WORDS = Kind("TYPE_MESSAGE", dict, dict, "*", repeated=True)


def present(name: str) -> Kind[bool]:
    """An empty message: it is there or it is not."""
    return Kind("TYPE_MESSAGE", lambda _value: True, bool, f"rekindle.v1.{name}")


def one_of(kind: type[E], name: str) -> Kind[E | None]:
    """An enum, by the end of its values' names. A value that this version does not know reads as ``None``."""
    prefix = "".join("_" + c if c.isupper() else c.upper() for c in name).removeprefix("_") + "_"

    def read(value: Any) -> E | None:
        try:
            return kind(str(value).removeprefix(prefix))
        except ValueError:
            return None

    return Kind("TYPE_ENUM", read, _none, f"rekindle.v1.{name}")


def message(cls: type[T], *, maybe: bool = True) -> Kind[T]:
    """A message; one that is not there is ``None``, or with ``maybe=False`` an empty one."""
    name: str = getattr(cls, "MESSAGE")  # noqa: B009
    absent: Callable[[], Any] = _none if maybe else (lambda: decode(cls, {}))
    return Kind("TYPE_MESSAGE", lambda value: decode(cls, value), absent, name, message=cls)


def many(cls: type[T]) -> Kind[list[T]]:
    """Any number of messages."""
    name: str = getattr(cls, "MESSAGE")  # noqa: B009
    return Kind("TYPE_MESSAGE", lambda value: [decode(cls, one) for one in value], list, name, True, cls)


def wire(name: str, kind: Kind[Any], *, repr: bool = True) -> Any:
    """A field of a dataclass that is read from the field ``name`` of the message."""
    return dataclasses.field(repr=repr, metadata={"wire": (name, kind)})


def declared(cls: type[Any]) -> Iterator[tuple[dataclasses.Field[Any], str, Kind[Any]]]:
    """The fields of a dataclass that are read from a message."""
    for field in dataclasses.fields(cls):
        if "wire" in field.metadata:
            name, kind = field.metadata["wire"]
            yield field, name, kind


def camel(name: str) -> str:
    """The name of a field in JSON."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


#: How each class is read, worked out once: the field, its name in JSON, its kind.
_PLANS: dict[type[Any], list[tuple[str, str, Kind[Any]]]] = {}


def _plan(cls: type[Any]) -> list[tuple[str, str, Kind[Any]]]:
    if cls not in _PLANS:
        _PLANS[cls] = [(field.name, camel(name), kind) for field, name, kind in declared(cls)]
    return _PLANS[cls]


def decode(cls: type[T], value: Any) -> T:
    """A message as a dataclass. What this version does not know is left out."""
    if not isinstance(value, dict):
        raise ProtocolError(f"the server sent no {cls.__name__}")
    read: dict[str, Any] = {}
    for field, name, kind in _plan(cls):
        # Nothing is ever sent as null.
        got: Any = value.get(name)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
        try:
            read[field] = kind.absent() if got is None else kind.read(got)
        except (ValueError, TypeError, AttributeError) as error:
            raise ProtocolError(f"the server sent a {cls.__name__} whose {name} cannot be read") from error
    return cls(**read)


# Requests.


def text64(data: bytes | str) -> str:
    """Bytes in JSON."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    return base64.b64encode(data).decode("ascii")


def span(seconds: float | dt.timedelta) -> str:
    """A duration in JSON."""
    if isinstance(seconds, dt.timedelta):
        seconds = seconds.total_seconds()
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def moment(at: dt.datetime) -> str:
    """A moment in JSON."""
    if at.tzinfo is None:
        raise ValueError("the moment has no time zone: nobody knows when it is; add tzinfo=datetime.timezone.utc")
    return at.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")


def fields(**values: Any) -> Json:
    """A message of those fields that say anything. Names are those of the description."""
    return {camel(name.rstrip("_")): value for name, value in values.items() if value not in (None, "", 0, False, {})}


def frame(value: Json) -> bytes:
    """A message of a stream."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return struct.pack(">BI", 0, len(body)) + body


class Frames:
    """Takes the frames of an answer apart. It has ended only where its last frame says so."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._ended = False

    def feed(self, data: bytes) -> Iterable[Json]:
        """The messages that are whole with this much more of the answer."""
        self._buffer += data
        messages: list[Json] = []
        while len(self._buffer) >= 5:
            flags, length = struct.unpack_from(">BI", self._buffer)
            if length > _MAX_MESSAGE or flags not in (0, _END):
                raise ProtocolError("the server sent what is no frame")
            if len(self._buffer) < 5 + length:
                break
            body = bytes(self._buffer[5 : 5 + length])
            del self._buffer[: 5 + length]
            value = parse(body)
            if flags == _END:
                self._ended = True
                if "error" in value:
                    self._failed = error_of(value["error"])
            else:
                messages.append(value)
        return messages

    _failed: Exception | None = None

    def check(self) -> bool:
        """Whether the stream has ended; raises what it has ended with."""
        if self._failed is not None:
            raise self._failed
        return self._ended

    def end(self) -> None:
        """There is no more to come."""
        if not self.check():
            raise ProtocolError("the connection was lost before the stream had ended")


def parse(body: bytes) -> Json:
    """A message in JSON."""
    try:
        value = json.loads(body)
    except ValueError as error:
        raise ProtocolError("the server sent what is no JSON") from error
    if not isinstance(value, dict):
        raise ProtocolError("the server sent what is no message")
    return value  # pyright: ignore[reportUnknownVariableType]


def words(values: Mapping[str, str] | None) -> dict[str, str] | None:
    """A map of texts."""
    return dict(values) if values else None
