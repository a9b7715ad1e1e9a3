"""Every call of the API that this package makes: what is sent, and how the answer is read. No input or output happens
here, so that there is one of each for both clients."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
import os
import stat as stats
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Generic, TypedDict, TypeVar, Union

from . import _code as code
from . import _origin
from . import _types as t
from ._errors import DeadlineError, OutputLostError, ProtocolError, RekindleError, error_of
from ._version import __version__
from ._wire import Json, decode, fields, frame, moment, parse, span, text64, words

T = TypeVar("T")
R = TypeVar("R", bound=t.ExecutionResult)
V = TypeVar("V", bound=t.ExecuteEvent)

#: Bytes of content in one message of an upload.
CHUNK = 256 * 1024
#: Tries of a call whose error says that it may be repeated.
RETRIES = 3
#: Longest wait before a call is repeated.
_LONGEST_WAIT = 30.0

Seconds = Union[float, dt.timedelta]


@dataclasses.dataclass(frozen=True)
class Code:
    """Source code to run: ``python``, ``node`` or ``bash``."""

    language: str
    source: str


#: A line for the shell, a program with its arguments, or source code.
Program = Union[str, Sequence[str], Code]


class ExecuteOptions(TypedDict, total=False):
    """How to run a program."""

    #: Bytes on its standard input.
    stdin: bytes | str
    #: Variables on top of the sandbox's.
    env: Mapping[str, str]
    #: Its working directory; the user's home when left out.
    cwd: str
    #: Its wall-clock limit.
    timeout: Seconds
    #: Memory of this execution; the sandbox's when left out.
    memory_bytes: int
    #: Characters returned of each output stream; 4000 when left out.
    output_limit: int
    #: Two calls with one key run the program once.
    idempotency_key: str
    #: Who runs it: ``user``, or ``root`` where the template and the token allow it.
    user: str
    #: Where its clock starts, with a time zone; the sandbox's own clock when left out.
    now: dt.datetime
    #: Its time zone, such as ``Europe/Berlin``; the sandbox's, UTC, when left out.
    timezone: str


class CreateOptions(TypedDict, total=False):
    """What to create."""

    #: Name of a template; the server's default when left out.
    template: str
    #: How long it lives.
    ttl: Seconds
    #: How long it may go without a call; 0 means for ever.
    idle_timeout: Seconds
    #: What happens when its time to live is over: ``destroy``, ``pause``, ``pause_until_used`` or
    #: ``pause_without_memory``.
    on_timeout: str | t.OnTimeout
    #: Variables every execution sees.
    env: Mapping[str, str]
    #: Your own words about it; ``Client.sandboxes`` filters by them.
    metadata: Mapping[str, str]
    #: Thousandths of a host processor.
    milli_cpus: int
    #: Memory of all programs together.
    memory_bytes: int
    #: Processes and threads at once.
    pids: int
    #: How long to wait for room when the host is full; 0 means not at all.
    queue_timeout: Seconds
    #: Name of a network policy; no network when left out.
    network: str
    #: What programs may ask of the gateway: ``openai/chat``, or ``openai/*`` for all operations of a service.
    gateway: Sequence[str]
    #: What they may spend there; as much as the operator allows when left out.
    gateway_budget: int
    #: How many executions may be started in it; any number when left out.
    max_turns: int
    #: Where in it the result is to be; ``info()`` says whether it is there.
    result_path: str
    #: Repeated with the same one, the first call's sandbox is returned.
    request_id: str


@dataclasses.dataclass(frozen=True)
class Call(Generic[T]):
    """A call with one answer."""

    method: str
    message: Json
    read: Callable[[Json], T]

    @property
    def path(self) -> str:
        return f"/rekindle.v1.{self.method}"

    @property
    def body(self) -> bytes:
        return json.dumps(self.message, separators=(",", ":")).encode()

    def answer(self, status: int, body: bytes) -> T:
        """What the server answered, or the error that it is."""
        if status == 200:
            return self.read(parse(body))
        raise refusal(status, body)


@dataclasses.dataclass(frozen=True)
class Stream(Call[T]):
    """A call with any number of answers."""

    @property
    def body(self) -> bytes:
        return frame(self.message)


def refusal(status: int, body: bytes) -> RekindleError:
    """The error of an answer that is none."""
    try:
        value = parse(body)
    except ProtocolError:
        value = {}
    if "code" not in value:
        return ProtocolError(f"the server answered with status {status} and no error of this API")
    return error_of(value)


def headers(token: str | None) -> dict[str, str]:
    """What every call carries."""
    shown = {"connect-protocol-version": "1", "user-agent": f"rekindle-python/{__version__}", "accept-encoding": "identity"}
    if token is not None:
        shown["authorization"] = f"Bearer {token}"
    return shown


def call_headers(
    deadline: float | None, kind: str = "application/json", length: int | None = None
) -> dict[str, str]:
    """What one call carries besides."""
    own = {"content-type": kind, **_origin.headers()}
    if length is not None:
        own["content-length"] = str(length)
    if deadline is not None:
        own["connect-timeout-ms"] = str(min(max(int(deadline * 1000), 1), 9_999_999_999))
    return own


STREAM = "application/connect+json"


def wait_before(error: RekindleError, tried: int, retries: int, left: float | None) -> float | None:
    """How long to wait before the call is made again; ``None`` when it is not. Only the server's word counts."""
    if tried >= retries or not error.retryable or error.retry_after is None:
        return None
    # Longer every time: everybody else who was refused comes back as well.
    wait = min(max(error.retry_after, 0.01) * 2**tried, _LONGEST_WAIT)
    return wait if left is None or wait < left else None


