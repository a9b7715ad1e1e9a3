"""What the server tells, as dataclasses. Sizes are bytes, times seconds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any, ClassVar

from . import _wire as w
from ._wire import wire


class SandboxState(enum.Enum):
    """Where a sandbox is in its life."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ENDING = "ENDING"
    ENDED = "ENDED"


class OnTimeout(enum.Enum):
    """What happens to a sandbox whose time to live is over."""

    DESTROY = "DESTROY"
    #: Paused until ``resume``.
    PAUSE = "PAUSE"
    #: Paused until ``resume``, or until something is done in it.
    PAUSE_UNTIL_USED = "PAUSE_UNTIL_USED"
    #: Paused without its memory until ``resume``, which boots it.
    PAUSE_WITHOUT_MEMORY = "PAUSE_WITHOUT_MEMORY"


class EndReason(enum.Enum):
    """Why a sandbox ended."""

    DESTROYED = "DESTROYED"
    EXPIRED = "EXPIRED"
    IDLE = "IDLE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    AGENT_LOST = "AGENT_LOST"
    VM_LOST = "VM_LOST"
    SHUTDOWN = "SHUTDOWN"


class StartKind(enum.Enum):
    """Where the machine of a sandbox came from."""

    #: It had been restored beforehand and was waiting.
    PARKED = "PARKED"
    #: Its monitor had been started beforehand.
    PRESPAWNED = "PRESPAWNED"
    #: It was restored for this request.
    RESTORED = "RESTORED"


class SandboxEventKind(enum.Enum):
    """What can happen to a sandbox."""

    #: It was there when the watch began.
    EXISTING = "EXISTING"
    CREATED = "CREATED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    TIMEOUT_CHANGED = "TIMEOUT_CHANGED"
    ENDED = "ENDED"
    NETWORK_CHANGED = "NETWORK_CHANGED"


class FileKind(enum.Enum):
    """What a path can be."""

    FILE = "FILE"
    DIRECTORY = "DIRECTORY"
    SYMLINK = "SYMLINK"
    OTHER = "OTHER"


class FileEventKind(enum.Enum):
    """What can happen to a file."""

    CREATED = "CREATED"
    WRITTEN = "WRITTEN"
    REMOVED = "REMOVED"
    RENAMED = "RENAMED"
    CHANGED = "CHANGED"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a sandbox may use; 0 means the server's default."""

    MESSAGE: ClassVar[str] = "rekindle.v1.Limits"
    milli_cpus: int = wire("milli_cpus", w.UINT32)
    memory_bytes: int = wire("memory_bytes", w.UINT64)
    pids: int = wire("pids", w.UINT32)


@dataclasses.dataclass(frozen=True)
class SandboxEnd:
    """How a sandbox came to its end."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxEnd"
    reason: EndReason | None = wire("reason", w.one_of(EndReason, "SandboxEndReason"))
    message: str = wire("message", w.STRING)
    ended_at: dt.datetime | None = wire("ended_at", w.MAYBE_TIME)


@dataclasses.dataclass(frozen=True)
class SandboxUsage:
    """What a sandbox has used."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxUsage"
    executions: int = wire("executions", w.UINT64)
    cpu_time: float | None = wire("cpu_time", w.MAYBE_SECONDS)
    memory_bytes: int | None = wire("memory_bytes", w.MAYBE_UINT64)
    memory_peak_bytes: int | None = wire("memory_peak_bytes", w.MAYBE_UINT64)
    bytes_in: int = wire("bytes_in", w.UINT64)
    bytes_out: int = wire("bytes_out", w.UINT64)
    running_time: float = wire("running_time", w.SECONDS)
    #: Connections to the outside, whatever became of them, and those that were denied.
    connections: int = wire("connections", w.UINT64)
    connections_denied: int = wire("connections_denied", w.UINT64)
    network_bytes_up: int = wire("network_bytes_up", w.UINT64)
    network_bytes_down: int = wire("network_bytes_down", w.UINT64)
    #: Requests of plain HTTP; those inside TLS cannot be counted.
    network_requests: int = wire("network_requests", w.UINT64)
    #: Requests that the gateway has let through, and what they cost, in the operator's units.
    gateway_requests: int = wire("gateway_requests", w.UINT64)
    gateway_cost: int = wire("gateway_cost", w.UINT64)


