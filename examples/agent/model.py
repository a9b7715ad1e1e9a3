"""Who thinks: any endpoint that is compatible with OpenAI's or Anthropic's, or a script for tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Protocol

import httpx

PATIENCE = 300


class Model(Protocol):
    def complete(self, system: str, prompt: str) -> str: ...


class Scripted:
    """Says what a file says, one answer after the other."""

    def __init__(self, path: str) -> None:
        self._answers = iter(json.loads(Path(path).read_text()))

    def complete(self, system: str, prompt: str) -> str:
        answer = next(self._answers, None)
        if answer is None:
            raise RuntimeError("the script has no more answers")
        return "\n".join(answer) if isinstance(answer, list) else str(answer)


class OpenAI:
    """An endpoint that is compatible with OpenAI's: OPENAI_BASE_URL, OPENAI_API_KEY."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/")
        self._key = os.environ["OPENAI_API_KEY"]

    def complete(self, system: str, prompt: str) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        headers = {"Authorization": f"Bearer {self._key}"}
        body = {"model": self._name, "messages": messages}
        answer = httpx.post(f"{self._url}/chat/completions", json=body, headers=headers, timeout=PATIENCE)
        return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])


class Anthropic:
    """An endpoint that is compatible with Anthropic's: ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._url = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com").rstrip("/")
        self._key = os.environ["ANTHROPIC_API_KEY"]

    def complete(self, system: str, prompt: str) -> str:
        headers = {"x-api-key": self._key, "anthropic-version": "2023-06-01"}
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self._name, "max_tokens": 8192, "system": system, "messages": messages}
        answer = httpx.post(f"{self._url}/v1/messages", json=body, headers=headers, timeout=PATIENCE)
        return "".join(part.get("text", "") for part in answer.raise_for_status().json()["content"])


def model(name: str) -> Model:
    """``scripted:FILE``, ``openai:MODEL`` or ``anthropic:MODEL``."""
    kind, _, rest = name.partition(":")
    kinds = {"scripted": Scripted, "openai": OpenAI, "anthropic": Anthropic}
    if kind not in kinds or not rest:
        raise SystemExit(f"error: {name!r} is no model\nhint: scripted:FILE, openai:MODEL or anthropic:MODEL")
    try:
        return kinds[kind](rest)
    except KeyError as missing:
        raise SystemExit(f"error: the variable {missing} is not set\nhint: export it, or use another model") from None
    except OSError as error:
        raise SystemExit(f"error: {error}\nhint: name a file with answers") from None
