"""inspect_ai: a sandbox for each sample of an evaluation.

    import rekindle.adapters.inspect_ai        # registers it; installed with the extra it is found by itself

    Task(..., sandbox="rekindle")              # or ("rekindle", "TEMPLATE")
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Awaitable, Callable
from typing import Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from .._async import AsyncClient, AsyncSandbox
from .._calls import CreateOptions, ExecuteOptions
from .._errors import PermissionDeniedError, RekindleError
from .._types import FileKind, Output
from ._common import NOT_FOUND, as_user, is_gone, is_no_program, os_error, run, shell_code, text

#: Characters of a command that are sent as they are.
LONGEST = 256 * 1024
#: What a shell says of a program that may not be run.
FORBIDDEN = 126


@sandboxenv(name="rekindle")
class RekindleEnvironment(SandboxEnvironment):
    """A sandbox as a sample's environment; files and programs begin at the home of its user."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self.sandbox = sandbox

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        options: CreateOptions = {"metadata": {"task": task_name}}
        if isinstance(config, str):
            options["template"] = config
        return {"default": cls(await AsyncClient().create(**options))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            if isinstance(environment, cls):
                await environment.sandbox.cleanup()
                await environment.sandbox.client.aclose()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        options: ExecuteOptions = {"env": env or {}}
        if input is not None:
            options["stdin"] = input
        if cwd is not None:
            options["cwd"] = cwd
        if timeout is not None:
            options["timeout"] = timeout
        cmd = as_user(cmd, user, options)
        if sum(map(len, cmd)) > LONGEST:
            # More than one message brings: the shell reads it from a file.
            script = f"/tmp/.command-{uuid.uuid4().hex}"
            await self.sandbox.write_file(script, f"rm -f {script}; exec {shlex.join(cmd)}")
            cmd = ["/bin/sh", script]
        try:
            result = await run(self.sandbox, cmd, options)
            stdout = await _whole(result.full_stdout, result.stdout_output)
            stderr = await _whole(result.full_stderr, result.stderr_output)
        except RekindleError as error:
            if is_no_program(error):
                if isinstance(error, PermissionDeniedError):
                    raise PermissionError(error.message) from error
                return ExecResult(False, NOT_FOUND, "", error.message)
            if isinstance(error, PermissionDeniedError) and error.reason == "ROOT_FORBIDDEN":
                raise SandboxUserUnsupportedError(error.message) from error
            if is_gone(error):
                raise SandboxUnavailableError(error.message) from error
            raise
        if result.timed_out:
            raise TimeoutError(f"{cmd[0]} took longer than {timeout} seconds")
        code = shell_code(result)
        if code == FORBIDDEN and "permission denied" in stderr.lower():
            raise PermissionError(stderr)
        return ExecResult(code == 0, code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        try:
            await self.sandbox.write_file(file, contents, in_place=True)
        except RekindleError as error:
            raise os_error(error, file) or error from error

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        try:
            info = await self.sandbox.stat(file)
            if FileKind.DIRECTORY in (info.kind, info.link_kind):
                raise IsADirectoryError(f"{file} is a directory")
            if info.kind is FileKind.FILE and info.size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
            content = await self.sandbox.read_file(file)
        except RekindleError as error:
            raise os_error(error, file) or error from error
        return content.decode() if text else content

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        root = " --user root" if user == "root" else ""
        return SandboxConnection(type="rekindle", command=f"rekindle exec --tty{root} {self.sandbox.id} -- bash -l")


async def _whole(full: Callable[..., Awaitable[bytes]], output: Output) -> str:
    limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
    # Of what is too long anyway the beginning is enough.
    over = output.total_bytes > limit
    content = await full(partial=over)
    if over:
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, text(content[:limit]))
    return text(content)