@dataclasses.dataclass(frozen=True)
class SandboxStartStage:
    """One step of a start."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxStartStage"
    name: str = wire("name", w.STRING)
    duration: float = wire("duration", w.SECONDS)


@dataclasses.dataclass(frozen=True)
class SandboxStart:
    """How a sandbox was started, and where the time went."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxStart"
    kind: StartKind | None = wire("kind", w.one_of(StartKind, "SandboxStartKind"))
    #: How long it waited for room.
    queued: float = wire("queued", w.SECONDS)
    stages: list[SandboxStartStage] = wire("stages", w.many(SandboxStartStage))
    #: From the request's arrival to the answer.
    total: float = wire("total", w.SECONDS)


@dataclasses.dataclass(frozen=True)
class SandboxTurns:
    """How many executions may be started in a sandbox."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxTurns"
    max: int = wire("max", w.UINT32)
    left: int = wire("left", w.UINT32)


@dataclasses.dataclass(frozen=True)
class SandboxResult:
    """Where the result of a sandbox is to be, and whether it is there: ``None`` when nobody could tell."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxResult"
    path: str = wire("path", w.STRING)
    exists: bool | None = wire("exists", w.MAYBE_BOOL)


@dataclasses.dataclass(frozen=True)
class SandboxPorts:
    """How its ports are reached: ``Sandbox.port`` puts it together."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxPorts"
    #: With ``{port}`` for the number of a port, where that is part of the name.
    url: str = wire("url", w.STRING)
    token: str = wire("token", w.STRING, repr=False)


@dataclasses.dataclass(frozen=True)
class SandboxInfo:
    """A sandbox as its tenant sees it."""

    MESSAGE: ClassVar[str] = "rekindle.v1.Sandbox"
    id: str = wire("id", w.STRING)
    template: str = wire("template", w.STRING)
    state: SandboxState | None = wire("state", w.one_of(SandboxState, "SandboxState"))
    end: SandboxEnd | None = wire("end", w.message(SandboxEnd))
    created_at: dt.datetime | None = wire("created_at", w.MAYBE_TIME)
    expires_at: dt.datetime | None = wire("expires_at", w.MAYBE_TIME)
    idle_timeout: float | None = wire("idle_timeout", w.MAYBE_SECONDS)
    metadata: dict[str, str] = wire("metadata", w.WORDS)
    limits: Limits = wire("limits", w.message(Limits, maybe=False))
    usage: SandboxUsage = wire("usage", w.message(SandboxUsage, maybe=False))
    start: SandboxStart = wire("start", w.message(SandboxStart, maybe=False))
    tenant: str = wire("tenant", w.STRING)
    network: str = wire("network", w.STRING)
    on_timeout: OnTimeout | None = wire("on_timeout", w.one_of(OnTimeout, "OnTimeout"))
    #: ``None`` when they have no bound.
    turns: SandboxTurns | None = wire("turns", w.message(SandboxTurns))
    #: ``None`` when nobody said where it is to be.
    result: SandboxResult | None = wire("result", w.message(SandboxResult))
    #: What its programs may ask of the gateway, as ``service/operation``.
    gateway: list[str] = wire("gateway", w.STRINGS)
    #: What they may spend there; ``None`` when it has no bound.
    gateway_budget: int | None = wire("gateway_budget", w.MAYBE_UINT64)
    #: It is paused without its memory.
    without_memory: bool = wire("without_memory", w.BOOL)
    #: ``None`` where nobody can, or the caller may not, and in lists.
    ports: SandboxPorts | None = wire("ports", w.message(SandboxPorts))


@dataclasses.dataclass(frozen=True)
class SandboxPage:
    """Some sandboxes."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ListSandboxesResponse"
    sandboxes: list[SandboxInfo] = wire("sandboxes", w.many(SandboxInfo))
    next_page_token: str = wire("next_page_token", w.STRING)


