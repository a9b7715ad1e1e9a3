"""openai-agents: a sandbox for the runs of a ``SandboxAgent``.

    from agents import RunConfig, Runner
    from agents.sandbox import SandboxAgent, SandboxRunConfig
    from rekindle.adapters.openai_agents import RekindleSandboxClient, RekindleSandboxClientOptions

    options = RekindleSandboxClientOptions(template="python-node")
    config = RunConfig(sandbox=SandboxRunConfig(client=RekindleSandboxClient(), options=options))
    await Runner.run(SandboxAgent(name="Coder", model=...), "...", run_config=config)
"""

from __future__ import annotations

import io
import shlex
import uuid
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Literal

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    MountConfigError,
    PtySessionNotFoundError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import (
    BaseSandboxClient,
    BaseSandboxClientOptions,
    BaseSandboxSession,
    SandboxSession,
    SandboxSessionState,
)
from agents.sandbox.session.pty_types import (
    PtyExecUpdate,
    clamp_pty_yield_time_ms,
    resolve_pty_write_yield_time_ms,
)
from agents.sandbox.session.runtime_helpers import (
    RESOLVE_WORKSPACE_PATH_HELPER,
    RuntimeHelperScript,
)
from agents.sandbox.session.tar_workspace import shell_tar_exclude_args
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, User
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, validate_tar_bytes
from agents.sandbox.workspace_paths import sandbox_path_str

from .. import _calls as c
from .._async import AsyncClient, AsyncSandbox
from .._calls import CreateOptions, ExecuteOptions
from .._errors import RekindleError
from .._types import FileKind, SandboxState
from ._common import NOT_FOUND, as_user, is_no_program, os_error, run, shell_code
from ._openai_processes import Process, Processes

#: The terminal of a program that wants one: lines and columns.
TERMINAL = (24, 80)
#: How long a call waits for output when the model does not say.
FIRST_WAIT, NEXT_WAIT = 10.0, 0.25


class RekindleSandboxClientOptions(BaseSandboxClientOptions):
    """What to create for a run; what is left out is the server's default."""

    type: Literal["rekindle"] = "rekindle"  # pyright: ignore[reportIncompatibleVariableOverride]
    template: str | None = None
    #: How long it lives, in seconds.
    ttl: float | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    memory_bytes: int | None = None
    #: Name of a network policy; no network when left out.
    network: str | None = None
    #: Whether it is paused at the end of a run rather than ended, for a later run to resume.
    pause_on_exit: bool = False


class RekindleSandboxSessionState(SandboxSessionState):
    """What a later run needs to go on with a sandbox, or with another one that is made like it."""

    type: Literal["rekindle"] = "rekindle"  # pyright: ignore[reportIncompatibleVariableOverride]
    sandbox_id: str
    options: RekindleSandboxClientOptions


