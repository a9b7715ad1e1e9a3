"""What a program does that has the Python SDK and a real sandbox. Run by sdk.rs, with REKINDLE_SERVER set."""

import asyncio
import json
import pathlib
import statistics
import time

import httpx
import rekindle
from rekindle import AsyncSandbox, Client, Sandbox

# An emulated guest on a busy host takes its time.
PATIENCE = 240


def programs(sandbox):
    assert sandbox.run_python("print(6 * 7)", timeout=PATIENCE).stdout == "42\n"
    ran = sandbox.execute("echo $WORD $MORE; pwd; exit 3", env={"MORE": "there"}, cwd="/tmp", timeout=PATIENCE)
    assert (ran.stdout, ran.exit_code, ran.ok) == ("hello there\n/tmp\n", 3, False), ran
    assert sandbox.execute(["cat"], stdin=b"words", timeout=PATIENCE).stdout == "words"
    missing = sandbox.run_python("import nothing_of_the_sort", timeout=PATIENCE)
    assert missing.exit_code == 1 and missing.diagnosis is not None, missing
    assert (missing.diagnosis.kind, missing.diagnosis.subject) == ("missing_module", "nothing_of_the_sort")
    assert missing.usage.wall_time > 0
    assert sandbox.shell("sleep 600", timeout=2).timed_out
    print("programs")


def output(sandbox):
    long = sandbox.run_python("print('é' * 30000)", timeout=PATIENCE)
    assert long.truncated and len(long.stdout) < 5000 and long.spilled_path, long
    assert long.stdout_output.total_chars == 30001
    assert long.full_stdout().decode() == "é" * 30000 + "\n"
    # More than is kept of a stream.
    flood = sandbox.execute("head -c 70000000 /dev/zero | tr '\\0' x", timeout=PATIENCE)
    try:
        flood.full_stdout()
        raise AssertionError("not all of it was kept")
    except rekindle.OutputLostError as error:
        assert (error.kept_bytes, error.total_bytes) == (64 << 20, 70_000_000), error
    assert flood.full_stdout(partial=True) == b"x" * (64 << 20)
    print("output")


def live(sandbox):
    seen = []
    for event in sandbox.stream("for i in 1 2 3; do echo $i; done; echo no >&2; exit 4", timeout=PATIENCE):
        seen.append(event)
    assert seen[0].started.pid > 0
    assert b"".join(event.stdout or b"" for event in seen) == b"1\n2\n3\n"
    assert b"".join(event.stderr or b"" for event in seen) == b"no\n"
    assert seen[-1].finished.exit_code == 4
    # Who stops reading stops the program.
    for event in sandbox.stream("echo $$ > pid; echo ready; sleep 600", timeout=PATIENCE):
        if event.stdout:
            break
    gone = "for i in $(seq 100); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.1; done; exit 1"
    assert sandbox.execute(gone, timeout=PATIENCE).ok, "the program goes on"
    print("live")


def detached(sandbox):
    reader = sandbox.start("read line; echo got $line", live_stdin=True)
    assert reader.name in [one.execution for one in sandbox.executions() if one.running]
    reader.send_input("a word\n", end=True)
    assert reader.wait(deadline=PATIENCE).stdout == "got a word\n"
    sleeper = sandbox.start(["sleep", "600"])
    sleeper.kill()
    assert sleeper.wait(deadline=PATIENCE).outcome.signal == 9
    print("detached")


def files(sandbox):
    local = pathlib.Path("in.bin")
    local.write_bytes(bytes(range(256)) * 8192)
    assert sandbox.upload_file(local, "data/in.bin").size == 2 << 20
    counted = sandbox.run_python("import os; print(os.path.getsize('data/in.bin'))", timeout=PATIENCE)
    assert counted.stdout == "2097152\n"
    sandbox.download_file("data/in.bin", "out.bin")
    assert pathlib.Path("out.bin").read_bytes() == local.read_bytes()
    sandbox.write_file("täxt.txt", "wörds")
    assert sandbox.read_file("täxt.txt").decode() == "wörds"
    sandbox.move("täxt.txt", "data/b.txt")
    assert sorted(entry.path for entry in sandbox.list_files("data").entries) == ["b.txt", "in.bin"]
    assert sandbox.stat("data").kind is rekindle.FileKind.DIRECTORY
    changes = sandbox.watch("data")
    assert next(changes) == []
    sandbox.remove("data/b.txt")
    told = next(changes)
    assert (told[0].path, told[0].kind) == ("b.txt", rekindle.FileEventKind.REMOVED), told
    changes.close()
    try:
        sandbox.read_file("nothing")
        raise AssertionError("there is no such file")
    except rekindle.NotFoundError as error:
        assert error.reason == "NOT_FOUND"
    print("files")


