"""Everything that this package sends and reads is in the description that the server serves, with its type; and everything
in that is sent, but for what is listed here with a reason, and read."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
from collections import defaultdict
from typing import Any

import pytest

from rekindle import _async, _calls as c, _code, _errors, _sync, _types
from rekindle._wire import REASON, camel, declared

#: Methods that are not called, and why.
NOT_CALLED = {
    "Host/Status": "for operators: `rekindle status`",
    "Host/Usage": "for operators: `rekindle usage`",
}
_INPUT = "a program that takes input is one of `start`, which has its input, signals and terminal in calls of their own"
#: Fields of requests that are not sent, and why.
NOT_SENT = {
    "Code.plainInterpreter": "for measurements",
    "ListSandboxesRequest.pageSize": "pages are put together here",
    "ExecuteInput.stdin": _INPUT,
    "ExecuteInput.stdinEnd": _INPUT,
    "ExecuteInput.signal": _INPUT,
    "ExecuteInput.resize": _INPUT,
    "ExecuteStart.terminal": _INPUT,
    "ExecuteStart.liveStdin": _INPUT,
}

EVERYTHING = {
    "template": "t", "ttl": 1.5, "idle_timeout": 2, "env": {"A": "b"}, "metadata": {"a": "b"}, "milli_cpus": 1,
    "memory_bytes": 2, "pids": 3, "queue_timeout": 4, "network": "n", "request_id": "r",
    "on_timeout": "pause",
    "gateway": ["s/o"], "gateway_budget": 5,
    "max_turns": 6, "result_path": "p",
}  # fmt: skip
OPTIONS = {
    "stdin": b"x", "env": {"A": "b"}, "cwd": "/", "timeout": 1.5, "memory_bytes": 1 << 23, "output_limit": 0,
    "idempotency_key": "k", "user": "root", "now": dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc),
    "timezone": "Europe/Berlin",
}  # fmt: skip


def calls() -> list[c.Call[Any]]:
    """Every call with everything set that can be."""
    o: Any = OPTIONS
    e: Any = EVERYTHING
    return [
        c.create(e), c.get("s"), c.pause("s", True), c.resume("s"), c.destroy("s"), c.set_timeout("s", 1, 0, "pause_until_used"),
        c.set_network("s", "n"), c.timeline("s", "t"), c.sandboxes({"a": "b"}, True, "p"),
        c.watch_sandboxes({"a": "b"}, True, "s"), c.templates(),
        c.execute(_sync.Result, "s", ["true"], o), c.execute(_sync.Result, "s", c.Code("node", "1"), o),
        c.execute_stream(_sync.Event, "s", "true", o), c.start("s", "true", o, True, (24, 80)), c.executions("s"),
        c.attach(_async.AsyncEvent, "s", "e", True), c.wait(_async.AsyncResult, "s", "e"), c.signal("s", "e", 9, True),
        c.send_input("s", "e", b"x", True), c.resize("s", "e", 24, 80),
        c.upload_start("s", "p", 0, 0o600, True, True, {"a": "b"}, "root"), c.download("s", "p", 1, "root"),
        c.list_files("s", "p", 1, 2, "root"), c.stat("s", "p", "root"), c.remove("s", "p", True, "root"),
        c.make_dir("s", "p", 0o700, True, "root"), c.move("s", "a", "b", True, "root"),
        c.describe("s", ["p", "q"], 300, "load_data.py", 1.5, "root"), c.watch("s", "p", True, True, "root"), c.connections("s", True), c.run_code("s", "1", "js", None, {"A": "b"}),
        c.run_code("s", "1", None, "c", None), c.create_context("s", "typescript", "/"), c.contexts("s"),
        c.restart_context("s", "c"), c.remove_context("s", "c"),
    ]  # fmt: skip


def test_every_call_is_in_the_list_above(monkeypatch: pytest.MonkeyPatch) -> None:
    returns = {name: inspect.get_annotations(verb).get("return", "") for name, verb in inspect.getmembers(c, inspect.isfunction)}
    verbs = {name for name, kind in returns.items() if kind.startswith(("Call[", "Stream[")) and not name.startswith("_")}
    made: set[str] = set()

    def counted(name: str) -> Any:
        verb = getattr(c, name)
        return lambda *given: (made.add(name), verb(*given))[1]

    for name in verbs:
        monkeypatch.setattr(c, name, counted(name))
    calls()
    assert verbs == made and len(verbs) > 30


#: The fields of each message that were sent.
Sent = defaultdict[str, set[str]]


def fits(value: Any, field: dict[str, Any], told: dict[str, Any], where: str, sent: Sent) -> None:
    """Checks one value of a request against its field."""
    kind, name = field["type"], field.get("typeName", "").lstrip(".")
    if field["label"] == "LABEL_REPEATED" and isinstance(value, list):
        for one in value:
            fits(one, {**field, "label": ""}, told, where, sent)
    elif kind == "TYPE_MESSAGE" and name == "google.protobuf.Duration":
        assert isinstance(value, str) and value.endswith("s"), where
    elif kind == "TYPE_MESSAGE" and name == "google.protobuf.Timestamp":
        assert isinstance(value, str) and value.endswith("Z"), where
    elif kind == "TYPE_MESSAGE" and told["messages"][name].get("options", {}).get("mapEntry"):
        assert all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()), where
    elif kind == "TYPE_MESSAGE":
        message_fits(value, name, told, sent)
    elif kind == "TYPE_ENUM":
        assert value in told["enums"][name], where
    else:
        right = {"TYPE_STRING": str, "TYPE_BYTES": str, "TYPE_BOOL": bool, "TYPE_UINT32": int}
        assert isinstance(value, right.get(kind, (int, str))), f"{where} is {kind}"


def fields(name: str, told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields of a message by their names in JSON."""
    return {field["jsonName"]: field for field in told["messages"][name].get("field", [])}