@dataclasses.dataclass(frozen=True)
class SandboxEvent:
    """Something happened to a sandbox."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxEvent"
    kind: SandboxEventKind | None = wire("kind", w.one_of(SandboxEventKind, "SandboxEventKind"))
    at: dt.datetime | None = wire("at", w.MAYBE_TIME)
    #: As it was right after.
    sandbox: SandboxInfo = wire("sandbox", w.message(SandboxInfo, maybe=False))


@dataclasses.dataclass(frozen=True)
class Template:
    """What sandboxes can be made from."""

    MESSAGE: ClassVar[str] = "rekindle.v1.Template"
    name: str = wire("name", w.STRING)
    description: str = wire("description", w.STRING)
    vcpus: int = wire("vcpus", w.UINT32)
    memory_bytes: int = wire("memory_bytes", w.UINT64)
    disk_bytes: int = wire("disk_bytes", w.UINT64)
    is_default: bool = wire("is_default", w.BOOL)
    #: What is installed in it, such as ``pip:numpy 2.4.6``; empty where its image does not tell.
    packages: list[str] = wire("packages", w.STRINGS)
    #: The caller may be root in its sandboxes.
    root_allowed: bool = wire("root_allowed", w.BOOL)


@dataclasses.dataclass(frozen=True)
class NetworkPolicy:
    """What sandboxes may reach that are created with ``network=`` and its name."""

    MESSAGE: ClassVar[str] = "rekindle.v1.NetworkPolicy"
    name: str = wire("name", w.STRING)
    #: Every public name and address, on every port.
    everything: bool = wire("everything", w.BOOL)
    #: What it lets through otherwise, such as ``tls pypi.org:443``.
    rules: list[str] = wire("rules", w.STRINGS)


@dataclasses.dataclass(frozen=True)
class SandboxRules:
    """What the operator decided about all sandboxes: what holds when a caller does not say, and the most there may be."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxRules"
    ttl: float = wire("ttl", w.SECONDS)
    max_ttl: float = wire("max_ttl", w.SECONDS)
    #: ``None`` when a sandbox may go without a call for ever.
    idle_timeout: float | None = wire("idle_timeout", w.MAYBE_SECONDS)
    execute_timeout: float = wire("execute_timeout", w.SECONDS)
    max_execute_timeout: float = wire("max_execute_timeout", w.SECONDS)
    output_limit: int = wire("output_limit", w.UINT32)
    max_output_limit: int = wire("max_output_limit", w.UINT32)
    max_upload_bytes: int = wire("max_upload_bytes", w.UINT64)
    max_download_bytes: int = wire("max_download_bytes", w.UINT64)


