"""The published package `mcp` as a client of `rekindle mcp`, over standard input and over HTTP.

Environment: REKINDLE, the program; REKINDLE_SERVER and REKINDLE_TOKEN, which it uses; REKINDLE_MCP_URL, where one listens;
REKINDLE_TEST_GUEST=fake where programs are not real.
"""

import base64
import os

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

REAL = os.environ.get("REKINDLE_TEST_GUEST") != "fake"
# The smallest PNG there is: one pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def text(result, error=False):
    assert bool(result.is_error) == error, result
    return result.content[0].text


async def use(client, name):
    listed = await client.list_tools()
    tools = {tool.name: tool for tool in listed.tools}
    assert set(tools) == {"sandbox_create", "sandbox_run", "sandbox_read", "sandbox_write", "sandbox_end"}, tools
    assert "Every run is a new process" in tools["sandbox_run"].description
    assert "There is no network" in tools["sandbox_run"].description

    made = text(await client.call_tool("sandbox_create", {}))
    sandbox = made.split()[1]

    async def call(tool, error=False, **arguments):
        return text(await client.call_tool(tool, {"sandbox": sandbox, **arguments}), error)

    said = await call("sandbox_run", code="echo hello")
    assert said.startswith("exit 0 | ") and said.endswith("stdout:\nhello"), said
    await call("sandbox_write", path="dir/note.txt", content="kept\n")
    said = await call("sandbox_run", code="cat dir/note.txt")
    assert said.endswith("stdout:\nkept"), said
    said = await call("sandbox_read", path="dir/note.txt")
    assert said == "dir/note.txt | text | bytes 0 to 5 of 5 | complete\nkept\n", said
    await call("sandbox_write", path="dot.png", content=base64.b64encode(PNG).decode(), encoding="base64")
    image = await client.call_tool("sandbox_read", {"sandbox": sandbox, "path": "dot.png"})
    assert image.content[1].type == "image" and base64.b64decode(image.content[1].data) == PNG, image
    said = await call("sandbox_read", path="missing", error=True)
    assert said.startswith("refused: NOT_FOUND: "), said
    if REAL:
        await real(call, tools["sandbox_run"].description)
    said = await call("sandbox_end")
    assert "has ended" in said, said
    said = await call("sandbox_run", code="true", error=True)
    assert said.startswith("refused: SANDBOX_ENDED: "), said
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError as error:
        assert error.error.code == -32602, error
    else:
        raise AssertionError("there is no such tool")
    # One that is left behind: over standard input it ends with the session, over HTTP its caller ends it.
    made = text(await client.call_tool("sandbox_create", {}))
    if name == "http":
        await client.call_tool("sandbox_end", {"sandbox": made.split()[1]})
    print(f"{name}: whole")


async def real(call, description):
    """What needs programs that are real."""
    said = await call("sandbox_run", language="python", code="x = 1\nprint(x + 1)")
    assert said.endswith("stdout:\n2"), said
    said = await call("sandbox_run", language="python", code="print(x)")
    assert said.startswith("exit 1 | ") and "uncaught_exception" in said.splitlines()[0], said
    said = await call("sandbox_run", language="node", code="console.log([1, 2].map(n => n * 2).join())")
    assert said.endswith("stdout:\n2,4"), said
    said = await call("sandbox_run", language="python", code="import no_such_module")
    assert 'hint: missing_module "no_such_module"' in said.splitlines()[0], said
    said = await call("sandbox_run", code="seq 1 20000")
    header = said.splitlines()[0]
    assert "truncated: stdout (" in header, header
    spilled = header.split("all of it: ")[1].split(")")[0]
    page = await call("sandbox_read", path=spilled, offset=0, limit=6)
    assert page.endswith("\n1\n2\n3\n"), page
    # What the description says is installed is.
    said = await call("sandbox_run", language="python", code="import platform; print(platform.python_version())")
    assert f"Python {said.splitlines()[-1]} with" in description, (said, description)


async def main():
    env = {name: os.environ[name] for name in ("REKINDLE_SERVER", "REKINDLE_TOKEN") if name in os.environ}
    parameters = StdioServerParameters(command=os.environ["REKINDLE"], args=["mcp"], env=env)
    async with Client(stdio_client(parameters)) as client:
        await use(client, "stdio")
    # As clients did before sessions were left out of the protocol.
    async with Client(stdio_client(parameters), mode="legacy") as client:
        await use(client, "legacy")
    headers = {"Authorization": f"Bearer {os.environ['REKINDLE_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
        async with Client(streamable_http_client(os.environ["REKINDLE_MCP_URL"], http_client=http)) as client:
            await use(client, "http")
    print("done")


anyio.run(main)
