"""Agents of openai-agents whose tools work in a sandbox; the model says what it was told to say."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agents import RunConfig, Runner, set_tracing_disabled
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecTimeoutError,
    InvalidManifestPathError,
    PtySessionNotFoundError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session import SandboxSession
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall
from rekindle.adapters.openai_agents import RekindleSandboxClient, RekindleSandboxClientOptions

ROOT = "/home/user/work"

set_tracing_disabled(True)


@pytest.fixture(scope="module")
async def session() -> AsyncIterator[SandboxSession]:
    client, options = RekindleSandboxClient(), RekindleSandboxClientOptions(metadata={"for": "tests"})
    manifest = Manifest(root=ROOT, entries={"given.txt": File(content=b"given\n")}, environment={"value": {"GREETING": "hi"}})
    session = await client.create(manifest=manifest, options=options)
    async with session:
        yield session


async def test_an_agent_works_with_the_tools_of_its_sandbox():
    client = RekindleSandboxClient()
    patch = "*** Begin Patch\n*** Update File: given.txt\n@@\n-given\n+taken\n*** End Patch\n"
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "echo 1 > one; cat given.txt; nothing-like-it"}, call_id="1")],
            [ResponseCustomToolCall(type="custom_tool_call", name="apply_patch", input=patch, call_id="2")],
            [function_call("exec_command", {"cmd": "cat one given.txt; pwd"}, call_id="3")],
            [assistant_message("done")],
        ]
    )
    manifest = Manifest(root=ROOT, entries={"given.txt": File(content=b"given\n")})
    agent = SandboxAgent(name="Coder", model=model, default_manifest=manifest)
    config = RunConfig(sandbox=SandboxRunConfig(client=client))
    result = await Runner.run(agent, "Take it.", run_config=config)
    assert result.final_output == "done"
    told = [item["output"] for item in result.to_input_list() if item.get("type", "").endswith("call_output")]
    assert "given\n" in told[0] and "exited with code 127" in told[0] and "nothing-like-it" in told[0], told
    assert f"1\ntaken\n{ROOT}" in told[2] and "exited with code 0" in told[2], told


async def test_commands_and_files(session: SandboxSession):
    ended = await session.exec("printf out; echo $GREETING $PWD >&2; exit 3")
    assert (ended.stdout, ended.stderr, ended.exit_code) == (b"out", f"hi {ROOT}\n".encode(), 3)
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 30", timeout=1)

    content = bytes(range(256)) * 1000
    await session.write(Path("file"), io.BytesIO(content))
    assert (await session.exec("cat file")).stdout == content
    assert (await session.read(Path("file"))).read() == content
    assert await session.read_bounded(Path("file"), max_bytes=1000) == content[:1000]
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("none"))
    await session.exec("ln -s /etc out")
    with pytest.raises(InvalidManifestPathError):
        await session.read(Path("out/passwd"))
    await session.exec("rm out")


async def test_a_program_goes_on_between_calls(session: SandboxSession):
    begun = await session.pty_exec_start("read line; echo got $line; sleep 300", tty=True, yield_time_s=0.3)
    assert begun.process_id is not None and begun.exit_code is None
    update = await session.pty_write_stdin(session_id=begun.process_id, chars="it\n", yield_time_s=2)
    assert b"got it" in begun.output + update.output, update
    update = await session.pty_write_stdin(session_id=begun.process_id, chars="\x03", yield_time_s=10)
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

    client = RekindleSandboxClient()
    payload = json.loads(json.dumps(client.serialize_session_state(session.state)))
    again = await client.resume(client.deserialize_session_state(payload))
    await again.start()
    assert (await again.read(Path("kept"))).read() == b"kept"
    assert await again.running()