def late(deadline: float) -> DeadlineError:
    """The server did not say in time that the deadline is over."""
    return DeadlineError(f"no answer within {deadline} s", code="deadline_exceeded", reason="DEADLINE")


# Sandboxes.


def _reader(cls: type[T]) -> Callable[[Json], T]:
    return lambda value: decode(cls, value)


def _nothing(_value: Json) -> None:
    return None


def _span(value: Seconds | None) -> str | None:
    return None if value is None else span(value)


def _on_timeout(what: str | t.OnTimeout | None) -> str | None:
    if what is None:
        return None
    return f"ON_TIMEOUT_{(what if isinstance(what, t.OnTimeout) else t.OnTimeout(what.upper())).value}"


def create(options: CreateOptions) -> Call[t.SandboxInfo]:
    limits = fields(
        milli_cpus=options.get("milli_cpus"),
        memory_bytes=options.get("memory_bytes"),
        pids=options.get("pids"),
    )
    message = fields(
        template=options.get("template"),
        limits=limits,
        env=words(options.get("env")),
        ttl=_span(options.get("ttl")),
        idle_timeout=_span(options.get("idle_timeout")),
        metadata=words(options.get("metadata")),
        queue_timeout=_span(options.get("queue_timeout")),
        request_id=options.get("request_id"),
        network=options.get("network"),
        on_timeout=_on_timeout(options.get("on_timeout")),
        gateway=list(options.get("gateway", ())) or None,
        gateway_budget=options.get("gateway_budget"),
        max_turns=options.get("max_turns"),
        result_path=options.get("result_path"),
    )
    return Call("Sandboxes/Create", message, _reader(t.SandboxInfo))


def _about(method: str, sandbox: str) -> Call[t.SandboxInfo]:
    return Call(f"Sandboxes/{method}", fields(sandbox=sandbox), _reader(t.SandboxInfo))


def get(sandbox: str) -> Call[t.SandboxInfo]:
    return _about("Get", sandbox)


def pause(sandbox: str, without_memory: bool) -> Call[t.SandboxInfo]:
    message = fields(sandbox=sandbox, without_memory=without_memory or None)
    return Call("Sandboxes/Pause", message, _reader(t.SandboxInfo))


def resume(sandbox: str) -> Call[t.SandboxInfo]:
    return _about("Resume", sandbox)


def destroy(sandbox: str) -> Call[t.SandboxInfo]:
    return _about("Destroy", sandbox)