def message_fits(value: dict[str, Any], name: str, told: dict[str, Any], sent: Sent) -> None:
    by_json = fields(name, told)
    sent[name].update(value)
    for key, one in value.items():
        assert key in by_json, f"{name} has no {key}"
        fits(one, by_json[key], told, f"{name}.{key}", sent)


def beyond(known: dict[str, set[str]], told: dict[str, Any]) -> set[str]:
    """The fields that these messages have besides the known ones."""
    names = {f"{name}.{field}" for name, own in known.items() for field in fields(name, told).keys() - own}
    return {name.removeprefix("rekindle.v1.") for name in names}


def test_every_request_is_one_that_the_server_knows(description: dict[str, Any]) -> None:
    sent: Sent = defaultdict(set)
    for call in calls():
        method = description["methods"][call.method]
        streams = method.get("clientStreaming", False) or method.get("serverStreaming", False)
        assert isinstance(call, c.Stream) == streams, call.method
        message_fits(call.message, method["inputType"].lstrip("."), description, sent)
    full = {camel(name) for name in EVERYTHING} - {"milliCpus", "memoryBytes", "pids"} | {"limits"}
    assert set(c.create(EVERYTHING).message) == full, "nothing that is asked for is left out"  # type: ignore[arg-type]
    for part in ({"chunk": "eA=="}, {"end": {}}):
        message_fits(part, "rekindle.v1.UploadFileRequest", description, sent)
    assert beyond(sent, description) == set(NOT_SENT)


def test_every_method_is_called(description: dict[str, Any]) -> None:
    assert set(description["methods"]) - {call.method for call in calls()} == set(NOT_CALLED)


def test_every_answer_is_read_as_the_server_has_it(description: dict[str, Any]) -> None:
    modules = (_types, _code)
    read = [cls for module in modules for _, cls in inspect.getmembers(module, dataclasses.is_dataclass)]
    # Put together here, of what a run tells.
    read.remove(_code.CodeRun)
    read += [_sync.Result, _sync.Event, _async.AsyncResult, _async.AsyncEvent]
    assert len(read) > 20
    known: dict[str, set[str]] = {}
    for cls in read:
        by_json = fields(cls.MESSAGE, description)
        known[cls.MESSAGE] = {camel(name) for _, name, _ in declared(cls)}
        for own, name, kind in declared(cls):
            where = f"{cls.__name__}.{own.name}"
            assert camel(name) in by_json, f"{where}: {cls.MESSAGE} has no {name}"
            field = by_json[camel(name)]
            assert field["name"] == name, where
            assert field["type"] == kind.proto, where
            assert (field["label"] == "LABEL_REPEATED") == kind.repeated, where
            if kind.type_name and kind.type_name != "*":
                assert field["typeName"] == f".{kind.type_name}", where
            if kind.type_name.startswith("rekindle.") and kind.proto == "TYPE_MESSAGE":
                # One that only says that it is there has nothing in it.
                known.setdefault(kind.type_name, set())
            if kind.proto == "TYPE_ENUM" and kind is not REASON:
                unset, *others = description["enums"][kind.type_name]
                values = {value.removeprefix(unset.removesuffix("UNSPECIFIED")) for value in others}
                wanted = str(own.type).split(" ")[0]
                python: type[enum.Enum] = next(getattr(one, wanted) for one in modules if hasattr(one, wanted))
                assert {value.value for value in python} == values, where
    assert beyond(known, description) == set(), "every field of an answer is read"


def test_every_answer_is_the_one_of_its_call(description: dict[str, Any]) -> None:
    for call in calls():
        output = description["methods"][call.method]["outputType"].lstrip(".")
        answer = call.read({})
        assert answer is None or type(answer).MESSAGE == output, call.method
        assert answer is not None or not description["messages"][output].get("field"), f"{call.method} says more"


def test_every_reason_has_its_exception(description: dict[str, Any]) -> None:
    known = description["enums"]["rekindle.v1.ErrorReason"]
    assert set(_errors.REASONS) == {name.removeprefix("ERROR_REASON_") for name in known[1:]}


def test_every_error_is_read_as_the_server_has_it(description: dict[str, Any]) -> None:
    known = {"rekindle.v1.ErrorDetail": {"reason", "retryable", "retryAfter", "hint", "end"}}
    assert beyond(known, description) == set()
