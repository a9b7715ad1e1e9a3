"""What ``describe`` costs beside ``wc -c`` and a parse of the same file by ``orjson`` or ``ijson``, in one run.

    python sdk/python/tools/describe_cost.py [MEGABYTES] [lines|array] [--plain]

The program is run as the sandbox would, within 512 MiB of memory; ``--plain`` hides ``orjson`` from it. Processor time
is compared, so that a busy machine does not decide. Needs ``orjson`` or ``ijson`` for the other side.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SERVICE = Path(__file__).parents[3] / "supervisor/src/service"
MEMORY = 512 << 20

PARSE = """
import sys
path = sys.argv[1]
try:
    import orjson
except ImportError:
    import ijson
    with open(path, "rb") as file:
        for _ in ijson.items(file, "item" if path.endswith("json") else "", multiple_values=True): pass
else:
    with open(path, "rb") as file:
        if path.endswith("json"):
            orjson.loads(file.read())
        else:
            for line in file: orjson.loads(line)
"""


def program() -> str:
    """The program as the service puts it together."""
    names = re.findall(r'include_str!\("(describe/program/\w+\.py)"\)', (SERVICE / "describe.rs").read_text())
    return "".join((SERVICE / name).read_text() for name in names)


def record(number: int) -> str:
    dice = random.random()
    return json.dumps({
        "id": number, "name": f"customer {number}", "city": random.choice(["Rome", "Oslo", "Köln"]), "price": dice,
        "active": number % 3 == 0, "note": None if number % 5 else f"a longer text, {number}",
        "tags": ["a", "b", "c"][: number % 4], "when": f"2024-{number % 12 + 1:02}-{number % 28 + 1:02}",
        "at": {"lat": dice * 90, "lon": dice * 180},
    })  # fmt: skip


def generate(path: str, size: int, lines: bool) -> None:
    border, written, number = "\n" if lines else ",\n", 0, 0
    with open(path, "w") as file:
        file.write("" if lines else "[")
        while written < size:
            written += file.write((border if number else "") + border.join(map(record, range(number, number + 1000))))
            number += 1000
        file.write("" if lines else "]")


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def cost(words: list[str], stdin: bytes = b"", before: Callable[[], None] | None = None) -> tuple[float, float, bytes]:
    """Seconds of processor and of the clock."""
    was, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.run(words, input=stdin, stdout=subprocess.PIPE, preexec_fn=before, check=True)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime - was.ru_utime + now.ru_stime - was.ru_stime, time.monotonic() - began, run.stdout


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()]
    lines, source = "lines" in sys.argv, program()
    if "--plain" in sys.argv:
        source = source.replace("    import orjson\n", "    raise ImportError\n", 1)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "data.jsonl" if lines else "data.json")
        generate(path, (sizes[0] if sizes else 200) * 1_000_000, lines)
        request = {"paths": [base64.b64encode(path.encode()).decode()], "max_chars": 4000, "seconds": 3600}
        count, count_clock, _ = cost(["wc", "-c", path])
        parse, parse_clock, _ = cost([sys.executable, "-c", PARSE, path])
        told, told_clock, out = cost([sys.executable, "-c", source], json.dumps(request).encode(), bounded)
    answer = json.loads(out)
    about = answer["structure"]["files"][0]
    assert not about.get("partial") and not about.get("error"), answer["text"]
    print(
        f"{about['bytes'] / 1e6:.0f} MB of {about['format']}, {about['records']:,} records: wc and parse {count + parse:.2f} s, "
        f"describe {told:.2f} s, ratio {told / (count + parse):.2f} (processor; clock {count_clock + parse_clock:.1f} and "
        f"{told_clock:.1f} s), text of {len(answer['text'])} characters"
    )


if __name__ == "__main__":
    main()
