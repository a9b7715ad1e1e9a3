"""smolagents: an agent's Python runs in a sandbox, in one context that remembers from step to step.

    from rekindle.adapters.smolagents import RekindleExecutor
    from smolagents import CodeAgent

    with RekindleExecutor() as executor:
        agent = CodeAgent(tools=[], model=..., executor=executor)
        agent.run("...")
"""

from __future__ import annotations

from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Any

import PIL.Image
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from .._calls import CreateOptions
from .._code import CodeResult
from .._sync import Client, Sandbox

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

#: Forms of a result, the ones that say most first.
FORMS = ("chart", "data", "html", "javascript", "json", "latex", "markdown", "pdf", "svg", "text")


class RekindleExecutor(RemotePythonExecutor):
    """Makes a sandbox and runs code in it until :meth:`cleanup`. Keywords are those of ``Sandbox``; packages that the agent
    asks for are installed with pip, for which the sandbox needs a network policy that allows it."""

    def __init__(
        self,
        additional_imports: list[str] | None = None,
        logger: AgentLogger | None = None,
        *,
        allow_pickle: bool = False,
        client: Client | None = None,
        **options: Unpack[CreateOptions],
    ) -> None:
        super().__init__(additional_imports or [], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle)
        self.sandbox = Sandbox(client=client, **options)
        self.installed_packages = self.install_packages(additional_imports or [])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        run = self.sandbox.run_code(code)
        if run.error is not None:
            if run.error.name == self.FINAL_ANSWER_EXCEPTION:
                answer = self._deserialize_final_answer(run.error.value, self.allow_pickle)
                return CodeOutput(output=answer, logs=run.stdout, is_final_answer=True)
            told = f"{run.error.name}\n{run.error.value}\n{run.error.traceback}"
            raise AgentError(f"{run.stdout}\nExecuting code yielded an error:\n{told}", self.logger)
        output = None if run.main is None else _value(run.main)
        return CodeOutput(output=output, logs=run.stdout, is_final_answer=False)

    def cleanup(self) -> None:
        """Ends the sandbox."""
        self.sandbox.cleanup()


def _value(result: CodeResult) -> Any:
    image = result.jpeg or result.png
    if image is not None:
        return PIL.Image.open(BytesIO(image))
    return next((value for form in FORMS if (value := getattr(result, form)) is not None), None)
