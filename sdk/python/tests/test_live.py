"""Both clients against a server whose guests understand a few words and run nothing (tests/fake-guest)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import aclosing
from pathlib import Path

import pytest

import rekindle
from rekindle import AsyncSandbox, Client, Sandbox

pytestmark = pytest.mark.skipif(os.environ.get("REKINDLE_TEST_GUEST") != "fake", reason="needs a fake guest")


def test_every_end_is_a_result(client: Client) -> None:
    with Sandbox(client=client, env={"A": "1"}, metadata={"test": "ends"}) as sandbox:
        ran = sandbox.execute("echo out; err on; fail 3")
        assert (ran.exit_code, ran.stdout, ran.stderr, ran.ok) == (3, "out\n", "on\n", False)
        assert ran.usage.wall_time > 0 and not ran.truncated and ran.spilled_path == ""
        assert ran.full_stdout() == b"out\n"
        assert sandbox.execute(["env", "A"]).stdout == "1\n"
        assert sandbox.run_python("env A", env={"A": "2"}).stdout == "2\n"
        assert sandbox.execute("cat", stdin="words").stdout == "words"
        assert sandbox.shell("sleep 60000", timeout=0.05).timed_out
        assert sandbox.shell("oom").out_of_memory
        assert sandbox.shell("kill 11").outcome.signal == 11
        assert [info.id for info in client.sandboxes({"test": "ends"})] == [sandbox.id]
        info = sandbox.info()
        assert info.state is rekindle.SandboxState.RUNNING and info.usage.executions == 7
        assert [entry.call for entry in sandbox.timeline().entries].count("execute") == 7
    assert list(client.sandboxes({"test": "ends"})) == []
    ended = list(client.sandboxes({"test": "ends"}, include_ended=True))
    assert ended[0].end is not None and ended[0].end.reason is rekindle.EndReason.DESTROYED


def test_a_trace_is_told_by_its_steps(client: Client) -> None:
    trace = os.urandom(15).hex() + "01"
    with Sandbox(client=client) as sandbox, rekindle.step("plan", trace=trace):
        sandbox.execute("echo one")
        sandbox.write_file("p", b"content")
        with rekindle.step("act"):
            sandbox.execute("fail 3")
    with rekindle.step("plan", trace=trace), Sandbox(client=client) as other:
        pass
    told = client.timeline(trace)
    assert [(entry.step, entry.call, entry.sandbox) for entry in told.entries] == [
        ("plan", "execute", sandbox.id),
        ("plan", "upload", sandbox.id),
        ("act", "execute", sandbox.id),
        ("plan", "create", other.id),
        ("plan", "destroy", other.id),
    ]
    sums = [(step.step, step.calls, step.executions, step.failures, step.bytes_in) for step in told.steps]
    assert sums == [("plan", 4, 1, 0, 7), ("act", 1, 1, 1, 0)]


def test_errors_have_classes_and_reasons(client: Client) -> None:
    with pytest.raises(rekindle.NotFoundError) as unknown:
        client.sandbox("sb-none").info()
    assert unknown.value.reason == "UNKNOWN_SANDBOX" and unknown.value.hint
    with pytest.raises(rekindle.NotFoundError) as template:
        client.create(template="nothing")
    assert template.value.reason == "UNKNOWN_TEMPLATE"
    with Client(token="rk_good_wrong") as stranger, pytest.raises(rekindle.AuthenticationError):
        stranger.templates()
    with Sandbox(client=client) as sandbox:
        with pytest.raises(rekindle.DeadlineError) as late:
            sandbox.execute("sleep 60000", deadline=0.1)
        assert late.value.reason == "DEADLINE"
        with pytest.raises(rekindle.InvalidRequestError):
            sandbox.execute("true", timeout=10**9)
        with pytest.raises(rekindle.NotFoundError) as gone:
            sandbox.read_file("nothing")
        assert gone.value.reason == "NOT_FOUND"
        client.sandbox(sandbox.id).cleanup()
        with pytest.raises(rekindle.SandboxEndedError) as ended:
            sandbox.execute("true")
        assert (ended.value.reason, ended.value.end_reason) == ("SANDBOX_ENDED", "DESTROYED")


def test_a_program_is_followed_and_dies_with_its_reader(client: Client) -> None:
    with Sandbox(client=client) as sandbox:
        events = list(sandbox.stream("echo one; err two; fail 4"))
        assert events[0].started is not None and events[0].started.pid > 0
        assert b"".join(event.stdout or b"" for event in events) == b"one\n"
        assert b"".join(event.stderr or b"" for event in events) == b"two\n"
        assert events[-1].finished is not None and events[-1].finished.exit_code == 4
        running = sandbox.stream("sleep 60000")
        assert next(running).started is not None
        running.close()
        deadline = time.monotonic() + 60
        while (entry := sandbox.timeline().entries[-1]).duration == 0 or entry.subject.split()[0] != "sleep":
            assert time.monotonic() < deadline, "the program goes on"
            time.sleep(0.02)


def test_what_a_program_did_on_the_network_is_told(client: Client) -> None:
    [policy] = client.networks()
    assert (policy.name, policy.everything, policy.rules) == ("build", False, ["tcp echo.example.com:7"])
    with Sandbox(client=client, network=policy.name) as sandbox:
        assert sandbox.execute("echo hi").network.connections == 0
        ran = sandbox.execute("connect echo.example.com 7 hello; connect evil.example 443 hello")
        network = ran.network
        assert (network.connections, network.denied, network.failed) == (2, 1, 0)
        assert (network.bytes_up, network.bytes_down) == (6, 6)
        assert [(denial.reason, denial.host, denial.port) for denial in network.denials] == [("not_allowed", "evil.example", 443)]
        assert ran.diagnosis is not None and ran.diagnosis.kind == "network_denied"
        usage = sandbox.info().usage
        assert (usage.connections, usage.connections_denied) == (2, 1)
        assert (usage.network_bytes_up, usage.network_bytes_down) == (6, 6)
        assert [(one.host, one.denied is not None) for one in sandbox.connections()] == [
            ("echo.example.com", False),
            ("evil.example", True),
        ]


def test_a_sandbox_is_followed_from_its_start_to_its_end(client: Client) -> None:
    rules = client.rules()
    assert 0 < rules.ttl <= rules.max_ttl and 0 < rules.execute_timeout <= rules.max_execute_timeout
    [template] = client.templates()
    assert template.is_default and template.root_allowed
    with Sandbox(client=client, metadata={"test": "watch"}) as sandbox:
        start = sandbox.info().start
        assert start.kind is not None and start.total >= sum(stage.duration for stage in start.stages) > 0
        events = client.watch({"test": "watch"}, include_existing=True)
        first = next(events)
        assert (first.kind, first.sandbox.id) == (rekindle.SandboxEventKind.EXISTING, sandbox.id)
        sandbox.pause()
        assert next(events).kind is rekindle.SandboxEventKind.PAUSED
        sandbox.resume()
        assert next(events).sandbox.state is rekindle.SandboxState.RUNNING
        with pytest.raises(rekindle.NotFoundError):
            sandbox.read_file("nothing")
        outcomes = [(entry.call, entry.outcome.done, entry.outcome.error) for entry in sandbox.timeline().entries]
        assert outcomes == [
            ("create", True, None),
            ("pause", True, None),
            ("resume", True, None),
            ("download", False, "NOT_FOUND"),
        ]
    last = next(events)
    assert last.kind is rekindle.SandboxEventKind.ENDED and last.at is not None
    assert last.sandbox.end is not None and last.sandbox.end.reason is rekindle.EndReason.DESTROYED
    events.close()


def test_files_go_there_and_back(client: Client, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4000
    (tmp_path / "in").write_bytes(content)
    with Sandbox(client=client) as sandbox:
        info = sandbox.upload_file(tmp_path / "in", "data.bin")
        assert (info.size, info.kind) == (len(content), rekindle.FileKind.FILE)
        sandbox.download_file("data.bin", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == content
        sandbox.write_file("b.txt", "täxt")
        assert sandbox.read_file("b.txt").decode() == "täxt"
        sandbox.write_file("empty", b"")
        assert sandbox.read_file("empty") == b""
        assert sandbox.stat("b.txt").size == 5
        sandbox.make_dir("d")
        sandbox.move("b.txt", "d/c.txt")
        assert sandbox.read_file("d/c.txt").decode() == "täxt"
        assert {entry.path for entry in sandbox.list_files().entries} >= {"data.bin", "empty"}
        sandbox.remove("empty")
        with pytest.raises(rekindle.NotFoundError):
            sandbox.stat("empty")
        with pytest.raises(rekindle.NotFoundError):
            sandbox.download_file("nothing", tmp_path / "never")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"], "no half of a file is left"


def test_a_watch_tells_what_changes(client: Client) -> None:
    with Sandbox(client=client) as sandbox:
        sandbox.make_dir("w")
        changes = sandbox.watch("w")
        assert next(changes) == []
        sandbox.write_file("w/new", "x")
        told = next(changes)
        assert told[0].path == "new" and told[0].kind is rekindle.FileEventKind.CREATED
        changes.close()


def test_what_is_started_goes_on_alone(client: Client) -> None:
    with Sandbox(client=client) as sandbox:
        cat = sandbox.start("cat", live_stdin=True)
        assert [info.execution for info in sandbox.executions()] == [cat.name]
        assert sandbox.executions()[0].running
        cat.send_input("hello ")
        cat.send_input(b"there", end=True)
        assert cat.wait(deadline=60).stdout == "hello there"
        told = list(sandbox.execution(cat.name).attach())
        assert told[-1].finished is not None and told[-1].finished.exit_code == 0
        sleeper = sandbox.start("sleep 60000")
        sleeper.kill()
        assert sleeper.wait(deadline=60).outcome.signal == 9


def test_pause_and_time(client: Client) -> None:
    with Sandbox(client=client, ttl=100) as sandbox:
        assert sandbox.pause().state is rekindle.SandboxState.PAUSED
        with pytest.raises(rekindle.WrongStateError):
            sandbox.execute("true")
        assert sandbox.resume().state is rekindle.SandboxState.RUNNING
        assert sandbox.set_timeout(ttl=200, idle_timeout=50).idle_timeout == 50
        assert sandbox.execute("true").ok


def test_code_remembers_and_is_told_of(client: Client) -> None:
    shown = 'message {"type":"result","is_main_result":true,"text":"2","png":"AAEC","chart":"{\\"a\\": 1}"}'
    with Sandbox(client=client) as sandbox:
        told: list[rekindle.CodeEvent] = []
        run = sandbox.run_code(f"echo one; err two; {shown}", on_event=told.append)
        assert (run.stdout, run.stderr, run.ok, run.text) == ("one\n", "two\n", True, "2")
        assert run.main is not None and run.main.png == b"\x00\x01\x02" and run.main.chart == {"a": 1}
        assert run.execution_count == 1 and run.duration > 0 and not run.truncated
        assert told[0].started is not None and told[-1].end is not None
        assert sandbox.run_code("true").execution_count == 2, "the context is the same"
        failed = sandbox.run_code('message {"type":"error","name":"E","value":"v","traceback":"t"}')
        error = failed.error
        assert error and (error.name, error.value, error.traceback) == ("E", "v", "t") and not failed.ok
        assert error.diagnosis and error.diagnosis.kind == "uncaught_exception"
        made = sandbox.create_context("js", cwd="/tmp")
        assert made.language is rekindle.CodeLanguage.JAVASCRIPT and made in sandbox.contexts()
        assert sandbox.run_code("true", context=made).context == made
        sandbox.restart_context(made)
        assert sandbox.run_code("true", context=made.id).execution_count == 1
        sandbox.remove_context(made)
        with pytest.raises(rekindle.NotFoundError):
            sandbox.run_code("true", context=made)
        with pytest.raises(rekindle.DeadlineError):
            sandbox.run_code("sleep 60000", deadline=0.3)
        running = sandbox.stream_code("echo begun; sleep 60000")
        while (event := next(running)).stdout is None:
            assert event.end is None
        running.close()
        assert sandbox.run_code("echo next").stdout == "next\n", "the code was interrupted"
        with pytest.raises(ValueError):
            sandbox.run_code("true", language="cobol")

    async def use() -> None:
        async with AsyncSandbox() as sandbox:
            assert (await sandbox.run_code("echo x", language="typescript")).stdout == "x\n"
            assert len(await sandbox.contexts()) == 3

    asyncio.run(use())


def test_a_sandbox_is_paused_at_its_timeout_until_it_is_used(client: Client) -> None:
    with Sandbox(client=client, ttl=0.2, on_timeout="pause_until_used") as sandbox:
        sandbox.ready()
        deadline = time.monotonic() + 60
        while sandbox.info().state is not rekindle.SandboxState.PAUSED:
            assert time.monotonic() < deadline, "it is not paused"
            time.sleep(0.02)
        assert sandbox.run_code("echo again").stdout == "again\n"
        set = sandbox.set_timeout(ttl=60, on_timeout=rekindle.OnTimeout.DESTROY)
        assert set.on_timeout is rekindle.OnTimeout.DESTROY
        assert list(sandbox.connections()) == []


def test_many_threads_share_a_client(client: Client) -> None:
    outputs: list[str] = []
    with Sandbox(client=client) as sandbox:
        work = [threading.Thread(target=lambda: outputs.append(sandbox.execute("echo x").stdout)) for _ in range(8)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert outputs == ["x\n"] * 8


def test_the_same_with_await(client: Client, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc")

    async def use() -> None:
        async with AsyncSandbox() as sandbox:
            assert (await sandbox.execute("echo out; fail 3")).exit_code == 3
            ran = await asyncio.gather(*(sandbox.shell("echo x") for _ in range(4)))
            assert [one.stdout for one in ran] == ["x\n"] * 4
            assert await ran[0].full_stdout() == b"x\n"
            await sandbox.upload_file(tmp_path / "in", "a")
            await sandbox.download_file("a", tmp_path / "out")
            assert (tmp_path / "out").read_bytes() == b"abc" == await sandbox.read_file("a")
            events = [event async for event in sandbox.stream("echo one")]
            assert events[-1].finished is not None
            async with aclosing(sandbox.stream("sleep 60000")) as running:
                async for event in running:
                    assert event.started is not None
                    break
            # A task that is cancelled takes its program with it.
            task = asyncio.create_task(sandbox.execute("sleep 60000"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            execution = await sandbox.start("cat", live_stdin=True)
            await execution.send_input("x", end=True)
            assert (await execution.wait()).stdout == "x"
            id = sandbox.id
        with pytest.raises(rekindle.SandboxEndedError):
            await AsyncSandbox.connect(id).execute("true")

    asyncio.run(use())
