"""The client for programs with ``asyncio``. ``_sync.py`` is made from it by ``tools/make_sync.py``; what is sent and how
answers are read is in ``_calls.py``."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal as signals
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import httpx

from . import _calls as c
from . import _code as code
from . import _config as config
from . import _port as p
from . import _types as t
from . import _wire as w
from ._calls import Code, CreateOptions, ExecuteOptions, Program, Seconds
from ._errors import ConnectionFailedError, NotFoundError, RekindleError
from ._http import failed, timeouts

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class AsyncResult(t.ExecutionResult):
    """What came of an execution. Whatever its end, it is a result and no exception."""

    _sandbox: AsyncSandbox | None = dataclasses.field(default=None, repr=False, compare=False)

    async def full_stdout(self, *, partial: bool = False) -> bytes:
        """All that it printed, also what was cut.

        A sandbox keeps 64 MiB of each stream, of its last 32 executions that were cut. Where that is not all, it is an
        :class:`OutputLostError`, or with ``partial`` the part that was kept: the beginning, or the shortened text.
        """
        return await self._full(self.stdout_output, partial)

    async def full_stderr(self, *, partial: bool = False) -> bytes:
        """All that it printed to its standard error, in the same way."""
        return await self._full(self.stderr_output, partial)

    async def _full(self, output: t.Output, partial: bool) -> bytes:
        path = c.spilled(output, partial)
        if path is None or self._sandbox is None:
            return output.text.encode()
        return await self._sandbox.read_file(path)


@dataclasses.dataclass(frozen=True)
class AsyncEvent(t.ExecuteEvent):
    """What a live execution tells: exactly one of these is set."""

    finished: AsyncResult | None = w.wire("finished", w.message(AsyncResult))


class AsyncClient:
    """A server.

    ``server`` is ``unix:/PATH`` or ``https://HOST:PORT``, else the variable REKINDLE_SERVER, else the socket of this
    machine's server; ``token`` else REKINDLE_TOKEN. Many calls may be under way at once.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        ca: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        retries: int = c.RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        address = config.address(server)
        if transport is None:
            if address.socket is not None:
                transport = httpx.AsyncHTTPTransport(uds=address.socket)
            elif address.url.startswith("https:"):
                transport = httpx.AsyncHTTPTransport(verify=config.tls(ca, client_cert, client_key))
            else:
                transport = httpx.AsyncHTTPTransport()
        self._retries = retries
        self._http = httpx.AsyncClient(
            base_url=address.url, transport=transport, headers=c.headers(config.token(token)), trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes its connections. Sandboxes go on."""
        await self._http.aclose()

    async def create(self, *, deadline: float | None = None, **options: Unpack[CreateOptions]) -> AsyncSandbox:
        """Creates a sandbox."""
        sandbox = AsyncSandbox(client=self, **options)
        await sandbox.ready(deadline=deadline)
        return sandbox

    def sandbox(self, id: str) -> AsyncSandbox:
        """A sandbox that is there. ``with`` lets go of it and does not end it."""
        return AsyncSandbox.connect(id, client=self)

    async def sandboxes(
        self, metadata: Mapping[str, str] | None = None, *, include_ended: bool = False
    ) -> AsyncIterator[t.SandboxInfo]:
        """Sandboxes, oldest first; only those whose metadata has all of these pairs."""
        page = ""
        while True:
            answer = await self.call(c.sandboxes(metadata, include_ended, page))
            for sandbox in answer.sandboxes:
                yield sandbox
            page = answer.next_page_token
            if not page:
                return

    async def watch(
        self, metadata: Mapping[str, str] | None = None, *, include_existing: bool = False, sandbox: str = ""
    ) -> AsyncGenerator[t.SandboxEvent, None]:
        """Tells what happens to sandboxes, from now on; only those whose metadata has all of these pairs, or the one of
        this name. With ``include_existing`` those that are there come first."""
        async with aclosing(self.stream(c.watch_sandboxes(metadata, include_existing, sandbox))) as events:
            async for event in events:
                yield event

    async def templates(self) -> list[t.Template]:
        """What sandboxes can be made from."""
        return (await self.call(c.templates())).templates

    async def networks(self) -> list[t.NetworkPolicy]:
        """The network policies that sandboxes can be created with."""
        return (await self.call(c.templates())).networks

    async def rules(self) -> t.SandboxRules:
        """What holds for every sandbox: defaults and bounds."""
        return (await self.call(c.templates())).rules

    async def timeline(self, trace: str) -> t.Timeline:
        """What happened in a trace, named by the 32 digits of its id, in all sandboxes; with sums by its steps."""
        return await self.call(c.timeline("", trace))

    async def call(self, call: c.Call[T], deadline: float | None = None) -> T:
        """Makes a call with one answer. It is repeated where its error says so, and only there."""
        began, tried = time.monotonic(), 0
        while True:
            left = None if deadline is None else deadline - (time.monotonic() - began)
            try:
                with failed(deadline):
                    answer = await self._http.post(
                        call.path, content=call.body, headers=c.call_headers(left), timeout=timeouts(left)
                    )
                return call.answer(answer.status_code, answer.content)
            except RekindleError as error:
                wait = c.wait_before(error, tried, self._retries, left)
                if wait is None:
                    raise
                await asyncio.sleep(wait)
                tried += 1

    async def stream(
        self,
        call: c.Stream[T],
        deadline: float | None = None,
        content: AsyncIterable[bytes] | None = None,
        length: int | None = None,
    ) -> AsyncGenerator[T, None]:
        """Makes a call with any number of answers. Closing the generator ends the call.

        ``content`` is the whole request where it has more than one message, of ``length`` bytes where that is known.
        """
        headers = c.call_headers(deadline, c.STREAM, length)
        body = call.body if content is None else content
        frames = w.Frames()
        with failed(deadline):
            async with self._http.stream(
                "POST", call.path, content=body, headers=headers, timeout=timeouts(deadline)
            ) as answer:
                if answer.status_code != 200:
                    raise c.refusal(answer.status_code, await answer.aread())
                async for data in answer.aiter_raw():
                    for message in frames.feed(data):
                        yield call.read(message)
                    frames.check()
                frames.end()


class AsyncSandbox:
    """A virtual machine for code that nobody has read.

    It is created when it is first used, or entered with ``async with``, and ended by :meth:`cleanup`, or at the end of
    that block. Keywords are those of :class:`CreateOptions`; ``client`` is a server to use, else one is made by the
    variables of the environment.
    """

    def __init__(self, *, client: AsyncClient | None = None, **options: Unpack[CreateOptions]) -> None:
        self._own_client = client is None
        self.client = AsyncClient() if client is None else client
        # Whoever does not hear the answer and asks again gets the same sandbox.
        self._options: CreateOptions = {"request_id": uuid.uuid4().hex, **options}
        self._lock = asyncio.Lock()
        self._id: str | None = None
        self._owned = True
        self._ended = False

    @classmethod
    def connect(cls, id: str, *, client: AsyncClient | None = None) -> AsyncSandbox:
        """A sandbox that is there. At the end of ``with`` it is let go of, and not ended."""
        sandbox = cls(client=client)
        sandbox._id, sandbox._owned = id, False
        return sandbox

    async def __aenter__(self) -> Self:
        try:
            await self.ready()
        except BaseException:
            if self._own_client:
                await self.client.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owned:
            await self.cleanup()
        elif self._own_client:
            await self.client.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id or 'not created yet'}>"

    @property
    def id(self) -> str:
        """Its name, once it is created."""
        if self._id is None:
            raise RekindleError("the sandbox is not created yet: use it, enter it, or call ready()")
        return self._id

    async def ready(self, *, deadline: float | None = None) -> str:
        """Creates it now rather than at its first use; its name."""
        async with self._lock:
            if self._ended:
                raise RekindleError("this sandbox was cleaned up")
            if self._id is None:
                self._id = (await self.client.call(c.create(self._options), deadline)).id
            return self._id

    async def cleanup(self) -> None:
        """Ends the sandbox; nothing of it is left. Doing so twice is no error."""
        async with self._lock:
            there, self._ended = not self._ended, True
        try:
            if there and self._id is not None:
                await self.client.call(c.destroy(self._id))
        except NotFoundError:
            pass  # It ended long ago.
        finally:
            if self._own_client:
                await self.client.aclose()

    # Programs.

    async def execute(
        self, program: Program, *, deadline: float | None = None, **options: Unpack[ExecuteOptions]
    ) -> AsyncResult:
        """Runs a line for the shell, or a program with its arguments, and returns its shortened output.

        ``timeout`` bounds the program, ``deadline`` (seconds) the whole call. Whoever gives up, kills it.
        """
        call = c.execute(AsyncResult, await self.ready(), program, options)
        return self._linked(await self.client.call(call, deadline))

    async def shell(
        self, line: str, *, deadline: float | None = None, **options: Unpack[ExecuteOptions]
    ) -> AsyncResult:
        """Runs a line for the shell."""
        return await self.execute(line, deadline=deadline, **options)

    async def run_python(
        self, source: str, *, deadline: float | None = None, **options: Unpack[ExecuteOptions]
    ) -> AsyncResult:
        """Runs Python code."""
        return await self.execute(Code("python", source), deadline=deadline, **options)

    async def run_node(
        self, source: str, *, deadline: float | None = None, **options: Unpack[ExecuteOptions]
    ) -> AsyncResult:
        """Runs JavaScript on Node."""
        return await self.execute(Code("node", source), deadline=deadline, **options)

    async def stream(
        self, program: Program, *, deadline: float | None = None, **options: Unpack[ExecuteOptions]
    ) -> AsyncGenerator[AsyncEvent, None]:
        """Runs a program and tells what it prints as it prints it. Closing the generator kills the program."""
        call = c.execute_stream(AsyncEvent, await self.ready(), program, options)
        async with aclosing(self._events(call, deadline)) as events:
            async for event in events:
                yield event

    async def start(
        self,
        program: Program,
        *,
        live_stdin: bool = False,
        terminal: tuple[int, int] | None = None,
        **options: Unpack[ExecuteOptions],
    ) -> AsyncExecution:
        """Starts a program that goes on without anybody waiting for it. ``terminal`` is lines and columns."""
        started = await self.client.call(c.start(await self.ready(), program, options, live_stdin, terminal))
        return AsyncExecution(self, started.execution, started)

    async def executions(self) -> list[t.DetachedInfo]:
        """The programs that were started so, oldest first."""
        return (await self.client.call(c.executions(await self.ready()))).executions

    def execution(self, name: str) -> AsyncExecution:
        """A program that was started so."""
        return AsyncExecution(self, name)

    def _linked(self, result: AsyncResult) -> AsyncResult:
        return dataclasses.replace(result, _sandbox=self)

    async def _events(self, call: c.Stream[AsyncEvent], deadline: float | None) -> AsyncGenerator[AsyncEvent, None]:
        async with aclosing(self.client.stream(call, deadline)) as events:
            async for event in events:
                if event.finished is not None:
                    event = dataclasses.replace(event, finished=self._linked(event.finished))
                yield event

    # Code in contexts, which remember.

    async def run_code(
        self,
        source: str,
        *,
        language: str | code.CodeLanguage | None = None,
        context: str | code.CodeContext | None = None,
        env: Mapping[str, str] | None = None,
        on_event: Callable[[code.CodeEvent], None] | None = None,
        deadline: float | None = None,
    ) -> code.CodeRun:
        """Runs code in a context: what earlier runs defined is there. Code that fails is a result.

        ``language`` is ``python``, ``javascript``, ``typescript`` or ``bash``, each with a context of its own;
        ``context`` names another one. ``on_event`` is told everything as it happens. Whoever gives up interrupts it.
        """
        collected = code.Collected()
        events = self.stream_code(source, language=language, context=context, env=env, deadline=deadline)
        async with aclosing(events):
            async for event in events:
                collected.take(event)
                if on_event is not None:
                    on_event(event)
        return collected.run()

    async def stream_code(
        self,
        source: str,
        *,
        language: str | code.CodeLanguage | None = None,
        context: str | code.CodeContext | None = None,
        env: Mapping[str, str] | None = None,
        deadline: float | None = None,
    ) -> AsyncGenerator[code.CodeEvent, None]:
        """Runs code in a context and tells what it prints and shows. Closing the generator interrupts the code."""
        call = c.run_code(await self.ready(), source, language, context, env)
        async with aclosing(self.client.stream(call, deadline)) as events:
            async for event in events:
                yield event

    async def create_context(
        self, language: str | code.CodeLanguage = "python", *, cwd: str = ""
    ) -> code.CodeContext:
        """Makes a context whose code begins in ``cwd``, or in the user's home."""
        return await self.client.call(c.create_context(await self.ready(), language, cwd))

    async def contexts(self) -> list[code.CodeContext]:
        """The contexts of the sandbox, oldest first."""
        return (await self.client.call(c.contexts(await self.ready()))).contexts

    async def restart_context(self, context: str | code.CodeContext) -> None:
        """Forgets what was defined in a context."""
        await self.client.call(c.restart_context(await self.ready(), context))

    async def remove_context(self, context: str | code.CodeContext) -> None:
        """Removes a context."""
        await self.client.call(c.remove_context(await self.ready(), context))

    # Files. Paths in the sandbox are absolute or relative to its user's home.

    async def upload_file(
        self,
        local: str | os.PathLike[str],
        path: str,
        *,
        mode: int | None = None,
        must_not_exist: bool = False,
        in_place: bool = False,
        metadata: Mapping[str, str] | None = None,
        user: str = "",
    ) -> t.FileInfo:
        """Writes a file of this machine to ``path`` in the sandbox, whole or not at all."""
        sandbox = await self.ready()
        with open(local, "rb") as file:
            size = c.size_of(file)
            call = c.upload_start(sandbox, path, size, mode, must_not_exist, in_place, metadata, user)
            return await self._upload(call, size, iter(lambda: file.read(c.CHUNK), b""))

    async def write_file(
        self,
        path: str,
        content: bytes | str,
        *,
        mode: int | None = None,
        must_not_exist: bool = False,
        in_place: bool = False,
        metadata: Mapping[str, str] | None = None,
        user: str = "",
    ) -> t.FileInfo:
        """Writes content to ``path`` in the sandbox, whole or not at all."""
        data = content.encode() if isinstance(content, str) else content
        call = c.upload_start(await self.ready(), path, len(data), mode, must_not_exist, in_place, metadata, user)
        return await self._upload(call, len(data), (data[at : at + c.CHUNK] for at in range(0, len(data), c.CHUNK)))

    async def _upload(
        self, call: c.Stream[t.FileInfo], size: int | None, chunks: Iterable[bytes]
    ) -> t.FileInfo:
        async def content() -> AsyncIterator[bytes]:
            yield call.body
            for chunk in chunks:
                yield c.upload_chunk(chunk)
            yield c.upload_end()

        written = [info async for info in self.client.stream(call, None, content(), c.upload_length(call, size))]
        if len(written) != 1:
            raise ConnectionFailedError("the upload was not answered")
        return written[0]

    async def download_file(self, path: str, local: str | os.PathLike[str], *, max_bytes: int = 0, user: str = "") -> t.FileInfo:
        """Writes a file of the sandbox to one of this machine, whole or not at all. A directory comes as a tar archive."""
        call = c.download(await self.ready(), path, max_bytes, user)
        received = c.Received()
        aside = c.aside(local)
        try:
            with open(aside, "xb") as file:
                async for part in self.client.stream(call):
                    file.write(received.take(part))
            info = received.file()
            os.replace(aside, local)
        except BaseException:
            c.forget(aside)
            raise
        return info

    async def read_file(self, path: str, *, max_bytes: int = 0, user: str = "") -> bytes:
        """The content of a file of the sandbox, or of a directory as a tar archive."""
        call = c.download(await self.ready(), path, max_bytes, user)
        received = c.Received()
        content = b"".join([received.take(part) async for part in self.client.stream(call)])
        received.file()
        return content

    async def list_files(self, path: str = "", *, max_entries: int = 0, depth: int = 1, user: str = "") -> t.FileList:
        """What a directory holds; the user's home when left out."""
        return await self.client.call(c.list_files(await self.ready(), path, max_entries, depth, user))

    async def stat(self, path: str, *, user: str = "") -> t.FileInfo:
        """Describes a path; a symbolic link is not followed."""
        return await self.client.call(c.stat(await self.ready(), path, user))

    async def remove(self, path: str, *, recursive: bool = False, user: str = "") -> None:
        """Removes a file or a directory."""
        await self.client.call(c.remove(await self.ready(), path, recursive, user))

    async def make_dir(self, path: str, *, mode: int | None = None, must_not_exist: bool = False, user: str = "") -> t.FileInfo:
        """Makes a directory, with the parents it needs."""
        return await self.client.call(c.make_dir(await self.ready(), path, mode, must_not_exist, user))

    async def move(self, path: str, to: str, *, must_not_exist: bool = False, user: str = "") -> t.FileInfo:
        """Renames a file or a directory within the sandbox."""
        return await self.client.call(c.move(await self.ready(), path, to, must_not_exist, user))

    async def describe(
        self,
        path: str | Sequence[str],
        *,
        max_chars: int = 4000,
        load_data: str | None = None,
        timeout: Seconds | None = None,
        user: str = "",
    ) -> t.Description:
        """Says what is in data without reading it out: of JSON, JSON Lines, CSV, Parquet, Excel and SQLite files and of
        directories the records, keys, types, ranges and examples. Of several paths also by which columns they may
        belong together. With ``load_data`` a Python program that loads them is written to that path of the sandbox."""
        return await self.client.call(c.describe(await self.ready(), path, max_chars, load_data, timeout, user))

    async def watch(
        self, path: str, *, recursive: bool = False, describe: bool = False, user: str = ""
    ) -> AsyncGenerator[list[t.FileEvent], None]:
        """Tells what changes in a directory. An empty list comes first: from then on nothing is missed."""
        call = c.watch(await self.ready(), path, recursive, describe, user)
        async with aclosing(self.client.stream(call)) as told:
            async for changes in told:
                yield changes.events

    # What its programs serve.

    async def port(self, number: int) -> p.Port:
        """How to reach a port that a program in the sandbox serves over HTTP: ``url``, and ``headers`` that every
        request needs."""
        return p.port(await self.info(), number)

    async def get_host(self, number: int) -> str:
        """The name under which a port is reached, where the server has a domain for its sandboxes. Requests need the
        headers of :meth:`port` all the same."""
        return (await self.port(number)).named()

    # Its life.

    async def info(self) -> t.SandboxInfo:
        """The sandbox as it is now."""
        return await self.client.call(c.get(await self.ready()))

    async def pause(self, *, without_memory: bool = False) -> t.SandboxInfo:
        """Stops its processors and its clocks. Without its memory its files alone are kept: its programs end, it takes up
        no memory of the host, and ``resume`` boots it."""
        return await self.client.call(c.pause(await self.ready(), without_memory))

    async def resume(self) -> t.SandboxInfo:
        """Lets it run again."""
        return await self.client.call(c.resume(await self.ready()))

    async def set_timeout(
        self,
        *,
        ttl: Seconds | None = None,
        idle_timeout: Seconds | None = None,
        on_timeout: str | t.OnTimeout | None = None,
    ) -> t.SandboxInfo:
        """Sets how long it still has, from now on, how long it may go without a call (0: for ever), and what happens
        when the first is over: ``destroy``, ``pause``, ``pause_until_used`` or ``pause_without_memory``."""
        return await self.client.call(c.set_timeout(await self.ready(), ttl, idle_timeout, on_timeout))

    async def set_network(self, network: str) -> t.SandboxInfo:
        """Puts another network policy in force; ``none`` means no network."""
        return await self.client.call(c.set_network(await self.ready(), network))

    async def connections(self, *, follow: bool = False) -> AsyncGenerator[t.Connection, None]:
        """The last connections to the outside, oldest first; with ``follow`` every change until the sandbox ends."""
        call = c.connections(await self.ready(), follow)
        async with aclosing(self.client.stream(call)) as told:
            async for connection in told:
                yield connection

    async def timeline(self) -> t.Timeline:
        """What happened in it: every call with its cost."""
        return await self.client.call(c.timeline(await self.ready()))


class AsyncExecution:
    """A program in a sandbox that goes on without anybody waiting for it."""

    def __init__(self, sandbox: AsyncSandbox, name: str, started: t.DetachedInfo | None = None) -> None:
        self.sandbox = sandbox
        self.name = name
        #: What was told when it was started.
        self.started = started

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def attach(
        self, *, from_now: bool = False, deadline: float | None = None
    ) -> AsyncGenerator[AsyncEvent, None]:
        """What it prints, from its beginning as far as that is kept. Closing the generator leaves it alone."""
        call = c.attach(AsyncEvent, self.sandbox.id, self.name, from_now)
        told = self.sandbox._events(call, deadline)
        async with aclosing(told) as events:
            async for event in events:
                yield event

    async def wait(self, *, deadline: float | None = None) -> AsyncResult:
        """Waits for its end."""
        result = await self.sandbox.client.call(c.wait(AsyncResult, self.sandbox.id, self.name), deadline)
        return self.sandbox._linked(result)

    async def signal(self, number: int, *, everyone: bool = False) -> None:
        """Sends it a signal, or every process of it."""
        await self.sandbox.client.call(c.signal(self.sandbox.id, self.name, number, everyone))

    async def kill(self) -> None:
        """Kills every process of it."""
        await self.signal(signals.SIGKILL, everyone=True)

    async def send_input(self, data: bytes | str, *, end: bool = False) -> None:
        """Sends bytes to its standard input, after all that was sent before."""
        await self.sandbox.client.call(c.send_input(self.sandbox.id, self.name, data, end))

    async def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        await self.sandbox.client.call(c.resize(self.sandbox.id, self.name, rows, columns))
