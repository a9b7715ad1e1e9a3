"""Makes ``_sync.py`` from ``_async.py``: the same without ``await``. Run after every change of the latter; a test
compares. ``--check`` only says whether it is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "src/rekindle"
HEAD = '"""The client for programs with threads. Made from ``_async.py`` by ``tools/make_sync.py``: change that one."""\n'

WORDS = [
    (r'\A""".*?"""\n', HEAD),
    (r"AsyncGenerator\[(.+), None\]", r"Generator[\1, None, None]"),
    (r"import asyncio\n", ""),
    (r"import time\n", "import threading\nimport time\n"),
    (r"import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping", "import Callable, Generator, Iterable, Iterator, Mapping"),
    (r"``async with``", "``with``"),
    (r"asyncio\.Lock", "threading.Lock"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\ba(close|closing|read|iter_raw)\b", r"\1"),
    (r"\bAsync(?=[A-Z])", ""),
]


def made() -> str:
    text = (FOLDER / "_async.py").read_text()
    for pattern, instead in WORDS:
        text = re.sub(pattern, instead, text, flags=re.DOTALL if pattern.startswith(r"\A") else 0)
    return text


def main() -> int:
    target = FOLDER / "_sync.py"
    if "--check" in sys.argv[1:]:
        if target.read_text() != made():
            print(f"{target} is out of date; run {__file__}")
            return 1
        return 0
    target.write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
