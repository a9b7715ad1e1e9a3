"""What an agent of agno has in hand with its tools for E2B: code that remembers, charts, files, commands, ports."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agno.agent import Agent
from agno.tools.e2b import E2BTools


@pytest.fixture
def tools() -> Iterator[E2BTools]:
    tools = E2BTools(timeout=600)
    yield tools
    tools.shutdown_sandbox()


def test_code_remembers_and_its_errors_are_told(tools: E2BTools):
    assert "Error" not in tools.run_python_code("x = 40")
    assert json.loads(tools.run_python_code("x += 2\nx"))[-1] == "Result 1: 42"
    assert "said" in tools.run_python_code("print('said')")
    assert tools.run_python_code("1 / 0").startswith("Error: ZeroDivisionError")


def test_a_chart_is_an_image(tools: E2BTools, tmp_path: Path):
    told = tools.run_python_code("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.show()")
    assert "Result 1" in told, told
    picture = tmp_path / "chart.png"
    assert tools.download_png_result(Agent(), output_path=str(picture)).images
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_files_go_in_and_out(tools: E2BTools, tmp_path: Path):
    local = tmp_path / "given.txt"
    local.write_text("row\n" * 50_000)
    assert tools.upload_file(str(local), "below/given.txt") == "/home/user/below/given.txt"
    assert tools.read_file_content("below/given.txt") == local.read_text()
    assert tools.write_file_content("note.txt", "grüße") == "/home/user/note.txt"
    assert tools.read_file_content("note.txt") == "grüße"
    assert "note.txt (File, 7 bytes)" in tools.list_files("/home/user")
    assert json.loads(tools.read_file_content("nowhere"))["status"] == "error"


def test_commands_run_in_front_and_behind(tools: E2BTools):
    assert json.loads(tools.run_command("echo out; echo err >&2")) == ["STDOUT:\nout\n", "STDERR:\nerr\n"]
    assert json.loads(tools.stream_command("echo one; echo two"))[0].startswith("STDOUT: one")
    assert "exit" in json.loads(tools.run_command("exit 3"))["message"]
    sleeping = tools.run_background_command("sleep 1000")
    assert tools.kill_background_command(sleeping) == "Background command terminated successfully."


def test_a_server_has_an_address_and_the_sandbox_another_timeout(tools: E2BTools):
    address = tools.run_server("python3 -m http.server 8000", 8000)
    assert address == tools.get_public_url(8000) and address.startswith("http://8000-")
    assert tools.set_sandbox_timeout(900) == "900"
