"""Why a call failed. A program that ends with an exit code other than zero is a result and none of these."""

from __future__ import annotations

from typing import Any


class RekindleError(Exception):
    """Whatever goes wrong.

    ``reason`` is the server's own word, such as ``HOST_FULL`` or ``UNKNOWN_SANDBOX``: what a program branches by. It is
    empty where the server said nothing. ``retryable`` and ``retry_after`` (seconds) say whether and when the same call
    may succeed, ``hint`` what a person can do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
        hint: str = "",
        end_reason: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after
        self.hint = hint
        #: How the sandbox ended, such as ``EXPIRED``, when that is why.
        self.end_reason = end_reason

    def __str__(self) -> str:
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{self.reason}: {self.message}{hint}" if self.reason else f"{self.message}{hint}"


class AuthenticationError(RekindleError):
    """There is no valid token."""


class PermissionDeniedError(RekindleError):
    """The token, or the sandbox's user, may not do this."""


class InvalidRequestError(RekindleError):
    """The request makes no sense, or asks for more than there may be."""


class NotFoundError(RekindleError):
    """There is no such sandbox, template, path, program or execution."""


class AlreadyExistsError(RekindleError):
    """The path exists, or the key was used for another request."""


class WrongStateError(RekindleError):
    """It cannot be done as things are: the sandbox is paused, a path is of the wrong kind, a program cannot be started."""


class SandboxEndedError(RekindleError):
    """The sandbox has ended, or was lost under the call; create a new one."""


class CapacityError(RekindleError):
    """There is no room, or it was asked for too much too often."""


class DeadlineError(RekindleError, TimeoutError):
    """The deadline of the call was over."""


class ServerError(RekindleError):
    """The server failed, or is going away."""


class ConnectionFailedError(RekindleError, ConnectionError):
    """The server cannot be reached, or the connection was lost. Nobody knows whether the call was carried out."""


class OutputLostError(RekindleError):
    """A program printed more than its sandbox kept: ``kept_bytes`` of ``total_bytes``, the first ones. They are what
    ``full_stdout(partial=True)`` returns."""

    def __init__(self, kept_bytes: int, total_bytes: int) -> None:
        what = f"its first {kept_bytes} bytes were kept" if kept_bytes else "only its shortened text was kept"
        super().__init__(
            f"{total_bytes - kept_bytes} of {total_bytes} bytes of the output are lost: {what}",
            hint="partial=True returns what there is; a program that prints this much had better write to a file",
        )
        self.kept_bytes = kept_bytes
        self.total_bytes = total_bytes


class ProtocolError(ConnectionFailedError):
    """The other side does not speak this API, or broke off."""


#: The class of every reason there is.
REASONS: dict[str, type[RekindleError]] = {
    "INVALID_REQUEST": InvalidRequestError,
    "LIMIT_EXCEEDED": InvalidRequestError,
    "UNKNOWN_TEMPLATE": NotFoundError,
    "UNKNOWN_SANDBOX": NotFoundError,
    "SANDBOX_ENDED": SandboxEndedError,
    "SANDBOX_PAUSED": WrongStateError,
    "AGENT_LOST": SandboxEndedError,
    "VM_LOST": SandboxEndedError,
    "OUT_OF_MEMORY": SandboxEndedError,
    "START_FAILED": ServerError,
    "HOST_FULL": CapacityError,
    "QUEUE_FULL": CapacityError,
    "QUOTA_EXCEEDED": CapacityError,
    "BUSY": CapacityError,
    "UNAUTHENTICATED": AuthenticationError,
    "MISSING_SCOPE": PermissionDeniedError,
    "KEY_REUSED": AlreadyExistsError,
    "NOT_FOUND": NotFoundError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "ALREADY_EXISTS": AlreadyExistsError,
    "WRONG_FILE_KIND": WrongStateError,
    "NO_SPACE": CapacityError,
    "CORRUPTED": ServerError,
    "SPAWN_FAILED": WrongStateError,
    "SHUTTING_DOWN": ServerError,
    "WATCH_LAGGED": CapacityError,
    "INTERNAL": ServerError,
    "DEADLINE": DeadlineError,
    "HOST_DISK_FULL": CapacityError,
    "UNKNOWN_METHOD": ServerError,
    "RATE_LIMITED": CapacityError,
    "NETWORK_FORBIDDEN": PermissionDeniedError,
    "ROOT_FORBIDDEN": PermissionDeniedError,
    "TURNS_SPENT": CapacityError,
}

_INFO = "google.rpc.ErrorInfo"
_RETRY = "google.rpc.RetryInfo"
_DETAIL = "rekindle.v1.ErrorDetail"


def error_of(error: Any) -> RekindleError:
    """The exception for an error as Connect has it in JSON."""
    if not isinstance(error, dict):
        return ProtocolError("the server sent an error that is none")
    told: dict[str, Any] = error  # pyright: ignore[reportUnknownVariableType]
    details: dict[str, dict[str, Any]] = {}
    listed: Any = told.get("details")
    for one in listed if isinstance(listed, list) else []:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(one, dict) and isinstance(one.get("debug"), dict):  # pyright: ignore[reportUnknownMemberType]
            details[str(one.get("type"))] = one["debug"]  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    reason = str(details.get(_INFO, {}).get("reason", ""))
    own = details.get(_DETAIL, {})
    delay: Any = details.get(_RETRY, {}).get("retryDelay")
    end: Any = own.get("end") or {}
    return REASONS.get(reason, RekindleError)(
        str(told.get("message") or "the server gave no reason"),
        code=str(told.get("code", "")),
        reason=reason,
        retryable=bool(own.get("retryable", False)),
        retry_after=None if delay is None else float(str(delay).removesuffix("s")),
        hint=str(own.get("hint", "")),
        end_reason=str(end.get("reason", "")).removeprefix("SANDBOX_END_REASON_"),
    )
