"""openai-agents: programs that go on between two calls of the model's."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import aclosing, suppress

from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    process_id_to_prune_from_meta,
)

from .._async import AsyncExecution
from .._errors import RekindleError
from ._common import KILLED, shell_code


class Process:
    """A program whose output is kept until it is asked for."""

    def __init__(self, execution: AsyncExecution, listens: bool) -> None:
        self.execution = execution
        #: Whether it has a standard input.
        self.listens = listens
        self.used = time.monotonic()
        self.code: int | None = None
        self._chunks: deque[bytes] = deque()
        self._lock = asyncio.Lock()
        self._news = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        code = KILLED
        try:
            async with aclosing(self.execution.attach()) as events:
                async for event in events:
                    told = event.stdout or event.stderr
                    if event.missed is not None:
                        told = f"\n[{event.missed.stdout_bytes + event.missed.stderr_bytes} bytes were not kept]\n".encode()
                    if event.finished is not None:
                        code = shell_code(event.finished)
                    if told:
                        async with self._lock:
                            self._chunks.append(told)
                        self._news.set()
        except RekindleError as error:
            self._chunks.append(f"\n[{error.message}]\n".encode())
        finally:
            self.code = code
            self._news.set()

    async def told(self, seconds: float, tokens: int | None) -> tuple[bytes, int | None]:
        """What it printed since it was last asked, and until its end or for so long; how many tokens that was."""
        self.used = time.monotonic()
        output, count, _ = await collect_pty_output(
            output_chunks=self._chunks,
            output_lock=self._lock,
            output_notify=self._news,
            is_done=lambda: self.code is not None,
            yield_time_ms=int(seconds * 1000),
            max_output_tokens=tokens,
        )
        return output, count

    async def end(self) -> None:
        """Kills it, if it is there."""
        with suppress(RekindleError):
            if self.code is None:
                await self.execution.kill()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)


class Processes:
    """Those of a session, by the numbers that the model knows them by."""

    def __init__(self) -> None:
        self._there: dict[int, Process] = {}

    def __getitem__(self, number: int) -> Process:
        return self._there[number]

    def __contains__(self, number: int) -> bool:
        return number in self._there

    async def add(self, process: Process) -> int:
        """Keeps a program; when there are too many the one that nobody asked for the longest is ended."""
        oldest = None
        if len(self._there) >= PTY_PROCESSES_MAX:
            ages = [(number, known.used, known.code is not None) for number, known in self._there.items()]
            oldest = process_id_to_prune_from_meta(ages)
        number: int = allocate_pty_process_id(set(self._there))
        self._there[number] = process
        if oldest is not None:
            await self._there.pop(oldest).end()
        return number

    async def update(self, number: int, seconds: float, tokens: int | None) -> PtyExecUpdate:
        """What it told since; one that has ended is forgotten."""
        process = self._there[number]
        output, count = await process.told(seconds, tokens)
        if process.code is not None:
            self._there.pop(number, None)
        there = number if process.code is None else None
        return PtyExecUpdate(process_id=there, output=output, exit_code=process.code, original_token_count=count)

    async def end(self) -> None:
        """Ends all of them."""
        while self._there:
            await self._there.popitem()[1].end()
