"""What needs no server: frames, times, errors, addresses, retries."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import rekindle
from rekindle import _calls, _code, _config, _types, _wire as w
from rekindle._calls import CHUNK, Received
from rekindle._errors import REASONS, error_of


def error(reason: str, delay: str | None = None, retryable: bool = True) -> dict[str, Any]:
    detail = {"reason": f"ERROR_REASON_{reason}", "retryable": retryable, "hint": "wait"}
    details = [
        {"type": "rekindle.v1.ErrorDetail", "value": "", "debug": detail},
        {"type": "google.rpc.ErrorInfo", "value": "", "debug": {"reason": reason, "domain": "rekindle"}},
    ]
    if delay is not None:
        details.append({"type": "google.rpc.RetryInfo", "value": "", "debug": {"retryDelay": delay}})
    return {"code": "resource_exhausted", "message": "no room", "details": details}


def end(value: dict[str, Any]) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack(">BI", 2, len(body)) + body


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_frames_come_in_any_pieces(step: int) -> None:
    body = w.frame({"a": 1}) + w.frame({"b": "é"}) + end({})
    frames, told = w.Frames(), []
    for at in range(0, len(body), step):
        told += frames.feed(body[at : at + step])
    frames.end()
    assert told == [{"a": 1}, {"b": "é"}]


def test_a_stream_that_breaks_off_is_an_error() -> None:
    body = w.frame({"a": 1}) + end({})
    for cut in range(len(body)):
        frames = w.Frames()
        frames.feed(body[:cut])
        with pytest.raises(rekindle.ProtocolError):
            frames.end()
    frames = w.Frames()
    frames.feed(end({"error": error("VM_LOST")}))
    with pytest.raises(rekindle.SandboxEndedError, match="no room"):
        frames.check()
    for wrong in (b"\x01\x00\x00\x00\x00", b"\x00\xff\xff\xff\xff", w.frame({})[:1] + b"\x00\x00\x00\x01x", b"\x00\0\0\0\x02[]"):
        with pytest.raises(rekindle.ProtocolError):
            w.Frames().feed(wrong)


def test_a_run_is_whole_and_bounded() -> None:
    def told(**values: Any) -> _code.CodeEvent:
        return w.decode(_code.CodeEvent, values)

    collected = _code.Collected()
    collected.take(told(started={"context": {"id": "c", "language": "CODE_LANGUAGE_BASH"}}))
    with pytest.raises(rekindle.ProtocolError):
        collected.run()
    for _ in range(3):
        collected.take(told(stdout="x" * (_code.MAX_STREAM // 2)))
    collected.take(told(result={"isMain": True, "text": "t", "data": "[" * 100_000, "json": "9" * 5000}))
    collected.take(told(end={"executionCount": "7", "duration": "1.5s", "turnsLeft": 3, "warning": "write it"}))
    run = collected.run()
    assert (run.turns_left, run.warning) == (3, "write it")
    assert (len(run.stdout), run.truncated, run.execution_count) == (_code.MAX_STREAM, True, 7)
    assert run.main is not None and run.main.data is None and run.text == "t"
    assert run.context.language is rekindle.CodeLanguage.BASH


def test_times_paths_and_numbers() -> None:
    info = w.decode(
        _types.FileInfo,
        {"path": w.text64(b"a\xff"), "size": "5000000000", "modifiedAt": "2026-01-02T03:04:05.123456789Z", "kind": "FILE_KIND_NEW"},
    )
    assert (info.path, info.size, info.kind) == ("a\udcff", 5_000_000_000, None)
    assert w.text64(info.path) == w.text64(b"a\xff"), "what is no text goes back as it came"
    assert info.modified_at is not None and info.modified_at.microsecond == 123456
    assert (w.span(1.5), w.span(0), w.span(3600)) == ("1.5s", "0s", "3600s")
    for wrong in ({"size": []}, {"size": "x"}, {"modifiedAt": "then"}, {"path": "*"}):
        with pytest.raises(rekindle.ProtocolError):
            w.decode(_types.FileInfo, wrong)


def test_an_error_says_what_the_server_says() -> None:
    told = error_of(error("HOST_FULL", "0.250s"))
    assert isinstance(told, rekindle.CapacityError)
    assert (told.reason, told.retryable, told.retry_after, told.code) == ("HOST_FULL", True, 0.25, "resource_exhausted")
    assert str(told) == "HOST_FULL: no room\nhint: wait"
    assert isinstance(error_of(error("DEADLINE")), TimeoutError)
    assert type(error_of(error("SOMETHING_NEW"))) is rekindle.RekindleError
    for odd in (None, [], {}, {"details": 7}, {"details": [7, {"debug": 7}]}):
        assert isinstance(error_of(odd), rekindle.RekindleError)
    assert all(issubclass(kind, rekindle.RekindleError) for kind in REASONS.values())


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _config.address("unix:///a/b").socket == "/a/b"
    assert _config.address("https://h:1/").url == "https://h:1"
    assert _config.address("http://127.0.0.1:1").url == "http://127.0.0.1:1"
    monkeypatch.setenv("REKINDLE_SERVER", "unix:/env")
    assert _config.address(None).socket == "/env"
    monkeypatch.setenv("REKINDLE_TOKEN", "")
    assert _config.token(None) is None
    for wrong in ("unix:a", "h:1", "http://example.com", "ftp://h", "https://"):
        with pytest.raises(ValueError, match="use "):
            _config.address(wrong)


def answering(*answers: tuple[int, dict[str, Any]]) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        status, body = answers[min(len(seen), len(answers)) - 1]
        return httpx.Response(status, json=body)

    return httpx.MockTransport(answer), seen


def test_a_call_is_repeated_only_where_the_error_says_so() -> None:
    full = (429, error("HOST_FULL", "0.001s"))
    transport, seen = answering(full, full, (200, {"templates": [{"name": "a"}]}))
    with rekindle.Client("https://h", token="t", transport=transport) as client:
        assert [template.name for template in client.templates()] == ["a"]
    assert len(seen) == 3 and seen[0].headers["authorization"] == "Bearer t"
    for answer in [
        (429, error("QUOTA_EXCEEDED")),
        (429, error("HOST_FULL", "0.001s", retryable=False)),
        (503, {"code": "unavailable", "message": "x"}),
        (502, {}),
    ]:
        transport, seen = answering(answer)
        with rekindle.Client("https://h", transport=transport) as client, pytest.raises(rekindle.RekindleError):
            client.templates()
        assert len(seen) == 1, answer
    transport, seen = answering(full)
    with rekindle.Client("https://h", transport=transport) as client, pytest.raises(rekindle.CapacityError):
        client.templates()
    assert len(seen) == 4, "and not for ever"
    transport, seen = answering((429, error("HOST_FULL", "60s")))
    with rekindle.Client("https://h", transport=transport) as client, pytest.raises(rekindle.CapacityError):
        client.create(deadline=1.0)
    assert len(seen) == 1, "and not beyond its deadline"
    assert int(seen[0].headers["connect-timeout-ms"]) <= 1000


def test_calls_are_part_of_the_block_they_are_made_in(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = f"00-{trace}-00f067aa0ba902b7-01"
    monkeypatch.delenv("TRACEPARENT", raising=False)
    transport, seen = answering((200, {"id": "sb-1"}))

    def told() -> tuple[str | None, str | None]:
        return seen[-1].headers.get("traceparent"), seen[-1].headers.get("rekindle-step")

    with rekindle.Client("https://h", transport=transport) as client:
        client.templates()
        assert told() == (None, None)
        with rekindle.step("plan", trace=parent):
            client.templates()
            assert told() == (parent, "plan")
            with rekindle.step("act"):
                client.templates()
                assert told() == (parent, "act")
            client.templates()
            assert told() == (parent, "plan")
        with rekindle.step(trace=trace):
            client.templates()
            sent, name = told()
            assert sent is not None and sent.startswith(f"00-{trace}-") and name is None
        monkeypatch.setenv("TRACEPARENT", parent)
        client.templates()
        assert told() == (parent, None)
        monkeypatch.setenv("TRACEPARENT", "nonsense")
        client.templates()
        assert told() == (None, None)
    for wrong in ("", " ", "a\nb", "é", "x" * 65):
        with pytest.raises(ValueError, match="use "), rekindle.step(wrong):
            pass
    with pytest.raises(ValueError, match="use "), rekindle.step("plan", trace="x"):
        pass

    async def at_once() -> None:
        async def use(client: rekindle.AsyncClient, name: str) -> None:
            with rekindle.step(name):
                await asyncio.sleep(0)
                await client.sandbox(name).execute("true")

        async with rekindle.AsyncClient("https://h", transport=transport) as client:
            await asyncio.gather(*(use(client, name) for name in ("a", "b", "c")))

    asyncio.run(at_once())
    sandboxes = [(json.loads(request.content)["sandbox"], request.headers["rekindle-step"]) for request in seen[-3:]]
    assert all(sandbox == name for sandbox, name in sandboxes), "tasks do not mix"


def test_a_sandbox_is_made_once_and_ended_once() -> None:
    transport, seen = answering((200, {"id": "sb-1"}))
    client = rekindle.Client("https://h", transport=transport)
    sandbox = rekindle.Sandbox(client=client, metadata={"a": "b"})
    with pytest.raises(rekindle.RekindleError, match="not created yet"):
        sandbox.id  # noqa: B018
    with sandbox:
        assert sandbox.execute("fail 3", output_limit=0).exit_code is None
    sandbox.cleanup()
    with pytest.raises(rekindle.RekindleError, match="cleaned up"):
        sandbox.execute("true")
    asked = [(request.url.path.split(".")[-1], json.loads(request.content)) for request in seen]
    assert [path for path, _ in asked] == ["Sandboxes/Create", "Sandboxes/Execute", "Sandboxes/Destroy"]
    assert asked[0][1]["metadata"] == {"a": "b"} and len(asked[0][1]["requestId"]) == 32
    assert asked[1][1] == {"sandbox": "sb-1", "program": {"shell": "fail 3"}, "outputLimit": 0}
    with rekindle.Sandbox.connect("sb-2", client=client):
        pass
    assert len(seen) == 3, "what was not made here is not ended here"


def test_an_execution_has_a_clock_that_starts_at_a_moment() -> None:
    transport, seen = answering((200, {"id": "sb-1"}))
    berlin = dt.timezone(dt.timedelta(hours=1))
    with rekindle.Sandbox(client=rekindle.Client("https://h", transport=transport)) as sandbox:
        sandbox.execute("date", now=dt.datetime(2024, 1, 2, 4, 4, 5, 500, berlin), timezone="Europe/Berlin")
        with pytest.raises(ValueError, match="time zone"):
            sandbox.execute("date", now=dt.datetime(2024, 1, 2))
    asked = json.loads(seen[1].content)
    assert (asked["now"], asked["timezone"]) == ("2024-01-02T03:04:05.000500Z", "Europe/Berlin")
    assert len(seen) == 3, "what nobody can tell is not asked for"


def test_a_sandbox_that_nobody_used_is_never_made() -> None:
    transport, seen = answering((200, {"id": "sb-1"}))
    rekindle.Sandbox(client=rekindle.Client("https://h", transport=transport)).cleanup()
    assert seen == []


def test_many_tasks_make_one_sandbox() -> None:
    transport, seen = answering((200, {"id": "sb-1"}))

    async def use() -> None:
        async with rekindle.AsyncClient("https://h", transport=transport) as client:
            sandbox = rekindle.AsyncSandbox(client=client)
            await asyncio.gather(*(sandbox.execute("true") for _ in range(5)))

    asyncio.run(use())
    assert len(seen) == 6


def test_a_download_counts_only_when_it_is_whole() -> None:
    received = Received()
    received.take(w.decode(_types.DownloadPart, {"chunk": w.text64(b"abc")}))
    with pytest.raises(rekindle.ProtocolError, match="broke off"):
        received.file()
    with pytest.raises(rekindle.ProtocolError, match="differs"):
        received.take(w.decode(_types.DownloadPart, {"end": {"size": "3", "sha256": w.text64(b"x" * 32)}}))


@pytest.mark.parametrize("kept", [b"", b"the beginning"])
def test_output_that_was_not_kept_is_no_whole_output(kept: bytes) -> None:
    spill = {"spilledPath": w.text64(b"/spill"), "spilledBytes": str(len(kept))} if kept else {}
    stdout = {"text": "the [cut] end", "truncated": True, "totalBytes": "900", "totalChars": "900", **spill}
    whole = {"text": "x", "totalBytes": "1", "totalChars": "1"}
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("Execute"):
            return httpx.Response(200, json={"outcome": {"exitCode": 0}, "stdout": stdout, "stderr": whole})
        asked.append(request.read())
        file = {"size": str(len(kept)), "sha256": w.text64(hashlib.sha256(kept).digest()), "file": {}}
        return httpx.Response(200, stream=httpx.ByteStream(w.frame({"chunk": w.text64(kept)}) + w.frame({"end": file}) + end({})))

    with rekindle.Client("https://h", transport=httpx.MockTransport(answer)) as client:
        result = client.sandbox("sb-1").execute("true")
        assert result.full_stderr() == b"x"
        with pytest.raises(rekindle.OutputLostError, match="of 900 bytes of the output are lost") as lost:
            result.full_stdout()
        assert (lost.value.kept_bytes, lost.value.total_bytes) == (len(kept), 900) and not asked
        assert result.full_stdout(partial=True) == (kept or b"the [cut] end")
        assert len(asked) == bool(kept)
        stdout["spilledBytes"], stdout["totalBytes"] = str(len(kept)), str(len(kept))
        if kept:
            assert client.sandbox("sb-1").execute("true").full_stdout() == kept


@pytest.mark.parametrize("size", [0, 1, 2, 3, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_an_upload_is_as_long_as_it_says(size: int) -> None:
    sent: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.extend((len(request.read()), int(request.headers["content-length"])))
        assert "transfer-encoding" not in request.headers
        return httpx.Response(200, stream=httpx.ByteStream(w.frame({"size": str(size)}) + end({})))

    with rekindle.Client("https://h", transport=httpx.MockTransport(answer)) as client:
        assert client.sandbox("sb-1").write_file("p", b"x" * size).size == size
    assert sent[0] == sent[1]


def test_an_execution_tells_what_it_did_on_the_network() -> None:
    denial = {"reason": "not_allowed", "message": "no rule has it", "host": "evil.example", "port": 443, "rule": "tls *.org:443"}
    sums = {"connections": "3", "denied": "1", "failed": "1", "bytesUp": "5000000000", "bytesDown": "7", "denials": [denial]}
    finished = {"outcome": {"exitCode": 0}, "network": sums}
    transport, _ = answering((200, finished), (200, {"outcome": {"exitCode": 0}}))
    with rekindle.Client("https://h", transport=transport) as client:
        network = client.sandbox("sb-1").execute("fetch").network
        assert (network.connections, network.denied, network.failed) == (3, 1, 1)
        assert (network.bytes_up, network.bytes_down) == (5_000_000_000, 7)
        assert network.denials == [
            rekindle.NetworkDenial("not_allowed", "no rule has it", "evil.example", 443, "tls *.org:443")
        ]
        quiet = client.sandbox("sb-1").execute("true").network
        assert quiet == rekindle.ExecutionNetwork(0, 0, 0, 0, 0, []), "it did nothing there"


def test_a_sandbox_tells_how_it_was_started_and_what_it_used() -> None:
    stages = [{"name": "claim", "duration": "0.001s"}, {"name": "resume", "duration": "0.020s"}]
    start = {"kind": "SANDBOX_START_KIND_PARKED", "queued": "0.5s", "stages": stages, "total": "0.521s"}
    used = {
        "executions": "2", "connections": "9", "connectionsDenied": "4", "networkBytesUp": "10",
        "networkBytesDown": "5000000000", "networkRequests": "6", "gatewayRequests": "1", "gatewayCost": "3",
    }  # fmt: skip
    with sandbox_with(None, start=start, usage=used) as client:
        info = client.sandbox("sb-1").info()
    assert (info.start.kind, info.start.queued, info.start.total) == (rekindle.StartKind.PARKED, 0.5, 0.521)
    assert [(stage.name, stage.duration) for stage in info.start.stages] == [("claim", 0.001), ("resume", 0.02)]
    usage = info.usage
    assert (usage.connections, usage.connections_denied, usage.network_requests) == (9, 4, 6)
    assert (usage.network_bytes_up, usage.network_bytes_down) == (10, 5_000_000_000)
    assert (usage.executions, usage.gateway_requests, usage.gateway_cost) == (2, 1, 3)


def test_a_server_tells_what_holds_for_its_sandboxes() -> None:
    rules = {
        "ttl": "3600s", "maxTtl": "86400s", "executeTimeout": "60s", "maxExecuteTimeout": "600.5s", "outputLimit": 4000,
        "maxOutputLimit": 1000000, "maxUploadBytes": "5000000000", "maxDownloadBytes": "1",
    }  # fmt: skip
    template = {"name": "python-node", "packages": ["pip:numpy 2.4.6", "node v24.19.0"], "rootAllowed": True}
    networks = [{"name": "build", "rules": ["tls pypi.org:443"]}, {"name": "open", "everything": True}]
    transport, seen = answering((200, {"templates": [template, {"name": "minimal"}], "networks": networks, "rules": rules}))
    with rekindle.Client("https://h", transport=transport) as client:
        large, minimal = client.templates()
        assert (large.packages, large.root_allowed) == (["pip:numpy 2.4.6", "node v24.19.0"], True)
        assert (minimal.packages, minimal.root_allowed) == ([], False)
        build, everywhere = client.networks()
        assert (build.name, build.everything, build.rules) == ("build", False, ["tls pypi.org:443"])
        assert (everywhere.name, everywhere.everything, everywhere.rules) == ("open", True, [])
        told = client.rules()
        assert (told.ttl, told.max_ttl, told.idle_timeout) == (3600, 86400, None)
        assert (told.execute_timeout, told.max_execute_timeout) == (60, 600.5)
        assert (told.output_limit, told.max_output_limit) == (4000, 1_000_000)
        assert (told.max_upload_bytes, told.max_download_bytes) == (5_000_000_000, 1)
    assert {request.url.path for request in seen} == {"/rekindle.v1.Host/ListTemplates"}


def test_what_became_of_a_call_is_told() -> None:
    outcomes = [
        {"done": {}},
        {"execution": {"exitCode": 3}},
        {"error": "ERROR_REASON_NOT_FOUND"},
        {"error": "ERROR_REASON_NEW"},
        {"end": "SANDBOX_END_REASON_VM_LOST"},
        {"cancelled": {}},
    ]
    done, ran, failed, unknown, ended, cancelled = w.decode(
        _types.Timeline, {"entries": [{"call": "execute", "outcome": outcome} for outcome in outcomes]}
    ).entries
    assert done.outcome == rekindle.TimelineOutcome(True, None, None, None, False)
    assert ran.outcome.execution is not None and ran.outcome.execution.exit_code == 3 and not ran.outcome.done
    assert (failed.outcome.error, unknown.outcome.error) == ("NOT_FOUND", "NEW"), "as errors have it in `reason`"
    assert ended.outcome.end is rekindle.EndReason.VM_LOST
    assert cancelled.outcome == rekindle.TimelineOutcome(False, None, None, None, True)
    told = [{"running": {}}, {"outcome": {"signal": 9}}, {"error": "ERROR_REASON_VM_LOST"}]
    transport, _ = answering((200, {"executions": told}))
    with rekindle.Client("https://h", transport=transport) as client:
        runs, killed, lost = client.sandbox("sb-1").executions()
    assert (runs.running, runs.outcome, runs.error) == (True, None, None)
    assert killed.outcome is not None and (killed.outcome.signal, killed.error) == (9, None)
    assert (lost.running, lost.outcome, lost.error) == (False, None, "VM_LOST")


def sandbox_with(ports: dict[str, str] | None, **more: Any) -> rekindle.Client:
    told = {"id": "sb-1", **more, **({} if ports is None else {"ports": ports})}
    return rekindle.Client("https://h", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=told)))


def test_a_port_is_where_the_server_says() -> None:
    with sandbox_with({"url": "https://{port}-sb-1.box.test:3000", "token": "ci.00"}) as client:
        sandbox = client.sandbox("sb-1")
        port = sandbox.port(8000)
        assert (port.url, sandbox.get_host(8000)) == ("https://8000-sb-1.box.test:3000", "8000-sb-1.box.test:3000")
        named = {"E2b-Sandbox-Id": "sb-1", "E2b-Sandbox-Port": "8000", "E2b-Traffic-Access-Token": "ci.00"}
        assert port.headers == named
        assert "ci.00" not in f"{port} {sandbox.info()}", "a log is no place for a token"
        for wrong in (0, -1, 65536):
            with pytest.raises(ValueError, match="no port"):
                sandbox.port(wrong)
    with sandbox_with({"url": "http://127.0.0.1:3000", "token": "ci.00"}) as client:
        assert client.sandbox("sb-1").port(8000).url == "http://127.0.0.1:3000"
        with pytest.raises(rekindle.WrongStateError, match=r"hint: .*\[http\] domain"):
            client.sandbox("sb-1").get_host(8000)


@pytest.mark.parametrize(
    ("ports", "more", "hint"),
    [
        (None, {}, r"\[http\] listen"),
        ({"token": "ci.00"}, {}, r"\[http\] domain"),
        (None, {"end": {"reason": "SANDBOX_END_REASON_EXPIRED"}}, "create a new one"),
    ],
)
def test_a_port_that_nobody_reaches_is_an_error_that_helps(
    ports: dict[str, str] | None, more: dict[str, Any], hint: str
) -> None:
    with sandbox_with(ports, **more) as client, pytest.raises(rekindle.RekindleError, match=f"hint: .*{hint}"):
        client.sandbox("sb-1").port(8000)


def test_no_permissions_at_all_are_asked_for_too() -> None:
    made = [_calls.make_dir("sb-1", "/d", mode, False, "") for mode in (None, 0, 0o700)]
    assert [call.message.get("mode") for call in made] == [None, 0, 0o700]


def test_nobody_there_is_said(tmp_path: Path) -> None:
    with rekindle.Client(f"unix:{tmp_path}/none") as client, pytest.raises(rekindle.ConnectionFailedError):
        client.templates()


def test_the_client_with_threads_is_made_from_the_other() -> None:
    tool = Path(__file__).parent.parent / "tools/make_sync.py"
    subprocess.run([sys.executable, "-B", str(tool), "--check"], check=True)