def data(sandbox):
    sandbox.write_file("d/sold.csv", "buyer_id,sold\n" + "".join(f"{n % 40 + 1},{n}\n" for n in range(300)))
    sandbox.write_file("d/buyers.json", json.dumps([{"id": n, "name": f"n{n}"} for n in range(1, 41)]))
    told = sandbox.describe(["d/sold.csv", "d/buyers.json"], load_data="load_data.py", timeout=PATIENCE)
    assert "d/sold.csv | CSV | 300 records" in told.text and str(told) == told.text, told
    assert "d/sold.csv:buyer_id = d/buyers.json:id" in told.text, told
    files = told.structure["files"]
    assert [(file["path"], file["records"]) for file in files] == [("d/sold.csv", 300), ("d/buyers.json", 40)], files
    program = "from load_data import buyers, sold; print(len(sold), buyers[39]['name'])"
    loaded = sandbox.run_python(program, timeout=PATIENCE)
    assert loaded.stdout.endswith("\n300 n40\n") and "buyers: list, 40 long, from" in loaded.stdout, loaded
    assert len(sandbox.describe("d", max_chars=300).text) <= 300
    print("data")


def turns():
    with Sandbox(max_turns=4, result_path="answer.txt") as sandbox:
        before = sandbox.info()
        assert (before.turns.max, before.turns.left) == (4, 4), before.turns
        assert (before.result.path, before.result.exists) == ("answer.txt", False), before.result
        told = [sandbox.execute("true", timeout=PATIENCE)]
        told.append(sandbox.run_python("open('answer.txt', 'w').write('42')", timeout=PATIENCE))
        assert sandbox.info().result.exists is True
        run = sandbox.run_code("6 * 7", deadline=PATIENCE)
        assert (run.turns_left, run.warning) == (1, "1 turn is left: write the result to answer.txt now"), run
        told.append(sandbox.start("true").wait(deadline=PATIENCE))
        warned = "3 turns are left: write the result to answer.txt now"
        assert [(one.turns_left, one.warning) for one in told] == [(3, warned), (2, ""), (0, "")], told
        try:
            sandbox.execute("true")
            raise AssertionError("no turn is left")
        except rekindle.CapacityError as error:
            assert (error.reason, error.retryable) == ("TURNS_SPENT", False), error
        assert sandbox.read_file("answer.txt") == b"42" and sandbox.info().turns.left == 0
    with Sandbox() as sandbox:
        ran = sandbox.execute("true", timeout=PATIENCE)
        assert (ran.turns_left, ran.warning, sandbox.info().turns, sandbox.info().result) == (None, "", None, None), ran
    print("turns")


def code(sandbox):
    assert sandbox.run_code("x = 20", deadline=PATIENCE).ok
    run = sandbox.run_code("print('adding'); x + 22", deadline=PATIENCE)
    assert (run.stdout, run.text, run.execution_count) == ("adding\n", "42", 2), run
    failed = sandbox.run_code("1 / 0", deadline=PATIENCE)
    assert failed.error is not None and failed.error.name == "ZeroDivisionError", failed
    assert "1 / 0" in failed.error.traceback or "line 1" in failed.error.traceback, failed
    shell = sandbox.create_context("bash", cwd="/tmp")
    assert sandbox.run_code("pwd", context=shell, deadline=PATIENCE).stdout == "/tmp\n"
    sandbox.remove_context(shell)
    print("code")