@dataclasses.dataclass(frozen=True)
class TemplateList:
    """The templates of a server, and what holds for sandboxes of every one of them."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ListTemplatesResponse"
    templates: list[Template] = wire("templates", w.many(Template))
    networks: list[NetworkPolicy] = wire("networks", w.many(NetworkPolicy))
    rules: SandboxRules = wire("rules", w.message(SandboxRules, maybe=False))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How an execution ended: exactly one of these is set."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ExecutionOutcome"
    exit_code: int | None = wire("exit_code", w.MAYBE_UINT32)
    signal: int | None = wire("signal", w.MAYBE_UINT32)
    timed_out: bool = wire("timed_out", w.present("ExecutionTimedOut"))
    out_of_memory: bool = wire("out_of_memory", w.present("ExecutionOutOfMemory"))
    cancelled: bool = wire("cancelled", w.present("ExecutionCancelled"))


@dataclasses.dataclass(frozen=True)
class Output:
    """What was collected of one stream: of a long one head and tail, with a marker between them."""

    MESSAGE: ClassVar[str] = "rekindle.v1.Output"
    text: str = wire("text", w.STRING)
    truncated: bool = wire("truncated", w.BOOL)
    total_bytes: int = wire("total_bytes", w.UINT64)
    total_chars: int = wire("total_chars", w.UINT64)
    #: Where in the sandbox the exact bytes are; empty when they are not.
    spilled_path: str = wire("spilled_path", w.PATH)
    #: How many of them: fewer than ``total_bytes`` where the rest is lost.
    spilled_bytes: int = wire("spilled_bytes", w.UINT64)


@dataclasses.dataclass(frozen=True)
class ExecutionUsage:
    """What an execution took."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ExecutionUsage"
    wall_time: float = wire("wall_time", w.SECONDS)
    cpu_time: float = wire("cpu_time", w.SECONDS)
    memory_peak_bytes: int | None = wire("memory_peak_bytes", w.MAYBE_UINT64)


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What went wrong, with a stable code to branch on in ``kind``: docs/guides/diagnoses.md lists them."""

    MESSAGE: ClassVar[str] = "rekindle.v1.Diagnosis"
    kind: str = wire("kind", w.STRING)
    subject: str = wire("subject", w.STRING)
    #: What to do about it, in one line.
    hint: str = wire("hint", w.STRING)
    #: Names of what is installed that may have been meant.
    near: list[str] = wire("near", w.STRINGS)


@dataclasses.dataclass(frozen=True)
class NetworkDenial:
    """A connection that was not let through."""

    MESSAGE: ClassVar[str] = "rekindle.v1.NetworkDenial"
    #: One word, such as ``not_allowed`` or ``private_address``.
    reason: str = wire("reason", w.STRING)
    message: str = wire("message", w.STRING)
    host: str = wire("host", w.STRING)
    port: int = wire("port", w.UINT32)
    rule: str = wire("rule", w.STRING)


@dataclasses.dataclass(frozen=True)
class ExecutionNetwork:
    """What an execution did on the network; all is 0 when it did nothing there. Which connections are its own is the
    sandbox's word."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ExecutionNetwork"
    #: Whatever became of them.
    connections: int = wire("connections", w.UINT64)
    #: Those that were denied, at once or later.
    denied: int = wire("denied", w.UINT64)
    #: Those that were allowed and that nobody answered.
    failed: int = wire("failed", w.UINT64)
    bytes_up: int = wire("bytes_up", w.UINT64)
    bytes_down: int = wire("bytes_down", w.UINT64)
    #: The first 16 denials.
    denials: list[NetworkDenial] = wire("denials", w.many(NetworkDenial))


@dataclasses.dataclass(frozen=True)
class ExecutionResult:
    """What came of an execution, whatever that is: no way to end is an exception."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ExecuteResponse"
    execution: str = wire("execution", w.STRING)
    outcome: Outcome = wire("outcome", w.message(Outcome, maybe=False))
    stdout_output: Output = wire("stdout", w.message(Output, maybe=False))
    stderr_output: Output = wire("stderr", w.message(Output, maybe=False))
    usage: ExecutionUsage = wire("usage", w.message(ExecutionUsage, maybe=False))
    diagnosis: Diagnosis | None = wire("diagnosis", w.message(Diagnosis))
    warm_interpreter: bool = wire("warm_interpreter", w.BOOL)
    #: An earlier call's answer, with the same idempotency key.
    replayed: bool = wire("replayed", w.BOOL)
    network: ExecutionNetwork = wire("network", w.message(ExecutionNetwork, maybe=False))
    #: Turns that the sandbox had left once this one was taken; ``None`` when they have no bound.
    turns_left: int | None = wire("turns_left", w.MAYBE_UINT32)
    #: That the result is to be written now, when 3 and when 1 turns are left.
    warning: str = wire("warning", w.STRING)

    @property
    def exit_code(self) -> int | None:
        """The exit code; ``None`` when the program did not get to return one."""
        return self.outcome.exit_code

    @property
    def ok(self) -> bool:
        """It returned 0."""
        return self.outcome.exit_code == 0

    @property
    def timed_out(self) -> bool:
        """It ran into its wall-clock limit."""
        return self.outcome.timed_out

    @property
    def out_of_memory(self) -> bool:
        """It ran into its memory limit."""
        return self.outcome.out_of_memory

    @property
    def stdout(self) -> str:
        """What it printed, shortened."""
        return self.stdout_output.text

    @property
    def stderr(self) -> str:
        """What it printed to its standard error, shortened."""
        return self.stderr_output.text

    @property
    def truncated(self) -> bool:
        """Something of either was cut."""
        return self.stdout_output.truncated or self.stderr_output.truncated

    @property
    def spilled_path(self) -> str:
        """Where in the sandbox its whole standard output is; empty when it was not spilled."""
        return self.stdout_output.spilled_path


@dataclasses.dataclass(frozen=True)
class Started:
    """A program runs."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ExecuteStarted"
    execution: str = wire("execution", w.STRING)
    pid: int = wire("pid", w.UINT32)
    #: Where in the sandbox the exact output is once it is more than 32 KiB; empty where it is not kept.
    stdout_path: str = wire("stdout_path", w.PATH)
    stderr_path: str = wire("stderr_path", w.PATH)


