"""A small agent: it plans, writes code, runs it in a sandbox, repairs it, and leaves a report.

    python examples/agent/agent.py --model openai:MODEL --data sales.csv "Which month sold best?"
    python examples/agent/agent.py --model scripted:examples/agent/demo.json --data examples/agent/sales.csv "..."

The model never sees more of the data than its first lines, and its code never runs anywhere but in the sandbox.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from model import Model, model
from rekindle import Result, Sandbox, WrongStateError, NotFoundError
from report import images, page

#: What the model's code writes: the body of the report. Images lie beside it.
BODY = "body.html"
#: How many programs may be run for one report.
TURNS = 8
#: What one program may take.
LIMITS = {"timeout": 120, "memory_bytes": 256 << 20}

RULES = f"""You analyse data with Python in a sandbox without a network. Every program is a new process; files stay.
The data is in the folder `data`. Write the body of an HTML report (no <html>, no <script>) to the file `{BODY}`, and charts
as SVG or PNG files beside it, shown with <img src="NAME">. Answer with one block of Python code."""
PLANNER = "You plan. Say in a few lines what to compute and what to show; no code."
CODER = RULES
DEBUGGER = RULES + "\nYour last program did not do it. Repair it; answer with the whole program."


@dataclass
class Attempt:
    """A program, and what is wrong with what came of it; nothing when the report is there."""

    code: str
    result: Result | None
    problem: str


def main() -> int:
    parser = argparse.ArgumentParser(description="Answers a question about data with a report.")
    parser.add_argument("question")
    parser.add_argument("--model", required=True, help="scripted:FILE, openai:MODEL or anthropic:MODEL")
    parser.add_argument("--data", action="append", default=[], type=Path, help="a file to analyse; repeatable")
    parser.add_argument("--output", default=Path("report.html"), type=Path)
    parser.add_argument("--turns", default=TURNS, type=int, help="how many programs may be run")
    options = parser.parse_args()
    thinker = model(options.model)
    with Sandbox(ttl=1800) as sandbox:
        attempts = work(thinker, sandbox, options.question, options.data, options.turns)
        if attempts[-1].problem:
            print(f"error: no report after {len(attempts)} programs: {attempts[-1].problem}", file=sys.stderr)
            return 1
        body = sandbox.read_file(BODY).decode("utf-8", "replace")
        options.output.write_text(page(options.question, body, sandbox.read_file))
    print(f"{options.output}: {len(attempts)} programs were run")
    return 0


def work(thinker: Model, sandbox: Sandbox, question: str, data: list[Path], turns: int) -> list[Attempt]:
    """Plans, then writes and repairs until there is a report or no turn is left."""
    sandbox.make_dir("data")
    seen = [f"Question: {question}"]
    for file in data:
        sandbox.upload_file(file, f"data/{file.name}")
        first = sandbox.execute(["head", "-c", "600", f"data/{file.name}"]).stdout
        seen.append(f"data/{file.name} ({file.stat().st_size} bytes) begins with:\n{first}")
    task = "\n\n".join(seen)
    task += f"\n\nPlan: {thinker.complete(PLANNER, task)}"
    attempts: list[Attempt] = []
    while len(attempts) < turns and (not attempts or attempts[-1].problem):
        if attempts:
            last, left = attempts[-1], turns - len(attempts)
            told = f"{task}\n\nYour program:\n{last.code}\n\nWhat is wrong: {last.problem}\n\n{left} turns are left."
            answer = thinker.complete(DEBUGGER, told)
        else:
            answer = thinker.complete(CODER, task)
        attempts.append(attempt(sandbox, answer))
        print(f"turn {len(attempts)}: {attempts[-1].problem or 'the report is there'}")
    return attempts


def attempt(sandbox: Sandbox, answer: str) -> Attempt:
    """Runs the program of an answer, and looks at what it left."""
    block = re.search(r"```(?:python)?\n(.*?)```", answer, re.DOTALL)
    if block is None:
        return Attempt(answer, None, "the answer has no block of Python code")
    result = sandbox.run_python(block[1], **LIMITS)
    return Attempt(block[1], result, problem(sandbox, result))


def problem(sandbox: Sandbox, result: Result) -> str:
    """What is wrong, in words that can be acted on."""
    if result.out_of_memory:
        return f"it needed more memory than {LIMITS['memory_bytes'] >> 20} MiB: read the data piece by piece"
    if result.timed_out:
        return f"it took longer than {LIMITS['timeout']} s; its last words: {result.stdout[-400:]}"
    if not result.ok:
        diagnosis = result.diagnosis
        kind = f"{diagnosis.kind} {diagnosis.subject}: ".replace(" : ", ": ") if diagnosis else ""
        return f"{kind}it ended with {result.exit_code}: {result.stderr[-1500:]}"
    try:
        body = sandbox.read_file(BODY).decode("utf-8", "replace")
    except NotFoundError:
        return f"it wrote no {BODY}"
    lost = []
    for name in images(body):
        try:
            if not sandbox.stat(name).size:
                lost.append(name)
        except (NotFoundError, WrongStateError):
            lost.append(name)
    return f"{BODY} shows images that are not there: {', '.join(lost)}" if lost else ""


if __name__ == "__main__":
    sys.exit(main())