def set_timeout(
    sandbox: str, ttl: Seconds | None, idle_timeout: Seconds | None, on_timeout: str | t.OnTimeout | None
) -> Call[t.SandboxInfo]:
    message = fields(
        sandbox=sandbox, ttl=_span(ttl), idle_timeout=_span(idle_timeout), on_timeout=_on_timeout(on_timeout)
    )
    return Call("Sandboxes/SetTimeout", message, _reader(t.SandboxInfo))


def set_network(sandbox: str, network: str) -> Call[t.SandboxInfo]:
    return Call("Network/Update", fields(sandbox=sandbox, network=network), _reader(t.SandboxInfo))


def connections(sandbox: str, follow: bool) -> Stream[t.Connection]:
    return Stream("Network/Connections", fields(sandbox=sandbox, follow=follow), _reader(t.Connection))


def timeline(sandbox: str, trace: str = "") -> Call[t.Timeline]:
    return Call("Sandboxes/Timeline", fields(sandbox=sandbox, trace=trace), _reader(t.Timeline))


def sandboxes(metadata: Mapping[str, str] | None, include_ended: bool, page_token: str) -> Call[t.SandboxPage]:
    message = fields(metadata=words(metadata), include_ended=include_ended, page_token=page_token)
    return Call("Sandboxes/List", message, _reader(t.SandboxPage))


def watch_sandboxes(metadata: Mapping[str, str] | None, include_existing: bool, sandbox: str) -> Stream[t.SandboxEvent]:
    message = fields(metadata=words(metadata), include_existing=include_existing, sandbox=sandbox)
    return Stream("Sandboxes/Watch", message, _reader(t.SandboxEvent))


def templates() -> Call[t.TemplateList]:
    return Call("Host/ListTemplates", {}, _reader(t.TemplateList))


# Executions.


def program(what: Program) -> Json:
    if isinstance(what, Code):
        return {"code": fields(language=f"LANGUAGE_{what.language.upper()}", source=what.source)}
    if isinstance(what, str):
        return {"shell": what}
    return {"command": {"argv": list(what)}}


def _request(sandbox: str, what: Program, options: ExecuteOptions) -> Json:
    stdin = options.get("stdin")
    now = options.get("now")
    message = fields(
        sandbox=sandbox,
        program=program(what),
        stdin=text64(stdin) if stdin else None,
        env=words(options.get("env")),
        cwd=options.get("cwd"),
        timeout=_span(options.get("timeout")),
        memory_bytes=options.get("memory_bytes"),
        idempotency_key=options.get("idempotency_key"),
        user=options.get("user"),
        now=moment(now) if now else None,
        timezone=options.get("timezone"),
    )
    limit = options.get("output_limit")
    return message if limit is None else {**message, "outputLimit": limit}


def execute(result: type[R], sandbox: str, what: Program, options: ExecuteOptions) -> Call[R]:
    return Call("Sandboxes/Execute", _request(sandbox, what, options), _reader(result))


def execute_stream(event: type[V], sandbox: str, what: Program, options: ExecuteOptions) -> Stream[V]:
    message = {"start": {"request": _request(sandbox, what, options)}}
    return Stream("Sandboxes/ExecuteStream", message, _reader(event))


def start(
    sandbox: str, what: Program, options: ExecuteOptions, live_stdin: bool, terminal: tuple[int, int] | None
) -> Call[t.DetachedInfo]:
    message = fields(
        request=_request(sandbox, what, options),
        live_stdin=live_stdin,
        terminal=None if terminal is None else fields(rows=terminal[0], columns=terminal[1]),
    )
    return Call("Executions/Start", message, _reader(t.DetachedInfo))


def executions(sandbox: str) -> Call[t.DetachedList]:
    return Call("Executions/List", fields(sandbox=sandbox), _reader(t.DetachedList))


def attach(event: type[V], sandbox: str, execution: str, from_now: bool) -> Stream[V]:
    message = fields(sandbox=sandbox, execution=execution, from_now=from_now)
    return Stream("Executions/Attach", message, _reader(event))


def wait(result: type[R], sandbox: str, execution: str) -> Call[R]:
    return Call("Executions/Wait", fields(sandbox=sandbox, execution=execution), _reader(result))