class RekindleSandboxSession(BaseSandboxSession):
    """A sandbox as a session; its workspace is the directory that the manifest calls the root."""

    state: RekindleSandboxSessionState  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, state: RekindleSandboxSessionState, sandbox: AsyncSandbox) -> None:
        self.state = state
        self.sandbox = sandbox
        self._root_ready = bool(state.workspace_root_ready)
        self._processes = Processes()

    # Its life.

    async def running(self) -> bool:
        try:
            return self._root_ready and (await self.sandbox.info()).state is SandboxState.RUNNING
        except RekindleError:
            return False

    async def _prepare_backend_workspace(self) -> None:
        root = self._workspace_root_path()
        made = await self._exec_internal("mkdir", "-p", "--", root.as_posix())
        if not made.ok():
            # Where only root may, root makes it for the user.
            words = 'mkdir -p -- "$1" && chown user: -- "$1"'
            made = await self._exec_internal("sudo", "-u", "root", "--", "/bin/sh", "-c", words, "sh", root.as_posix())
        if not made.ok():
            said = made.stderr.decode("utf-8", "replace")
            raise WorkspaceStartError(path=root, context={"reason": "no_workspace_root", "stderr": said})
        self._root_ready = True

    def _mark_workspace_root_ready_from_probe(self) -> None:
        super()._mark_workspace_root_ready_from_probe()
        self._root_ready = True

    async def _shutdown_backend(self) -> None:
        await self._processes.end()
        if not self.state.options.pause_on_exit:
            await self.sandbox.cleanup()
            return
        with suppress(RekindleError):
            await self.sandbox.pause()

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    def _current_runtime_helper_cache_key(self) -> object | None:
        return self.state.sandbox_id

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    # Programs.

    async def _program(self, command: tuple[str | Path, ...]) -> tuple[list[str], ExecuteOptions]:
        words = [str(word) for word in command]
        user = None
        # How the framework says that another user runs it.
        if words[:2] == ["sudo", "-u"] and words[3:4] == ["--"]:
            user, words = words[2], words[4:]
        env: Mapping[str, str] = await self.state.manifest.environment.resolve()
        options: ExecuteOptions = {"env": env}
        if self._root_ready:
            options["cwd"] = self.state.manifest.root
        return as_user(words, user, options), options

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words, options = await self._program(command)
        if timeout is not None:
            options["timeout"] = max(timeout, 0.001)
        try:
            result = await run(self.sandbox, words, options)
            stdout, stderr = await result.full_stdout(), await result.full_stderr()
        except RekindleError as error:
            if is_no_program(error):
                return ExecResult(stdout=b"", stderr=error.message.encode(), exit_code=NOT_FOUND)
            raise ExecTransportError(command=command, cause=error, retryable=error.retryable) from error
        if result.timed_out:
            raise ExecTimeoutError(command=command, timeout_s=timeout)
        return ExecResult(stdout=stdout, stderr=stderr, exit_code=shell_code(result))

    def supports_pty(self) -> bool:
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        prepared = self._prepare_exec_command(*command, shell=shell, user=user)
        words, options = await self._program(tuple(prepared))
        if timeout is not None:
            options["timeout"] = max(timeout, 0.001)
        try:
            terminal = TERMINAL if tty else None
            execution = await self.sandbox.start(words, live_stdin=tty, terminal=terminal, **options)
        except RekindleError as error:
            if is_no_program(error):
                said = error.message.encode()
                return PtyExecUpdate(process_id=None, output=said, exit_code=NOT_FOUND, original_token_count=None)
            raise ExecTransportError(command=command, cause=error, retryable=error.retryable) from error
        number = await self._processes.add(Process(execution, tty))
        wait = clamp_pty_yield_time_ms(int((FIRST_WAIT if yield_time_s is None else yield_time_s) * 1000))
        return await self._processes.update(number, wait / 1000, max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        if session_id not in self._processes:
            raise PtySessionNotFoundError(session_id=session_id)
        process = self._processes[session_id]
        if chars:
            if not process.listens:
                raise RuntimeError("stdin is not available for this process: it was started without a terminal")
            # One that has ended hears nothing; its end is told below.
            with suppress(RekindleError):
                await process.execution.send_input(chars)
        asked = int((NEXT_WAIT if yield_time_s is None else yield_time_s) * 1000)
        wait = resolve_pty_write_yield_time_ms(yield_time_ms=asked, input_empty=not chars)
        return await self._processes.update(session_id, wait / 1000, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        await self._processes.end()

    # Files.

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        if user is not None:
            await self._check_read_with_exec(path, user=user)
        return io.BytesIO(await self._read(path, None))

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        return await self._read(path, max_bytes)

    async def _read(self, path: Path, most: int | None) -> bytes:
        there = sandbox_path_str(await self._validate_path_access(path))
        content, received = bytearray(), c.Received()
        try:
            info = await self.sandbox.stat(there)
            if FileKind.DIRECTORY in (info.kind, info.link_kind):
                raise WorkspaceArchiveReadError(path=path, context={"reason": "is_a_directory"})
            call = c.download(self.sandbox.id, there, 0, "")
            async with aclosing(self.sandbox.client.stream(call)) as parts:
                async for part in parts:
                    content += received.take(part)
                    if most is not None and len(content) >= most:
                        return bytes(content[:most])
            received.file()
        except RekindleError as error:
            if isinstance(os_error(error, there), FileNotFoundError):
                raise WorkspaceReadNotFoundError(path=path, cause=error) from error
            raise WorkspaceArchiveReadError(path=path, cause=error, retryable=error.retryable) from error
        return bytes(content)

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        if user is not None:
            await self._check_write_with_exec(path, user=user)
        content = _bytes(path, data)
        there = await self._validate_path_access(path, for_write=True)
        try:
            await self.sandbox.write_file(sandbox_path_str(there), content, in_place=True)
        except RekindleError as error:
            raise WorkspaceArchiveWriteError(path=path, cause=error, retryable=error.retryable) from error

    async def persist_workspace(self) -> io.IOBase:
        root = self._workspace_root_path()
        aside = f"/tmp/.workspace-{uuid.uuid4().hex}.tar"
        without = " ".join(shell_tar_exclude_args(self._persist_workspace_skip_relpaths()))
        words = f"tar {without} -C {shlex.quote(root.as_posix())} -cf {aside} ."
        try:
            packed = await self.sandbox.execute(words)
            if packed.exit_code != 0:
                raise WorkspaceArchiveReadError(path=root, context={"stderr": packed.stderr})
            return io.BytesIO(await self.sandbox.read_file(aside))
        except RekindleError as error:
            raise WorkspaceArchiveReadError(path=root, cause=error, retryable=error.retryable) from error
        finally:
            await self._forget(aside)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        root = self._workspace_root_path()
        aside = f"/tmp/.workspace-{uuid.uuid4().hex}.tar"
        content = _bytes(root, data)
        try:
            validate_tar_bytes(content, allow_external_symlink_targets=False)
            await self.sandbox.make_dir(root.as_posix())
            await self.sandbox.write_file(aside, content)
            unpacked = await self.sandbox.execute(["tar", "-C", root.as_posix(), "-xf", aside])
            if unpacked.exit_code != 0:
                raise WorkspaceArchiveWriteError(path=root, context={"stderr": unpacked.stderr})
        except UnsafeTarMemberError as error:
            raise WorkspaceArchiveWriteError(path=root, context={"member": error.member}, cause=error) from error
        except RekindleError as error:
            raise WorkspaceArchiveWriteError(path=root, cause=error, retryable=error.retryable) from error
        finally:
            await self._forget(aside)

    async def _forget(self, path: str) -> None:
        with suppress(RekindleError):
            await self.sandbox.remove(path)


class RekindleSandboxClient(BaseSandboxClient[RekindleSandboxClientOptions]):
    """Makes sandboxes for runs. The server is that of ``client``, or of the environment's variables."""

    backend_id = "rekindle"
    supports_default_options = True

    def __init__(self, client: AsyncClient | None = None) -> None:
        self._client = client

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: RekindleSandboxClientOptions | None = None,
    ) -> SandboxSession:
        manifest = self._supported(Manifest() if manifest is None else manifest)
        options = options or RekindleSandboxClientOptions()
        sandbox = await self._made(options)
        session = uuid.uuid4()
        state = RekindleSandboxSessionState(
            session_id=session,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(session)),
            sandbox_id=sandbox.id,
            options=options,
        )
        return self._wrap_session(RekindleSandboxSession(state, sandbox))

    async def delete(self, session: SandboxSession) -> SandboxSession:
        inner = session._inner
        if not isinstance(inner, RekindleSandboxSession):
            raise TypeError("this session is not one of a RekindleSandboxClient")
        await inner.sandbox.cleanup()
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        if not isinstance(state, RekindleSandboxSessionState):
            raise TypeError("this state is not one of a RekindleSandboxClient")
        state.assert_path_grants_rebound()
        self._supported(state.manifest)
        sandbox = AsyncSandbox.connect(state.sandbox_id, client=self._client)
        there = await _woken(sandbox)
        if not there:
            if self._client is None:
                await sandbox.client.aclose()
            sandbox = await self._made(state.options)
            state.sandbox_id, state.workspace_root_ready = sandbox.id, False
        inner = RekindleSandboxSession(state, sandbox)
        inner._set_start_state_preserved(there, system=there)
        return self._wrap_session(inner)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, RekindleSandboxSessionState)

    def _supported(self, manifest: Manifest) -> Manifest:
        self._validate_manifest_for_create(manifest)
        if manifest.mount_targets():
            raise MountConfigError(message="a sandbox of Rekindle has no mounts; copy the files instead")
        return manifest

    async def _made(self, options: RekindleSandboxClientOptions) -> AsyncSandbox:
        names = ("template", "ttl", "env", "metadata", "memory_bytes", "network")
        given: dict[str, Any] = {name: value for name in names if (value := getattr(options, name)) is not None}
        words: CreateOptions = given  # type: ignore[assignment]
        sandbox = AsyncSandbox(client=self._client, **words)
        await sandbox.__aenter__()
        return sandbox


async def _woken(sandbox: AsyncSandbox) -> bool:
    """Whether it is there and runs, resumed if need be."""
    try:
        state = (await sandbox.info()).state
        if state is SandboxState.PAUSED:
            state = (await sandbox.resume()).state
        return state is SandboxState.RUNNING
    except RekindleError:
        return False


def _bytes(path: Path, data: io.IOBase) -> bytes:
    content = data.read()
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, (bytes, bytearray)):
        raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
    return bytes(content)
