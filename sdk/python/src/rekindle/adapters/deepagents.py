"""deepagents and LangChain: a sandbox as the backend of an agent's files and commands.

    from deepagents import create_deep_agent
    from rekindle import Sandbox
    from rekindle.adapters.deepagents import RekindleSandbox

    with Sandbox() as sandbox:
        agent = create_deep_agent(model=..., backend=RekindleSandbox(sandbox))
"""

from __future__ import annotations

from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from .._calls import lost as is_lost
from .._errors import InvalidRequestError, NotFoundError, PermissionDeniedError, RekindleError
from .._sync import Sandbox
from .._types import FileKind
from ._common import NOT_FOUND, TIMED_OUT, WRONG_FILE_KIND, is_gone, is_no_program, shell_code, text


class RekindleSandbox(BaseSandbox):
    """A sandbox that its caller has made, and ends. ``timeout`` bounds commands that have no limit of their own."""

    def __init__(self, sandbox: Sandbox, *, timeout: int = 1800) -> None:
        self.sandbox = sandbox
        self._timeout = timeout

    @property
    def id(self) -> str:
        return self.sandbox.ready()

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        limit = self._timeout if timeout is None else timeout
        if limit < 0:
            raise ValueError(f"timeout must not be negative, got {limit}")
        if limit == 0:
            return ExecuteResponse(output="Command timed out after 0 seconds", exit_code=TIMED_OUT, truncated=False)
        try:
            result = self.sandbox.execute(command, timeout=limit)
        except RekindleError as error:
            if not is_no_program(error):
                raise
            return ExecuteResponse(output=error.message, exit_code=NOT_FOUND, truncated=False)
        try:
            stdout, stderr = text(result.full_stdout(partial=True)), text(result.full_stderr(partial=True))
        except NotFoundError as error:
            if is_gone(error):
                raise
            # Other executions have taken the place of its output.
            stdout, stderr, lost = result.stdout, result.stderr, True
        else:
            lost = is_lost(result.stdout_output) or is_lost(result.stderr_output)
        output = f"{stdout}\n{stderr}" if stdout and stderr else stdout or stderr
        if result.timed_out:
            output = f"{output}\nCommand timed out after {limit} seconds".lstrip("\n")
        if result.out_of_memory:
            output = f"{output}\nCommand ran out of memory".lstrip("\n")
        return ExecuteResponse(output=output, exit_code=shell_code(result), truncated=lost)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self.sandbox.write_file(path, content, in_place=True)
        except RekindleError as error:
            return _word(error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, content=None, error="invalid_path")
        try:
            info = self.sandbox.stat(path)
            if FileKind.DIRECTORY in (info.kind, info.link_kind):
                return FileDownloadResponse(path=path, content=None, error="is_directory")
            return FileDownloadResponse(path=path, content=self.sandbox.read_file(path), error=None)
        except RekindleError as error:
            return FileDownloadResponse(path=path, content=None, error=_word(error))


def _word(error: RekindleError) -> str:
    """The framework's word for what is wrong with a path; what is not the path's fault is raised."""
    if is_gone(error):
        raise error
    if error.reason == WRONG_FILE_KIND:
        return "invalid_path" if "not a directory" in error.message.lower() else "is_directory"
    if isinstance(error, NotFoundError):
        return "file_not_found"
    if isinstance(error, PermissionDeniedError):
        return "permission_denied"
    if isinstance(error, InvalidRequestError):
        return "invalid_path"
    raise error