def signal(sandbox: str, execution: str, number: int, everyone: bool) -> Call[None]:
    message = fields(sandbox=sandbox, execution=execution, signal=int(number), everyone=everyone)
    return Call("Executions/Signal", message, _nothing)


def send_input(sandbox: str, execution: str, data: bytes | str, end: bool) -> Call[None]:
    message = fields(sandbox=sandbox, execution=execution, data=text64(data), end=end)
    return Call("Executions/SendInput", message, _nothing)


def resize(sandbox: str, execution: str, rows: int, columns: int) -> Call[None]:
    size = fields(rows=rows, columns=columns)
    return Call("Executions/Resize", fields(sandbox=sandbox, execution=execution, size=size), _nothing)


# Code in contexts.

#: Other names that languages have.
_LANGUAGES = {"PY": "PYTHON", "JS": "JAVASCRIPT", "TS": "TYPESCRIPT", "SH": "BASH"}


def _language(language: str | code.CodeLanguage | None) -> str | None:
    if language is None:
        return None
    if not isinstance(language, code.CodeLanguage):
        name = language.upper()
        language = code.CodeLanguage(_LANGUAGES.get(name, name))
    return f"CODE_LANGUAGE_{language.value}"


def _context(context: str | code.CodeContext | None) -> str | None:
    return context.id if isinstance(context, code.CodeContext) else context


def run_code(
    sandbox: str,
    source: str,
    language: str | code.CodeLanguage | None,
    context: str | code.CodeContext | None,
    env: Mapping[str, str] | None,
) -> Stream[code.CodeEvent]:
    message = fields(
        sandbox=sandbox, code=source, language=_language(language), context=_context(context), env=words(env)
    )
    return Stream("Interpreter/Run", message, _reader(code.CodeEvent))


def create_context(sandbox: str, language: str | code.CodeLanguage, cwd: str) -> Call[code.CodeContext]:
    message = fields(sandbox=sandbox, language=_language(language), cwd=cwd)
    return Call("Interpreter/CreateContext", message, _reader(code.CodeContext))


def contexts(sandbox: str) -> Call[code.ContextList]:
    return Call("Interpreter/ListContexts", fields(sandbox=sandbox), _reader(code.ContextList))


def restart_context(sandbox: str, context: str | code.CodeContext) -> Call[None]:
    return Call("Interpreter/RestartContext", fields(sandbox=sandbox, context=_context(context)), _nothing)


def remove_context(sandbox: str, context: str | code.CodeContext) -> Call[None]:
    return Call("Interpreter/RemoveContext", fields(sandbox=sandbox, context=_context(context)), _nothing)


# Files.


def upload_start(
    sandbox: str,
    path: str,
    size: int | None,
    mode: int | None,
    must_not_exist: bool,
    in_place: bool,
    metadata: Mapping[str, str] | None,
    user: str,
) -> Stream[t.FileInfo]:
    """The first message of an upload; chunks and an end follow it."""
    begin = fields(
        sandbox=sandbox,
        path=text64(path),
        must_not_exist=must_not_exist,
        in_place=in_place,
        metadata=words(metadata),
        user=user,
    )
    if mode is not None:
        begin["mode"] = mode
    if size is not None:
        begin["size"] = str(size)
    return Stream("Files/Upload", {"start": begin}, _reader(t.FileInfo))


