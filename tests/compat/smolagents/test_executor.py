"""A code agent of smolagents whose steps run in a sandbox, through E2B's SDK or Rekindle's own; its model says what it was
told to say. The framework wants numpy in the sandbox."""

import os
from collections.abc import Iterator

import pytest
from smolagents import CodeAgent, tool
from smolagents.local_python_executor import PythonExecutor
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import AgentLogger
from smolagents.utils import AgentError


@pytest.fixture
def executor() -> Iterator[PythonExecutor]:
    if os.environ.get("REKINDLE_SERVER"):
        from rekindle.adapters.smolagents import RekindleExecutor

        executor = RekindleExecutor()
    else:
        from smolagents.remote_executors import E2BExecutor

        executor = E2BExecutor([], AgentLogger())
    yield executor
    executor.cleanup()


class Scripted(Model):
    def __init__(self, steps: list[str]) -> None:
        super().__init__(model_id="scripted")
        self.steps = iter(steps)

    def generate(self, messages, **options) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on.\n<code>\n{next(self.steps)}\n</code>")


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: What to double.
    """
    return number * 2


def test_an_agent_remembers_from_step_to_step_and_answers(executor: PythonExecutor):
    steps = ["x = double(20)", "1 / 0", "import os\nprint(os.getcwd())\nfinal_answer({'x': x + 2})"]
    agent = CodeAgent(tools=[double], model=Scripted(steps), executor=executor, max_steps=4)
    assert agent.run("What is it?", additional_args={"given": [1, "two"]}) == {"x": 42}
    told = [str(step.error or "") + str(step.observations or "") for step in agent.memory.steps[1:]]
    assert "ZeroDivisionError" in told[1] and "/home/user" in told[2], told
    executor("assert given == [1, 'two'] and x == 40")


def test_an_error_of_the_code_is_the_agents(executor: PythonExecutor):
    with pytest.raises(AgentError, match="NameError"):
        executor("nothing")
