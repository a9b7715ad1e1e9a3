"""Agents of openai-agents whose tools work in a sandbox, through the framework's client for E2B or Rekindle's own; the
model says what it was told to say."""

import io
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from agents import RunConfig, Runner, set_tracing_disabled
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import Dir, File
from agents.sandbox.errors import (
    ExecTimeoutError,
    InvalidManifestPathError,
    PtySessionNotFoundError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session import BaseSandboxClient, BaseSandboxClientOptions, SandboxSession
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

ROOT = "/home/user/work"
OWN = bool(os.environ.get("REKINDLE_SERVER"))

set_tracing_disabled(True)


def client() -> BaseSandboxClient:
    if OWN:
        from rekindle.adapters.openai_agents import RekindleSandboxClient

        return RekindleSandboxClient()
    from agents.extensions.sandbox.e2b import E2BSandboxClient

    return E2BSandboxClient()


def options(kind: str = "e2b", **given) -> BaseSandboxClientOptions:
    if OWN:
        from rekindle.adapters.openai_agents import RekindleSandboxClientOptions

        return RekindleSandboxClientOptions(**given)
    from agents.extensions.sandbox.e2b import E2BSandboxClientOptions

    return E2BSandboxClientOptions(sandbox_type=kind, **given)


@pytest.fixture(scope="module")
async def session() -> AsyncIterator[SandboxSession]:
    deep = Dir(children={"deep": Dir(children={"it": File(content=b"\0")})})
    entries = {"given.txt": File(content=b"given\n"), "in": deep}
    manifest = Manifest(root=ROOT, entries=entries, environment={"value": {"GREETING": "hi"}})
    given = {} if OWN else {"exposed_ports": (8000,)}
    session = await client().create(manifest=manifest, options=options(metadata={"for": "tests"}, **given))
    async with session:
        yield session


@pytest.mark.parametrize("kind", ["e2b", "e2b_code_interpreter"])
async def test_an_agent_works_with_the_tools_of_its_sandbox(kind: str):
    patch = "*** Begin Patch\n*** Update File: given.txt\n@@\n-given\n+taken\n*** End Patch\n"
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "echo 1 > one; cat given.txt; nothing-like-it"}, call_id="1")],
            [ResponseCustomToolCall(type="custom_tool_call", name="apply_patch", input=patch, call_id="2")],
            [function_call("exec_command", {"cmd": "cat one given.txt; pwd"}, call_id="3")],
            [assistant_message("done")],
        ]
    )
    # Its root is the framework's own, which only root could make.
    manifest = Manifest(entries={"given.txt": File(content=b"given\n")})
    assert manifest.root == "/workspace"
    agent = SandboxAgent(name="Coder", model=model, default_manifest=manifest)
    config = RunConfig(sandbox=SandboxRunConfig(client=client(), options=options(kind)))
    result = await Runner.run(agent, "Take it.", run_config=config)
    assert result.final_output == "done"
    told = [item["output"] for item in result.to_input_list() if item.get("type", "").endswith("call_output")]
    assert "given\n" in told[0] and "exited with code 127" in told[0] and "nothing-like-it" in told[0], told
    assert "1\ntaken\n/workspace" in told[2] and "exited with code 0" in told[2], told


async def test_commands_and_files(session: SandboxSession):
    ended = await session.exec("printf out; echo $GREETING $PWD >&2; exit 3")
    assert (ended.stdout, ended.stderr, ended.exit_code) == (b"out", f"hi {ROOT}\n".encode(), 3)
    assert (await session.exec("id -un", user="root")).stdout == b"root\n"
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 30", timeout=1)

    content = bytes(range(256)) * 1000
    await session.write(Path("file"), io.BytesIO(content))
    # Of output the framework's client for E2B takes only what is text.
    assert (await session.exec("cat file")).stdout == (content if OWN else content.decode(errors="replace").encode())
    assert (await session.read(Path("file"))).read() == content
    assert await session.read_bounded(Path("file"), max_bytes=1000) == content[:1000]
    assert (await session.read(Path("in/deep/it"))).read() == b"\0"
    await session.mkdir("new/one", parents=True)
    assert [Path(entry.path).name for entry in await session.ls("new")] == ["one"]
    await session.rm("new", recursive=True)
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("none"))
    await session.exec("ln -s /etc out")
    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("out/passwd"))
    await session.exec("rm out")


async def test_a_program_goes_on_between_calls(session: SandboxSession):
    begun = await session.pty_exec_start("read line; echo got $line; sleep 300", tty=True, yield_time_s=0.3)
    assert begun.process_id is not None and begun.exit_code is None
    output, waited = begun.output, 0
    update = await session.pty_write_stdin(session_id=begun.process_id, chars="it\n", yield_time_s=2)
    while b"got it" not in (output := output + update.output):
        assert (waited := waited + 1) < 20, output
        update = await session.pty_write_stdin(session_id=begun.process_id, chars="", yield_time_s=5)
    # With E2B it is typed into a shell, which goes on.
    for last in ["\x03"] if OWN else ["\x03", "exit 5\n"]:
        update = await session.pty_write_stdin(session_id=begun.process_id, chars=last, yield_time_s=10)
    assert update.process_id is None and update.exit_code not in (None, 0), update
    with pytest.raises(PtySessionNotFoundError):
        await session.pty_write_stdin(session_id=begun.process_id, chars="")
    ended = await session.pty_exec_start("echo now; exit 4", yield_time_s=20)
    assert (ended.process_id, ended.output, ended.exit_code) == (None, b"now\n", 4)


async def test_a_workspace_is_kept_and_a_session_resumed(session: SandboxSession):
    await session.write(Path("kept"), io.BytesIO(b"kept"))
    archive = await session.persist_workspace()
    await session.exec("rm kept")
    await session.hydrate_workspace(archive)
    assert (await session.read(Path("kept"))).read() == b"kept"

    payload = json.loads(json.dumps(client().serialize_session_state(session.state)))
    again = await client().resume(client().deserialize_session_state(payload))
    await again.start()
    assert (await again.read(Path("kept"))).read() == b"kept"
    assert await again.running()


async def test_a_session_that_is_paused_goes_on_in_a_later_run():
    first = await client().create(manifest=Manifest(root=ROOT), options=options(pause_on_exit=True))
    async with first:
        await first.exec("sleep 300 & echo $! > /tmp/pid")
    payload = json.loads(json.dumps(client().serialize_session_state(first.state)))
    (payload["options"] if OWN else payload)["pause_on_exit"] = False
    later = await client().resume(client().deserialize_session_state(payload))
    async with later:
        assert (await later.exec("kill -0 $(cat /tmp/pid)")).ok(), "its program was not kept"


@pytest.mark.skipif(OWN, reason="ports of a sandbox that is not E2B's want a header, which the framework has no place for")
async def test_a_port_is_reached_by_its_name(session: SandboxSession):
    await session.exec("nohup python3 -m http.server 8000 > /dev/null 2>&1 &")
    endpoint = await session.resolve_exposed_port(8000)
    assert endpoint.tls and endpoint.port == 443, endpoint
    url = endpoint.url_for("http")
    for _ in range(100):
        answer = httpx.get(f"{url}given.txt", timeout=60)
        if answer.status_code != 502:
            break
        await session.exec("sleep 0.2")
    assert (answer.status_code, answer.text) == (200, "given\n"), answer