def upload_length(call: Stream[t.FileInfo], size: int | None) -> int | None:
    """Bytes of the whole request, so that the connection is free again as soon as its last one is read."""
    if size is None:
        return None
    whole, rest = divmod(size, CHUNK)
    frame_of = len(upload_chunk(b""))
    chunks = whole * (frame_of + (CHUNK + 2) // 3 * 4) + (frame_of + (rest + 2) // 3 * 4 if rest else 0)
    return len(call.body) + chunks + len(upload_end())


def size_of(file: BinaryIO) -> int | None:
    """Bytes in a file, where it can tell."""
    status = os.fstat(file.fileno())
    # Files that the kernel makes up say that they are empty.
    return status.st_size if stats.S_ISREG(status.st_mode) and status.st_size > 0 else None


def upload_chunk(data: bytes) -> bytes:
    return frame({"chunk": text64(data)})


def upload_end() -> bytes:
    return frame({"end": {}})


def download(sandbox: str, path: str, max_bytes: int, user: str) -> Stream[t.DownloadPart]:
    message = fields(sandbox=sandbox, path=text64(path), max_bytes=max_bytes, user=user)
    return Stream("Files/Download", message, _reader(t.DownloadPart))


class Received:
    """Counts what a download brings, so that no half of a file is taken for a whole."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0
        self._file: t.FileInfo | None = None

    def take(self, part: t.DownloadPart) -> bytes:
        """The content of a part."""
        if part.end is not None:
            if part.end.size != self._size or part.end.sha256 != self._digest.digest():
                raise ProtocolError("the download differs from what was sent")
            self._file = part.end.file
        self._digest.update(part.chunk)
        self._size += len(part.chunk)
        return part.chunk

    def file(self) -> t.FileInfo:
        """What was read, once it was read to its end."""
        if self._file is None:
            raise ProtocolError("the download broke off")
        return self._file


def aside(local: str | os.PathLike[str]) -> str:
    """Where a download is written until it is whole."""
    folder, name = os.path.split(os.path.abspath(local))
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex}")


def forget(path: str) -> None:
    """Removes what is left of a download."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def list_files(sandbox: str, path: str, max_entries: int, depth: int, user: str) -> Call[t.FileList]:
    message = fields(sandbox=sandbox, path=text64(path), max_entries=max_entries, depth=depth, user=user)
    return Call("Files/List", message, _reader(t.FileList))


def stat(sandbox: str, path: str, user: str) -> Call[t.FileInfo]:
    return Call("Files/Stat", fields(sandbox=sandbox, path=text64(path), user=user), _reader(t.FileInfo))


def remove(sandbox: str, path: str, recursive: bool, user: str) -> Call[None]:
    return Call("Files/Remove", fields(sandbox=sandbox, path=text64(path), recursive=recursive, user=user), _nothing)


def make_dir(sandbox: str, path: str, mode: int | None, must_not_exist: bool, user: str) -> Call[t.FileInfo]:
    message = fields(sandbox=sandbox, path=text64(path), must_not_exist=must_not_exist, user=user)
    if mode is not None:
        message["mode"] = mode
    return Call("Files/MakeDir", message, _reader(t.FileInfo))


def move(sandbox: str, source: str, to: str, must_not_exist: bool, user: str) -> Call[t.FileInfo]:
    message = fields(sandbox=sandbox, from_=text64(source), to=text64(to), must_not_exist=must_not_exist, user=user)
    return Call("Files/Move", message, _reader(t.FileInfo))


def describe(
    sandbox: str, paths: str | Sequence[str], max_chars: int, load_data: str | None, timeout: Seconds | None, user: str
) -> Call[t.Description]:
    message = fields(
        sandbox=sandbox,
        paths=[text64(path) for path in ([paths] if isinstance(paths, str) else paths)],
        max_chars=max_chars,
        user=user,
        loader=text64(load_data) if load_data else None,
        timeout=None if timeout is None else span(timeout),
    )
    return Call("Files/Describe", message, _reader(t.Description))


def watch(sandbox: str, path: str, recursive: bool, describe: bool, user: str) -> Stream[t.FileEvents]:
    message = fields(sandbox=sandbox, path=text64(path), recursive=recursive, describe=describe, user=user)
    return Stream("Files/Watch", message, _reader(t.FileEvents))


def lost(output: t.Output) -> bool:
    """Some of an output is neither here nor in the sandbox."""
    return output.truncated and (not output.spilled_path or output.spilled_bytes < output.total_bytes)


def spilled(output: t.Output, partial: bool) -> str | None:
    """Where the whole of an output is, or with ``partial`` as much of it as there is; ``None`` when that is already here."""
    if lost(output) and not partial:
        raise OutputLostError(output.spilled_bytes, output.total_bytes)
    return output.spilled_path or None


