"""What tests share: a server, where one is there, and its description.

Tests with a server need REKINDLE_SERVER, and REKINDLE_TOKEN where it asks for one. `cargo test -p rekindle --test http
sdk` starts one without virtual machines (REKINDLE_TEST_GUEST=fake) and runs them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from rekindle import Client


@pytest.fixture
def client() -> Iterator[Client]:
    if not os.environ.get("REKINDLE_SERVER"):
        pytest.skip("REKINDLE_SERVER is not set")
    with Client() as client:
        yield client


@pytest.fixture
def description(client: Client) -> dict[str, Any]:
    """Messages, enums and methods of the served description, by their full names."""
    answer = client._http.get("/rekindle.v1/descriptor")
    assert answer.status_code == 200
    told: dict[str, Any] = {"messages": {}, "enums": {}, "methods": {}}

    def take(package: str, scope: dict[str, Any]) -> None:
        for message in scope.get("messageType", []) + scope.get("nestedType", []):
            name = f"{package}.{message['name']}"
            told["messages"][name] = message
            take(name, message)
        for one in scope.get("enumType", []):
            told["enums"][f"{package}.{one['name']}"] = [value["name"] for value in one["value"]]

    for file in answer.json()["file"]:
        take(file["package"], file)
        for service in file.get("service", []):
            for method in service["method"]:
                told["methods"][f"{service['name']}/{method['name']}"] = method
    return told
