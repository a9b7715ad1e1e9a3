"""pydantic-ai: a sandbox as the workspace of an agent's runs.

    from pydantic_ai.workspaces import Workspace
    from rekindle.adapters.pydantic_ai import RekindleBackend

    backend = RekindleBackend(template="python-node")
    workspace = Workspace(backend)             # the sandbox is created by the first operation
    ...
    await backend.cleanup()
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from .._async import AsyncClient, AsyncResult, AsyncSandbox
from .._calls import CreateOptions, ExecuteOptions, lost
from .._errors import RekindleError
from .._types import FileInfo, FileKind, Output
from ._common import NOT_FOUND, is_gone, is_no_program, os_error, run, shell_code, text

if TYPE_CHECKING:
    from typing_extensions import Unpack

PROVIDER = "rekindle"


class RekindleBackend:
    """A sandbox that is created by the first operation, or the one that ``ref`` names.

    It outlives runs; who has the ``ref`` ends it, or :meth:`cleanup` does. Keywords are those of ``Sandbox``.
    """

    def __init__(
        self,
        *,
        ref: WorkspaceRef | None = None,
        client: AsyncClient | None = None,
        **options: Unpack[CreateOptions],
    ) -> None:
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"unsupported workspace provider {ref.provider!r}; expected {PROVIDER!r}")
        self._ref = ref
        # Made with the first operation: a client belongs to a loop.
        self._make: Callable[[], AsyncSandbox] = lambda: (
            AsyncSandbox(client=client, **options) if ref is None else AsyncSandbox.connect(ref.id, client=client)
        )
        self._sandbox: AsyncSandbox | None = None
        self._creating: asyncio.Task[str] | None = None
        self._home: str | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def sandbox(self) -> AsyncSandbox:
        """The sandbox itself, for what a workspace has no words for."""
        if self._sandbox is None:
            self._sandbox = self._make()
        if self._ref is None:
            if self._creating is None:
                self._creating = asyncio.create_task(self._sandbox.ready())
                self._creating.add_done_callback(self._created)
            # Whoever stops waiting does not stop it: the others, and the reference, need it.
            await asyncio.wait([self._creating])
            self._creating.result()
        return self._sandbox

    def _created(self, task: asyncio.Task[str]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._creating = None  # The next one tries again.
        else:
            self._ref = WorkspaceRef(provider=PROVIDER, id=task.result())

    async def cleanup(self) -> None:
        """Ends the sandbox, if there is one."""
        if self._ref is not None or self._sandbox is not None:
            await (await self.sandbox()).cleanup()

    async def working_dir(self) -> str:
        home = self._home
        if home is None:
            home = self._home = str((await self.run(["pwd", "-P"])).stdout).strip()
        return home

    # Commands.

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, a sequence of words shell=False")
        program = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        options: ExecuteOptions = {"env": env or {}}
        if timeout is not None:
            if not 0 < timeout < float("inf"):
                raise ValueError("timeout must be a positive finite number or None")
            options["timeout"] = timeout
        sandbox = await self.sandbox()
        try:
            result = await run(sandbox, program, options)
            stdout, stderr = await _whole(result, result.stdout_output), await _whole(result, result.stderr_output)
        except RekindleError as error:
            if is_no_program(error):
                return CommandResult(exit_code=NOT_FOUND, stdout="", stderr=error.message)
            raise self._translated(error) from error
        if result.timed_out:
            raise WorkspaceTimeoutError(f"Command timed out after {timeout:g} seconds", stdout=stdout, stderr=stderr)
        return CommandResult(exit_code=shell_code(result), stdout=stdout, stderr=stderr)

    # Files.

    async def read_bytes(self, path: str) -> bytes:
        sandbox = await self.sandbox()
        with self._errors(path):
            info = await sandbox.stat(path)
            if FileKind.DIRECTORY in (info.kind, info.link_kind):
                raise IsADirectoryError(f"{path} is a directory")
            return await sandbox.read_file(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        sandbox = await self.sandbox()
        with self._errors(path):
            await sandbox.write_file(path, data, in_place=True)

    async def stat(self, path: str) -> FileEntry:
        sandbox = await self.sandbox()
        with self._errors(path):
            return _entry(path, await sandbox.stat(path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        sandbox = await self.sandbox()
        with self._errors(path):
            listing = await sandbox.list_files(path)
            return [_entry(posixpath.join(path, info.path), info) for info in listing.entries]

    async def make_dir(self, path: str) -> None:
        sandbox = await self.sandbox()
        try:
            with self._errors(path):
                await sandbox.make_dir(path)
        except NotADirectoryError:
            if await self.exists(path):
                raise FileExistsError(f"{path} is there, and no directory") from None
            raise

    async def remove(self, path: str) -> None:
        home, path = await self.working_dir(), posixpath.normpath(path)
        if posixpath.commonpath([home, path]) == path:
            raise ValueError(f"{path} is the working directory, or holds it")
        sandbox = await self.sandbox()
        with self._errors(path):
            await sandbox.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @contextmanager
    def _errors(self, path: str) -> Generator[None, None, None]:
        try:
            yield
        except RekindleError as error:
            raise os_error(error, path) or self._translated(error) from error

    def _translated(self, error: RekindleError) -> Exception:
        if is_gone(error):
            name = self._ref.id if self._ref is not None else "that was created"
            return WorkspaceUnavailableError(f"the sandbox {name} is gone: {error.message}")
        return error


async def _whole(result: AsyncResult, output: Output) -> str:
    if lost(output):
        raise WorkspaceOutputLimitError(
            "the output is more than the sandbox keeps; write it to a file and read a part of it instead",
            limit=output.spilled_bytes,
            stdout=result.stdout,
            stderr=result.stderr,
        )
    return text(await (result.full_stdout() if output is result.stdout_output else result.full_stderr()))


def _entry(path: str, info: FileInfo) -> FileEntry:
    """``is_dir`` and ``size`` are those of what a symbolic link leads to."""
    is_link = info.kind is FileKind.SYMLINK
    is_dir = (info.link_kind if is_link else info.kind) is FileKind.DIRECTORY
    size = info.size if info.kind is FileKind.FILE else None
    return FileEntry(name=posixpath.basename(path), path=path, is_dir=is_dir, size=size)
