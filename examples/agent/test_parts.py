"""The agent's parts without a sandbox: the page, the models, the turns. Run by `cargo test -p rekindle --test http sdk`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import agent
import model
import report

IMAGES = {"a.svg": b"<svg/>", "best & rest.png": b"\x89PNG", "b.jpg": b"\xff\xd8", "t/s.PNG": b"png"}

WAYS = [
    ('<p>x</p><img src="a.svg">', ["a.svg"]),
    ("<img src='a.svg'/>after", ["a.svg"]),
    ("<img src=a.svg><p>", ["a.svg"]),
    ("<IMG\n alt='a > b'\n SRC = a.svg\n>\n<b>", ["a.svg"]),
    ('<img src="best &amp; rest.png">', ["best & rest.png"]),
    ("<img src='best & rest.png' alt=\"'\">", ["best & rest.png"]),
    ("<img src=&#97;.svg>", ["a.svg"]),
    ('<img src=" a.svg ">', ["a.svg"]),
    ('<img src="a.svg" src="b.jpg">', ["a.svg"]),
    ("é<img src=a.svg>\r\nü<img src=t/s.PNG><img src='a.svg'><img src=b.jpg>", ["a.svg", "t/s.PNG", "b.jpg"]),
    ('<image src="a.svg">', ["a.svg"]),
    ("<p>it is written src=\"a.svg\" and in <!-- <img src=a.svg> --> a comment</p><img src=b.jpg>", ["b.jpg"]),
]


@pytest.mark.parametrize(("body", "names"), WAYS)
def test_whatever_is_seen_as_an_image_is_in_the_page(body: str, names: list[str]) -> None:
    assert report.images(body) == names
    page = report.page("<t>", body, IMAGES.__getitem__)
    assert "<h1>&lt;t&gt;</h1>" in page
    inside = report.page("<t>", page, IMAGES.__getitem__)
    assert report.images(inside) == [], "nothing of it is outside"
    assert page.count(";base64,") == len(report._Images(body).found)
    for kept in ("é", "ü", "<p>", "<b>", "after", "a comment"):
        assert (kept in page) >= (kept in body), kept


def test_images_that_are_inside_already_stay() -> None:
    body = '<img src="DATA:image/png;base64,AAAA"><img alt="none">'
    assert report.images(body) == [] and body in report.page("t", body, IMAGES.__getitem__)


@contextmanager
def answering(answer: dict[str, Any], status: int = 200) -> Iterator[tuple[str, list[tuple[str, dict[str, str], Any]]]]:
    """A server on this machine that says one thing, and what it was asked."""
    asked: list[tuple[str, dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(body)))
            told = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_model_of_openais_kind_is_asked_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering({"choices": [{"message": {"role": "assistant", "content": "the plan"}}]}) as (url, asked):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1/")
        monkeypatch.setenv("OPENAI_API_KEY", "k-1")
        assert model.model("openai:m:large").complete("be brief", "why?") == "the plan"
    [(path, headers, body)] = asked
    assert (path, headers["authorization"]) == ("/v1/chat/completions", "Bearer k-1")
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}]
    assert body == {"model": "m:large", "messages": messages}


def test_a_model_of_anthropics_kind_is_asked_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "the "}, {"type": "text", "text": "plan"}]
    with answering({"content": parts}) as (url, asked):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k-2")
        assert model.model("anthropic:m").complete("be brief", "why?") == "the plan"
    [(path, headers, body)] = asked
    assert (path, headers["x-api-key"], headers["anthropic-version"]) == ("/v1/messages", "k-2", "2023-06-01")
    assert body.pop("max_tokens") > 1000
    assert body == {"model": "m", "system": "be brief", "messages": [{"role": "user", "content": "why?"}]}


def test_a_model_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering({"error": {"message": "no"}}, 401) as (url, _):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            model.model("anthropic:m").complete("s", "p")


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "openai:", "gpt", "scripted:/nowhere"])
def test_a_model_that_is_not_there_is_told_with_a_hint(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(SystemExit, match="hint: "):
        model.model(name)


class Counted:
    """A sandbox in which nothing works, and whose server counts turns."""

    def __init__(self, turns: int) -> None:
        self.left = turns

    def info(self) -> Any:
        return SimpleNamespace(turns=SimpleNamespace(left=self.left), result=SimpleNamespace(exists=False))

    def run_python(self, source: str, **_: Any) -> Any:
        self.left -= 1
        warning = "1 turn is left: write the result to body.html now" if self.left == 1 else ""
        return SimpleNamespace(ok=True, diagnosis=None, warning=warning)


class Told:
    """Says one thing for ever, and remembers what it was told."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.told: list[str] = []

    def complete(self, system: str, prompt: str) -> str:
        self.told.append(prompt)
        return self.answer


def test_the_server_counts_the_turns(capsys: pytest.CaptureFixture[str]) -> None:
    thinker = Told("```python\n1\n```")
    attempts = agent.work(thinker, Counted(3), "why?", [])  # type: ignore[arg-type]
    assert [one.problem for one in attempts] == ["it wrote no body.html"] * 3
    assert thinker.told[-2].endswith("2 turns are left.") and thinker.told[-1].endswith("body.html now")
    assert capsys.readouterr().out.count("turn ") == 3
    silent = agent.work(Told("I cannot."), Counted(3), "why?", [])  # type: ignore[arg-type]
    assert len(silent) == agent.MUTE + 1 and not any(one.result for one in silent)


def test_a_script_says_one_answer_after_the_other(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(["one", ["two", "lines"]]))
    scripted = model.model(f"scripted:{script}")
    assert [scripted.complete("", ""), scripted.complete("", "")] == ["one", "two\nlines"]
    with pytest.raises(RuntimeError, match="no more answers"):
        scripted.complete("", "")
