"""A sandbox environment of inspect_ai on E2B's SDK."""

import asyncio
import shlex
import signal
import uuid

import e2b
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
)

HOME = "/home/user"
# Users that the SDK can name; programs of others are started by root.
USERS = (None, "user", "root")
# What a command may have on its line; longer ones are brought as a file.
LONGEST = 64 * 1024


class E2BEnvironment(SandboxEnvironment):
    def __init__(self, sandbox: e2b.AsyncSandbox) -> None:
        super().__init__()
        self.sandbox = sandbox

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
        if user not in USERS:
            cmd, user = ["runuser", "-u", user, "--", *cmd], "root"
        line = f"exec setsid {shlex.join(cmd)}"
        files = []
        if len(line) > LONGEST:
            files.append(script := f"/tmp/{uuid.uuid4()}")
            await self.sandbox.files.write(script, f"exec {shlex.join(cmd)}")
            line = f"exec setsid sh {script}"
        # Not a terminal's, and never waited for.
        source = "/dev/null"
        if input is not None:
            files.append(source := f"/tmp/{uuid.uuid4()}")
            await self.sandbox.files.write(source, input)
        try:
            handle = await self.sandbox.commands.run(
                f"{line} < {source}",
                background=True,
                cwd=f"{HOME}/{cwd}" if cwd and not cwd.startswith("/") else cwd or HOME,
                envs=env,
                user=user,
                timeout=0,
            )
            try:
                result = await asyncio.wait_for(handle.wait(), timeout)
            except asyncio.TimeoutError:
                await self.sandbox.commands.run(f"kill -KILL -- -{handle.pid}", user="root")
                raise TimeoutError(f"{cmd[0]} took longer than {timeout} s") from None
            except e2b.CommandExitException as exited:
                result = exited
        finally:
            for file in files:
                await self.sandbox.files.remove(file)
        if result.exit_code == 126 and "ermission denied" in result.stderr:
            raise PermissionError(result.stderr)
        code = killed_by(result.error) if result.exit_code < 0 else result.exit_code
        return ExecResult(code == 0, code, result.stdout, result.stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        try:
            await self.sandbox.files.write(path(file), contents)
        except e2b.SandboxException as error:
            raise path_error(error, file) from error

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        try:
            info = await self.sandbox.files.get_info(path(file))
            if info.size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
            content = bytes(await self.sandbox.files.read(path(file), format="bytes"))
        except e2b.SandboxException as error:
            raise path_error(error, file) from error
        return content.decode() if text else content

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted) -> None:
        for environment in environments.values():
            await environment.sandbox.kill()


def killed_by(error: str | None) -> int:
    """What a shell calls it; the SDK has the signal's name in words alone: `signal: terminated`."""
    words = (error or "").removeprefix("signal: ")
    for number in signal.valid_signals():
        if words.startswith((signal.strsignal(number) or "-").lower()):
            return 128 + number
    return -1


def path(file: str) -> str:
    return file if file.startswith("/") else f"{HOME}/{file}"


def path_error(error: Exception, file: str) -> Exception:
    """What Python calls it; the SDK tells a missing file alone by its type."""
    words = str(error).lower()
    for mark, kind in (
        ("permission denied", PermissionError),
        ("is a directory", IsADirectoryError),
        ("not found", FileNotFoundError),
        ("does not exist", FileNotFoundError),
        ("no such file", FileNotFoundError),
        ("file name too long", FileNotFoundError),
    ):
        if mark in words:
            return kind(f"{file}: {error}")
    return error