@dataclasses.dataclass(frozen=True)
class Missed:
    """Output that was printed before its reader came, or faster than it read."""

    MESSAGE: ClassVar[str] = "rekindle.v1.MissedOutput"
    stdout_bytes: int = wire("stdout_bytes", w.UINT64)
    stderr_bytes: int = wire("stderr_bytes", w.UINT64)
    #: The files in the sandbox that begin with it; empty where it is not kept.
    stdout_path: str = wire("stdout_path", w.PATH)
    stderr_path: str = wire("stderr_path", w.PATH)


@dataclasses.dataclass(frozen=True)
class ExecuteEvent:
    """What a live execution tells: exactly one of these is set."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ExecuteEvent"
    #: It runs. Always first.
    started: Started | None = wire("started", w.message(Started))
    stdout: bytes | None = wire("stdout", w.MAYBE_BYTES)
    stderr: bytes | None = wire("stderr", w.MAYBE_BYTES)
    #: It ended. Always last.
    finished: ExecutionResult | None = wire("finished", w.message(ExecutionResult))
    #: What it printed before and is not told here.
    missed: Missed | None = wire("missed", w.message(Missed))


@dataclasses.dataclass(frozen=True)
class DetachedInfo:
    """A detached execution; of ``running``, ``outcome`` and ``error`` one is set."""

    MESSAGE: ClassVar[str] = "rekindle.v1.DetachedExecution"
    execution: str = wire("execution", w.STRING)
    pid: int = wire("pid", w.UINT32)
    subject: str = wire("subject", w.STRING)
    started_at: dt.datetime | None = wire("started_at", w.MAYBE_TIME)
    duration: float = wire("duration", w.SECONDS)
    running: bool = wire("running", w.present("ExecutionRunning"))
    outcome: Outcome | None = wire("outcome", w.message(Outcome))
    #: Why it was lost, in the words of ``RekindleError.reason``.
    error: str | None = wire("error", w.REASON)
    stdout_bytes: int = wire("stdout_bytes", w.UINT64)
    stderr_bytes: int = wire("stderr_bytes", w.UINT64)
    takes_input: bool = wire("takes_input", w.BOOL)
    terminal: bool = wire("terminal", w.BOOL)
    #: Where in the sandbox its exact output is once it is more than 32 KiB; empty where it is not kept.
    stdout_path: str = wire("stdout_path", w.PATH)
    stderr_path: str = wire("stderr_path", w.PATH)


@dataclasses.dataclass(frozen=True)
class DetachedList:
    """The detached executions of a sandbox."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ListExecutionsResponse"
    executions: list[DetachedInfo] = wire("executions", w.many(DetachedInfo))


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """A file. A path that is no UTF-8 has its bytes as surrogates, as with ``os.fsdecode``."""

    MESSAGE: ClassVar[str] = "rekindle.v1.FileInfo"
    path: str = wire("path", w.PATH)
    kind: FileKind | None = wire("kind", w.one_of(FileKind, "FileKind"))
    size: int = wire("size", w.UINT64)
    mode: int = wire("mode", w.UINT32)
    uid: int = wire("uid", w.UINT32)
    gid: int = wire("gid", w.UINT32)
    modified_at: dt.datetime | None = wire("modified_at", w.MAYBE_TIME)
    link_target: str = wire("link_target", w.PATH)
    sha256: bytes = wire("sha256", w.BYTES)
    owner: str = wire("owner", w.STRING)
    group: str = wire("group", w.STRING)
    link_kind: FileKind | None = wire("link_kind", w.one_of(FileKind, "FileKind"))
    metadata: dict[str, str] = wire("metadata", w.WORDS)


