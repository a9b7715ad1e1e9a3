"""What all frameworks want to know of a result or an error, in their words."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from .._async import AsyncResult, AsyncSandbox
from .._calls import ExecuteOptions, Program
from .._errors import AlreadyExistsError, NotFoundError, PermissionDeniedError, RekindleError, SandboxEndedError
from .._types import ExecutionResult

#: What a shell says of a program that it cannot find, and one that was killed for its time or its memory.
NOT_FOUND = 127
TIMED_OUT = 124
KILLED = 137

#: What one message brings of a program's input.
PIECE = 512 * 1024

WRONG_FILE_KIND = "WRONG_FILE_KIND"


def shell_code(result: ExecutionResult) -> int:
    """How it ended as one number, as a shell has it."""
    outcome = result.outcome
    if outcome.exit_code is not None:
        return outcome.exit_code
    if outcome.signal is not None:
        return 128 + outcome.signal
    return TIMED_OUT if outcome.timed_out else KILLED


def as_user(command: list[str], user: str | None, options: ExecuteOptions) -> list[str]:
    """The command in the name of a user of the sandbox. The server knows two, and root starts it for all others."""
    if user in (None, "user"):
        return command
    options["user"] = "root"
    return command if user in ("root", "0") else ["/usr/sbin/runuser", "-u", str(user), "--", *command]


def text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def is_gone(error: RekindleError) -> bool:
    """The sandbox is not there any more, and no repetition will bring it back."""
    return isinstance(error, SandboxEndedError) or error.reason == "UNKNOWN_SANDBOX"


def is_no_program(error: RekindleError) -> bool:
    """There is no such program, or it cannot be started: the caller's words are wrong, and nothing is broken."""
    return error.reason in ("NOT_FOUND", "SPAWN_FAILED", "PERMISSION_DENIED")


def os_error(error: RekindleError, path: str) -> OSError | None:
    """What Python calls it, where it is the path's fault."""
    words = f"{path}: {error.message}"
    if error.reason == WRONG_FILE_KIND:
        return NotADirectoryError(words) if "not a directory" in error.message.lower() else IsADirectoryError(words)
    if isinstance(error, NotFoundError) and not is_gone(error):
        return FileNotFoundError(words)
    if isinstance(error, AlreadyExistsError):
        return FileExistsError(words)
    if isinstance(error, PermissionDeniedError) and error.reason == "PERMISSION_DENIED":
        return PermissionError(words)
    if error.reason == "INVALID_REQUEST":
        return OSError(words)
    return None


async def run(sandbox: AsyncSandbox, program: Program, options: ExecuteOptions) -> AsyncResult:
    """Runs a program to its end; one without a time limit may take as long as the sandbox lives. Its input may be of any
    size. Whoever gives up kills it."""
    options = options.copy()
    stdin = options.get("stdin", b"")
    data = stdin.encode() if isinstance(stdin, str) else stdin
    if "timeout" in options and len(data) <= PIECE:
        return await sandbox.execute(program, **options)
    options.pop("stdin", None)
    execution = await sandbox.start(program, live_stdin=bool(data), **options)
    try:
        # A program that ends early reads no more; what became of it is told below.
        with suppress(RekindleError):
            for at in range(0, len(data), PIECE):
                await execution.send_input(data[at : at + PIECE], end=at + PIECE >= len(data))
        return await execution.wait()
    except BaseException:
        # A task of its own: whoever is cancelled may not wait any more. What is gone already needs no kill.
        with suppress(RekindleError):
            await asyncio.shield(asyncio.ensure_future(execution.kill()))
        raise
