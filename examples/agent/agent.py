"""A small agent: it plans, writes code, runs it in a sandbox, repairs it, and leaves a report.

    python examples/agent/agent.py --model openai:MODEL --data sales.csv "Which month sold best?"
    python examples/agent/agent.py --model scripted:examples/agent/demo.json --data examples/agent/sales.csv "..."

The model is told what is in the data, never the data; its code never runs anywhere but in the sandbox. What there is to
know of that comes from the server: the data in few words (`describe`), a program that loads it within the memory there is
(`load_data`), what went wrong and what to do about it (`diagnosis`), how many programs may still be run (`max_turns`), and
whether the report is there (`result_path`).
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from model import Model, model
from rekindle import FileKind, InvalidRequestError, NotFoundError, PermissionDeniedError, Result, Sandbox, WrongStateError
from report import images, page

#: What loads the data, written by the server.
LOADER = "load_data.py"
#: What the model's code writes: the body of the report. Images lie beside it.
BODY = "body.html"
#: How many programs may be run for one report.
TURNS = 8
#: How many answers may have no program.
MUTE = 3
#: What one program may take.
LIMITS = {"timeout": 120, "memory_bytes": 256 << 20}

RULES = f"""You analyse data with Python in a sandbox without a network. Every program is a new process; files stay.
The data is in the folder `data`; `from load_data import NAME` loads a dataset within the memory there is, by the name of its
file without the suffix. Write the body of an HTML report (no <html>, no <script>) to the file `{BODY}`, and charts as SVG or
PNG files beside it, shown with <img src="NAME">. Answer with one block of Python code."""
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
    with Sandbox(ttl=1800, max_turns=options.turns, result_path=BODY) as sandbox:
        attempts = work(thinker, sandbox, options.question, options.data)
        if attempts[-1].problem:
            print(f"error: no report after {len(attempts)} programs: {attempts[-1].problem}", file=sys.stderr)
            return 1
        body = sandbox.read_file(BODY).decode("utf-8", "replace")
        options.output.write_text(page(options.question, body, sandbox.read_file))
    print(f"{options.output}: {sum(one.result is not None for one in attempts)} programs were run")
    return 0


def work(thinker: Model, sandbox: Sandbox, question: str, data: list[Path]) -> list[Attempt]:
    """Plans, then writes and repairs until there is a report or no turn is left."""
    for file in data:
        sandbox.upload_file(file, f"data/{file.name}")
    task = f"Question: {question}"
    if data:
        task += f"\n\n{sandbox.describe([f'data/{file.name}' for file in data], load_data=LOADER)}"
    task += f"\n\nPlan: {thinker.complete(PLANNER, task)}"
    attempts: list[Attempt] = []
    answer = thinker.complete(CODER, task)
    while True:
        attempts.append(attempt(sandbox, answer))
        last, left = attempts[-1], turns_left(sandbox)
        print(f"turn {len(attempts)}: {last.problem.partition(chr(10))[0] or 'the report is there'}")
        # An answer without a program takes no turn: only so many of them.
        if not last.problem or left == 0 or sum(one.result is None for one in attempts) > MUTE:
            return attempts
        warning = last.result.warning if last.result else ""
        told = f"{task}\n\nYour program:\n{last.code}\n\nWhat is wrong: {last.problem}\n\n"
        answer = thinker.complete(DEBUGGER, told + (warning or f"{left} turns are left."))


def turns_left(sandbox: Sandbox) -> int:
    """How many programs may still be run: the server counts."""
    turns = sandbox.info().turns
    return turns.left if turns else 0


def attempt(sandbox: Sandbox, answer: str) -> Attempt:
    """Runs the program of an answer, and looks at what it left."""
    block = re.search(r"```(?:python)?\n(.*?)```", answer, re.DOTALL)
    if block is None:
        return Attempt(answer, None, "the answer has no block of Python code")
    result = sandbox.run_python(block[1], **LIMITS)
    return Attempt(block[1], result, problem(sandbox, result))


def problem(sandbox: Sandbox, result: Result) -> str:
    """What is wrong, in words that can be acted on: the server's, and the program's last ones."""
    why = result.diagnosis
    if not result.ok or (why and why.kind == "background_exception"):
        what = f"{why.kind} {why.subject}".strip() + f": {why.hint}" if why else f"it ended with {result.exit_code}"
        return f"{what}\n{result.stderr[-1500:]}".strip()
    there = sandbox.info().result
    if there is None or not there.exists:
        return f"it wrote no {BODY}"
    body = sandbox.read_file(BODY).decode("utf-8", "replace")
    lost = [name for name in images(body) if not is_there(sandbox, name)]
    return f"{BODY} shows images that are not there: {', '.join(lost)}" if lost else ""


def is_there(sandbox: Sandbox, name: str) -> bool:
    """Whether there is a file with something in it."""
    try:
        info = sandbox.stat(name)
    except (InvalidRequestError, NotFoundError, PermissionDeniedError, WrongStateError):
        return False
    return info.kind is FileKind.FILE and info.size > 0


if __name__ == "__main__":
    sys.exit(main())
