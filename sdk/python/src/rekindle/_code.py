"""Code that is run piece by piece: contexts, what a run tells, and a whole run. No input or output happens here."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar

from . import _wire as w
from ._errors import ProtocolError
from ._types import Diagnosis
from ._wire import wire

#: Characters that are kept of each stream of a run, and bytes of all its results together.
MAX_STREAM = 8 << 20
MAX_RESULTS = 64 << 20


class CodeLanguage(enum.Enum):
    """What contexts speak."""

    PYTHON = "PYTHON"
    JAVASCRIPT = "JAVASCRIPT"
    TYPESCRIPT = "TYPESCRIPT"
    BASH = "BASH"


@dataclasses.dataclass(frozen=True)
class CodeContext:
    """A process in a sandbox that remembers what code has defined."""

    MESSAGE: ClassVar[str] = "rekindle.v1.CodeContext"
    id: str = wire("id", w.STRING)
    language: CodeLanguage | None = wire("language", w.one_of(CodeLanguage, "CodeLanguage"))
    cwd: str = wire("cwd", w.STRING)


@dataclasses.dataclass(frozen=True)
class ContextList:
    """The contexts of a sandbox."""

    MESSAGE: ClassVar[str] = "rekindle.v1.ListContextsResponse"
    contexts: list[CodeContext] = wire("contexts", w.many(CodeContext))


@dataclasses.dataclass(frozen=True)
class CodeStarted:
    """Code was handed to its context."""

    MESSAGE: ClassVar[str] = "rekindle.v1.CodeStarted"
    context: CodeContext = wire("context", w.message(CodeContext, maybe=False))


@dataclasses.dataclass(frozen=True)
class CodeResult:
    """A value in all the forms that it has. ``None`` is a form that it has not."""

    MESSAGE: ClassVar[str] = "rekindle.v1.CodeResult"
    #: It is the value of the code's last expression, not something that was shown on the way.
    is_main: bool = wire("is_main", w.BOOL)
    text: str | None = wire("text", w.MAYBE_STRING)
    html: str | None = wire("html", w.MAYBE_STRING)
    markdown: str | None = wire("markdown", w.MAYBE_STRING)
    svg: str | None = wire("svg", w.MAYBE_STRING)
    png: bytes | None = wire("png", w.MAYBE_BYTES)
    jpeg: bytes | None = wire("jpeg", w.MAYBE_BYTES)
    pdf: bytes | None = wire("pdf", w.MAYBE_BYTES)
    latex: str | None = wire("latex", w.MAYBE_STRING)
    javascript: str | None = wire("javascript", w.MAYBE_STRING)
    #: JSON, read.
    json: Any = wire("json", w.MAYBE_JSON)
    #: The rows of a table: a dictionary of columns.
    data: Any = wire("data", w.MAYBE_JSON)
    #: What a chart shows: its type, title, axes and elements.
    chart: Any = wire("chart", w.MAYBE_JSON)
    #: Other forms by their media type; what is no text is JSON.
    others: dict[str, str] = wire("others", w.WORDS)

    def __str__(self) -> str:
        return self.text or ""

    def size(self) -> int:
        """About how much it holds."""
        forms = (self.text, self.html, self.markdown, self.svg, self.png, self.jpeg, self.pdf, self.latex, self.javascript)
        return sum(len(form) for form in forms if form) + sum(map(len, self.others.values()))


@dataclasses.dataclass(frozen=True)
class CodeError:
    """Why code failed. ``ContextEnded`` is the name when its context's process is gone, with all that was defined."""

    MESSAGE: ClassVar[str] = "rekindle.v1.CodeError"
    name: str = wire("name", w.STRING)
    value: str = wire("value", w.STRING)
    traceback: str = wire("traceback", w.STRING)
    #: What went wrong, in the codes that executions have too; ``None`` for what none of them is of.
    diagnosis: Diagnosis | None = wire("diagnosis", w.message(Diagnosis))


@dataclasses.dataclass(frozen=True)
class CodeEnd:
    """A run is over."""

    MESSAGE: ClassVar[str] = "rekindle.v1.CodeEnd"
    #: It was the context's run of this number, from 1 on; 0 when its process has not told.
    execution_count: int = wire("execution_count", w.UINT64)
    duration: float = wire("duration", w.SECONDS)
    #: Turns that the sandbox had left once this one was taken; ``None`` when they have no bound.
    turns_left: int | None = wire("turns_left", w.MAYBE_UINT32)
    #: That the result is to be written now, when 3 and when 1 turns are left.
    warning: str = wire("warning", w.STRING)


@dataclasses.dataclass(frozen=True)
class CodeEvent:
    """What a run tells: exactly one of these is set."""

    MESSAGE: ClassVar[str] = "rekindle.v1.RunCodeEvent"
    #: Always first.
    started: CodeStarted | None = wire("started", w.message(CodeStarted))
    stdout: str | None = wire("stdout", w.MAYBE_STRING)
    stderr: str | None = wire("stderr", w.MAYBE_STRING)
    result: CodeResult | None = wire("result", w.message(CodeResult))
    error: CodeError | None = wire("error", w.message(CodeError))
    #: Always last.
    end: CodeEnd | None = wire("end", w.message(CodeEnd))


@dataclasses.dataclass(frozen=True)
class CodeRun:
    """What came of code. Code that fails is a result and no exception."""

    context: CodeContext
    results: list[CodeResult]
    stdout: str
    stderr: str
    error: CodeError | None
    execution_count: int
    duration: float
    #: It printed or showed more than is kept.
    truncated: bool
    #: Turns that the sandbox had left once this one was taken; ``None`` when they have no bound.
    turns_left: int | None = None
    #: That the result is to be written now, when 3 and when 1 turns are left.
    warning: str = ""

    @property
    def ok(self) -> bool:
        """It did not fail."""
        return self.error is None

    @property
    def main(self) -> CodeResult | None:
        """The value of the code's last expression."""
        return next((result for result in self.results if result.is_main), None)

    @property
    def text(self) -> str | None:
        """That value as text."""
        return None if self.main is None else self.main.text


class Collected:
    """Puts a run together from what it tells. Code may print for ever: what is kept is bounded."""

    def __init__(self) -> None:
        self._context: CodeContext | None = None
        self._streams: tuple[list[str], list[str]] = ([], [])
        self._kept = [0, 0]
        self._results: list[CodeResult] = []
        self._held = 0
        self._error: CodeError | None = None
        self._end: CodeEnd | None = None
        self._truncated = False

    def take(self, event: CodeEvent) -> None:
        if event.started is not None:
            self._context = event.started.context
        for number, text in enumerate((event.stdout, event.stderr)):
            if text:
                fits = text[: MAX_STREAM - self._kept[number]]
                self._kept[number] += len(fits)
                self._streams[number].append(fits)
                self._truncated |= len(fits) < len(text)
        if event.result is not None:
            self._held += event.result.size()
            if self._held > MAX_RESULTS:
                self._truncated = True
            else:
                self._results.append(event.result)
        self._error = event.error or self._error
        self._end = event.end or self._end

    def run(self) -> CodeRun:
        """The run, once it is over."""
        if self._context is None or self._end is None:
            raise ProtocolError("the run broke off")
        return CodeRun(
            context=self._context,
            results=self._results,
            stdout="".join(self._streams[0]),
            stderr="".join(self._streams[1]),
            error=self._error,
            execution_count=self._end.execution_count,
            duration=self._end.duration,
            truncated=self._truncated,
            turns_left=self._end.turns_left,
            warning=self._end.warning,
        )