@dataclasses.dataclass(frozen=True)
class FileList:
    """What a directory holds."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ListFilesResponse"
    entries: list[FileInfo] = wire("entries", w.many(FileInfo))
    truncated: bool = wire("truncated", w.BOOL)


@dataclasses.dataclass(frozen=True)
class Description:
    """Data in few words: ``text`` for a person or a model, ``structure`` for a program. All of it is the sandbox's word."""

    MESSAGE: ClassVar[str] = "rekindle.v1.DescribeFilesResponse"
    text: str = wire("text", w.STRING)
    structure: Any = wire("structure", w.MAYBE_JSON)

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class FileEvent:
    """One change of one file or directory; its path begins at the directory that is watched."""

    MESSAGE: ClassVar[str] = "rekindle.v1.FileEvent"
    path: str = wire("path", w.PATH)
    kind: FileEventKind | None = wire("kind", w.one_of(FileEventKind, "FileEventKind"))
    file: FileInfo | None = wire("file", w.message(FileInfo))


@dataclasses.dataclass(frozen=True)
class FileEvents:
    """Changes, in the order in which they happened."""

    MESSAGE: ClassVar[str] = "rekindle.v1.WatchFilesResponse"
    events: list[FileEvent] = wire("events", w.many(FileEvent))


@dataclasses.dataclass(frozen=True)
class DownloadEnd:
    """A finished download."""

    MESSAGE: ClassVar[str] = "rekindle.v1.DownloadFileEnd"
    file: FileInfo = wire("file", w.message(FileInfo, maybe=False))
    size: int = wire("size", w.UINT64)
    sha256: bytes = wire("sha256", w.BYTES)


@dataclasses.dataclass(frozen=True)
class DownloadPart:
    """A piece of a download, or its end."""

    MESSAGE: ClassVar[str] = "rekindle.v1.DownloadFileResponse"
    chunk: bytes = wire("chunk", w.BYTES)
    end: DownloadEnd | None = wire("end", w.message(DownloadEnd))


@dataclasses.dataclass(frozen=True)
class TimelineOutcome:
    """What came of a call: exactly one of these is set."""

    MESSAGE: ClassVar[str] = "rekindle.v1.TimelineOutcome"
    #: It did what it was asked for.
    done: bool = wire("done", w.present("TimelineDone"))
    #: The program ended so.
    execution: Outcome | None = wire("execution", w.message(Outcome))
    #: It failed, in the words of ``RekindleError.reason``.
    error: str | None = wire("error", w.REASON)
    #: The sandbox ended under it.
    end: EndReason | None = wire("end", w.one_of(EndReason, "SandboxEndReason"))
    #: Its caller went away.
    cancelled: bool = wire("cancelled", w.present("TimelineCancelled"))


@dataclasses.dataclass(frozen=True)
class TimelineEntry:
    """One call in the past of a sandbox."""

    MESSAGE: ClassVar[str] = "rekindle.v1.TimelineEntry"
    call: str = wire("call", w.STRING)
    execution: str = wire("execution", w.STRING)
    subject: str = wire("subject", w.STRING)
    started_at: dt.datetime | None = wire("started_at", w.MAYBE_TIME)
    duration: float = wire("duration", w.SECONDS)
    outcome: TimelineOutcome = wire("outcome", w.message(TimelineOutcome, maybe=False))
    cpu_time: float | None = wire("cpu_time", w.MAYBE_SECONDS)
    memory_peak_bytes: int | None = wire("memory_peak_bytes", w.MAYBE_UINT64)
    bytes_in: int = wire("bytes_in", w.UINT64)
    bytes_out: int = wire("bytes_out", w.UINT64)
    connections: int = wire("connections", w.UINT64)
    connections_denied: int = wire("connections_denied", w.UINT64)
    sandbox: str = wire("sandbox", w.STRING)
    #: The trace, the caller's span of it, and the step that it is part of.
    trace: str = wire("trace", w.STRING)
    span: str = wire("span", w.STRING)
    step: str = wire("step", w.STRING)
    network_up: int = wire("network_up", w.UINT64)
    network_down: int = wire("network_down", w.UINT64)
    gateway_cost: int = wire("gateway_cost", w.UINT64)


