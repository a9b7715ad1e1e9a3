"""What a program that knows only E2B's code interpreter does. Run by e2b.rs, with E2B_API_KEY, E2B_API_URL and
E2B_SANDBOX_URL set."""

import threading
import time

from e2b import NotFoundException, TimeoutException
from e2b_code_interpreter import Sandbox

# An emulated guest on a busy host takes its time.
PATIENCE = 240


def run(sandbox, code, **options):
    return sandbox.run_code(code, timeout=PATIENCE, request_timeout=PATIENCE, **options)


def state(sandbox):
    assert run(sandbox, "x = 1; x").text == "1"
    again = run(sandbox, "    x += 1\n    x")
    assert (again.text, again.execution_count) == ("2", 2), again
    pieces = []
    printed = run(sandbox, "import os, sys\nprint('out')\nprint('err', file=sys.stderr)", on_stdout=pieces.append)
    assert (printed.logs.stdout, printed.logs.stderr) == (["out\n"], ["err\n"]), printed
    assert len(pieces) == 1 and pieces[0].timestamp, pieces
    below = run(sandbox, "import subprocess; subprocess.run('echo below', shell=True).returncode")
    assert ("".join(below.logs.stdout), below.text) == ("below\n", "0"), below
    assert run(sandbox, "import os; os.getenv('WORD')").text == "hello"
    assert run(sandbox, "os.getenv('WORD')", envs={"WORD": "other"}).text == "other"
    assert run(sandbox, "os.getenv('WORD')").text == "hello"
    assert "".join(run(sandbox, "!pwd").logs.stdout) == "/home/user\n"
    assert run(sandbox, "import asyncio\nawait asyncio.sleep(0, 'waited')").text == "waited"
    print("state")


def results(sandbox):
    shown = run(sandbox, "from IPython.display import HTML, display\ndisplay(HTML('<b>1</b>'))\n{'a': [1, None]}")
    assert [result.is_main_result for result in shown.results] == [False, True], shown
    assert shown.results[0].html == "<b>1</b>" and shown.results[1].json == {"a": [1, None]}, shown
    large = run(sandbox, "class Picture:\n    def _repr_png_(self): return bytes(3_000_000)\nPicture()")
    assert len(large.results[0].png) == 4_000_000, large.results
    flood = run(sandbox, "for number in range(20_000): print('a line of some length', number)")
    assert len("".join(flood.logs.stdout)) == sum(len(f"a line of some length {n}\n") for n in range(20_000))
    failed = run(sandbox, "def f():\n    return nothing\nf()")
    assert (failed.error.name, failed.error.value) == ("NameError", "name 'nothing' is not defined"), failed.error
    assert "return nothing" in failed.error.traceback and "interpreter" not in failed.error.traceback, failed.error
    print("results")


def contexts(sandbox):
    assert [context.language for context in sandbox.list_code_contexts()] == ["python", "javascript"]
    context = sandbox.create_code_context(cwd="/tmp")
    assert sandbox.list_code_contexts()[-1].id == context.id
    assert run(sandbox, "import os; os.getcwd()", context=context).text == "/tmp"
    assert run(sandbox, "x", context=context).error.name == "NameError", "contexts are apart"
    run(sandbox, "y = 1", context=context)
    sandbox.restart_code_context(context)
    anew = run(sandbox, "y", context=context)
    assert (anew.error.name, anew.execution_count) == ("NameError", 1), anew
    ended = run(sandbox, "import os; os._exit(3)", context=context)
    assert ended.error.name == "ContextEnded" and "exit code 3" in ended.error.value, ended
    assert run(sandbox, "1 + 1", context=context).text == "2", "it begins anew"
    sandbox.remove_code_context(context)
    try:
        run(sandbox, "1", context=context)
        raise AssertionError("what was removed is gone")
    except NotFoundException as gone:
        assert f"Context {context.id} not found" in str(gone), gone
    assert not any("interpreter" in str(process) for process in sandbox.commands.list()), "they are the server's own"
    print("contexts")


def interrupts(sandbox):
    run(sandbox, "kept = 7")
    try:
        sandbox.run_code("import time; time.sleep(600)", timeout=3)
        raise AssertionError("a time limit counts")
    except TimeoutException:
        pass
    began = time.monotonic()
    assert run(sandbox, "kept").text == "7", "the code was interrupted, and what was defined is there"
    assert time.monotonic() - began < PATIENCE / 2
    print("interrupts")


def javascript(sandbox):
    first = run(sandbox, "const a = 1; console.log('hello'); console.error('trouble'); a + 1", language="js")
    assert (first.text, first.logs.stdout, first.logs.stderr) == ("2", ["hello\n"], ["trouble\n"]), first
    assert run(sandbox, "const a = await Promise.resolve(5); a", language="js").text == "5"
    assert run(sandbox, "import { join } from 'path'\njoin('a', 'b')", language="js").text == "a/b"
    assert run(sandbox, "process.cwd()", language="js").text == "/home/user"
    assert run(sandbox, "nothing", language="js").error.name == "ReferenceError"
    try:
        sandbox.run_code("while (true) {}", language="js", timeout=3)
        raise AssertionError("a time limit counts")
    except TimeoutException:
        pass
    assert run(sandbox, "a", language="js").text == "5"
    print("javascript")


def bash(sandbox):
    assert run(sandbox, "word=there; cd /tmp; echo $WORD", language="bash").logs.stdout == ["hello\n"]
    second = run(sandbox, "echo $word $WORD $PWD", language="bash", envs={"WORD": "it's"})
    assert second.logs.stdout == ["there it's /tmp\n"], second
    third = run(sandbox, "echo $WORD; (exit 3)", language="bash")
    assert (third.logs.stdout, third.error.value) == (["hello\n"], "3"), third
    print("bash")


def killed(sandbox):
    threading.Timer(3, sandbox.kill).start()
    try:
        run(sandbox, "import time; time.sleep(600)")
        raise AssertionError("the sandbox was killed")
    except TimeoutException as told:
        assert "killed" in str(told), told
    print("killed")


def main():
    sandbox = Sandbox.create(
        timeout=3 * PATIENCE,
        envs={"WORD": "hello"},
        network={"allow_public_traffic": False},
        request_timeout=PATIENCE,
    )
    for part in (state, results, contexts, interrupts, javascript, bash, killed):
        part(sandbox)
    print("done")


main()