def ports(sandbox):
    page = "import http.server, sys\nclass Page(http.server.BaseHTTPRequestHandler):\n    def do_POST(self):\n"
    page += "        body = self.rfile.read(int(self.headers['Content-Length']))\n        self.send_response(201)\n"
    page += "        self.end_headers()\n        self.wfile.write(body[::-1] + self.path.encode())\n"
    page += "    def log_message(self, *_):\n        pass\n"
    page += "server = http.server.HTTPServer(('127.0.0.1', 8000), Page)\nprint('listens', flush=True)\nserver.serve_forever()\n"
    sandbox.write_file("page.py", page)
    server = sandbox.start(["python3", "page.py"])
    assert next(event.stdout for event in server.attach() if event.stdout) == b"listens\n"
    port = sandbox.port(8000)
    answer = httpx.post(port.url + "/path", headers=port.headers, content=b"abc", timeout=PATIENCE)
    assert (answer.status_code, answer.text) == (201, "cba/path"), answer.text
    without = {name: value for name, value in port.headers.items() if "Token" not in name}
    assert httpx.post(port.url, headers=without, timeout=PATIENCE).status_code == 403
    closed = sandbox.port(8001)
    assert httpx.get(closed.url, headers=closed.headers, timeout=PATIENCE).status_code == 502
    try:
        sandbox.get_host(8000)
        raise AssertionError("no domain is set")
    except rekindle.WrongStateError as error:
        assert "[http] domain" in error.hint, error
    server.kill()
    print("ports")


def life(sandbox):
    sandbox.pause()
    try:
        sandbox.execute("true")
        raise AssertionError("a paused sandbox runs nothing")
    except rekindle.WrongStateError as error:
        assert error.reason == "SANDBOX_PAUSED"
    sandbox.resume()
    assert sandbox.execute("true", timeout=PATIENCE).ok
    assert sandbox.set_timeout(ttl=600).expires_at is not None
    with Client() as client:
        assert [info.id for info in client.sandboxes({"test": "sdk"})] == [sandbox.id]
    print("life")


def price(sandbox):
    """What the SDK adds to the same call by hand, on the same connection. A figure to look at, not to fail by."""
    body = {"sandbox": sandbox.id, "program": {"command": {"argv": ["true"]}}}
    by_hand = lambda: sandbox.client._http.post("/rekindle.v1.Sandboxes/Execute", json=body).json()
    taken = {"by hand": [], "sdk": []}
    both = [("by hand", by_hand), ("sdk", lambda: sandbox.execute(["true"]))]
    for _ in range(40):
        both.reverse()
        for name, call in both:
            began = time.perf_counter()
            call()
            taken[name].append((time.perf_counter() - began) * 1000)
    hand, sdk = (statistics.median(times) for times in taken.values())
    print(f"price: {hand:.2f} ms by hand, {sdk:.2f} ms with the SDK, {(sdk / hand - 1) * 100:+.1f} %")


async def the_same_with_await():
    async with AsyncSandbox() as sandbox:
        assert (await sandbox.run_python("print(6 * 7)", timeout=PATIENCE)).stdout == "42\n"
        await sandbox.write_file("rows.jsonl", '{"a": 1}\n{"a": 2}\n')
        assert "rows.jsonl | JSON Lines | 2 records" in (await sandbox.describe("rows.jsonl")).text
        # A task that is cancelled takes its program with it.
        task = asyncio.create_task(sandbox.execute("echo $$ > pid; sleep 600", timeout=PATIENCE))
        wrote = "for i in $(seq 100); do test -s pid && exit 0; sleep 0.1; done; exit 1"
        assert (await sandbox.execute(wrote, timeout=PATIENCE)).ok
        task.cancel()
        gone = "for i in $(seq 100); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.1; done; exit 1"
        assert (await sandbox.execute(gone, timeout=PATIENCE)).ok, "the program goes on"
    print("await")


began = time.monotonic()
with Sandbox(env={"WORD": "hello"}, metadata={"test": "sdk"}) as sandbox:
    for part in (programs, output, live, detached, data, code, files, ports, life, price):
        part(sandbox)
try:
    Client().sandbox(sandbox.id).execute("true")
    raise AssertionError("it has ended")
except rekindle.SandboxEndedError as error:
    assert error.end_reason == "DESTROYED", error
turns()
asyncio.run(the_same_with_await())
print(f"{time.monotonic() - began:.1f} s")
print("done")