@dataclasses.dataclass(frozen=True)
class TimelineStep:
    """What the calls of one step of a trace add up to; ``step`` is empty for those of none."""

    MESSAGE: ClassVar[str] = "rekindle.v1.TimelineStep"
    step: str = wire("step", w.STRING)
    calls: int = wire("calls", w.UINT64)
    executions: int = wire("executions", w.UINT64)
    failures: int = wire("failures", w.UINT64)
    duration: float = wire("duration", w.SECONDS)
    cpu_time: float = wire("cpu_time", w.SECONDS)
    bytes_in: int = wire("bytes_in", w.UINT64)
    bytes_out: int = wire("bytes_out", w.UINT64)
    connections: int = wire("connections", w.UINT64)
    connections_denied: int = wire("connections_denied", w.UINT64)
    network_up: int = wire("network_up", w.UINT64)
    network_down: int = wire("network_down", w.UINT64)
    gateway_cost: int = wire("gateway_cost", w.UINT64)


@dataclasses.dataclass(frozen=True)
class Timeline:
    """What happened in a sandbox, or in a trace, oldest first."""

    MESSAGE: ClassVar[str] = "rekindle.v1.SandboxTimelineResponse"
    entries: list[TimelineEntry] = wire("entries", w.many(TimelineEntry))
    dropped: int = wire("dropped", w.UINT64)
    #: Of a trace, in the order of their first calls.
    steps: list[TimelineStep] = wire("steps", w.many(TimelineStep))


@dataclasses.dataclass(frozen=True)
class ConnectionOpen:
    """It was let through."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ConnectionOpen"
    rule: str = wire("rule", w.STRING)


@dataclasses.dataclass(frozen=True)
class ConnectionClosed:
    """It was let through, and has ended; ``denial`` says why it was cut off, if it was."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ConnectionClosed"
    rule: str = wire("rule", w.STRING)
    denial: NetworkDenial | None = wire("denial", w.message(NetworkDenial))


@dataclasses.dataclass(frozen=True)
class ConnectionFailed:
    """It was allowed, and nobody answered."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ConnectionFailed"
    message: str = wire("message", w.STRING)


@dataclasses.dataclass(frozen=True)
class Connection:
    """A connection of a program to the outside; of ``open``, ``closed``, ``denied`` and ``failed`` one is set."""

    MESSAGE: ClassVar[str] = "rekindle.v1.Connection"
    number: int = wire("number", w.UINT64)
    execution: str = wire("execution", w.STRING)
    host: str = wire("host", w.STRING)
    port: int = wire("port", w.UINT32)
    policy: str = wire("policy", w.STRING)
    started_at: dt.datetime | None = wire("started_at", w.MAYBE_TIME)
    duration: float = wire("duration", w.SECONDS)
    bytes_up: int = wire("bytes_up", w.UINT64)
    bytes_down: int = wire("bytes_down", w.UINT64)
    open: ConnectionOpen | None = wire("open", w.message(ConnectionOpen))
    closed: ConnectionClosed | None = wire("closed", w.message(ConnectionClosed))
    denied: NetworkDenial | None = wire("denied", w.message(NetworkDenial))
    failed: ConnectionFailed | None = wire("failed", w.message(ConnectionFailed))
    #: The trace and the step that the call of its execution is part of.
    trace: str = wire("trace", w.STRING)
    step: str = wire("step", w.STRING)
