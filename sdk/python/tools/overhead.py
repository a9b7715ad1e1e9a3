"""What the SDK adds to a call: ``execute("true")`` beside the same request sent by hand, by turns in one run.

    REKINDLE_SERVER=unix:/PATH python sdk/python/tools/overhead.py [PAIRS]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from rekindle import Client, Result
from rekindle import _calls as calls


def took(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    with Client() as client, client.create(ttl=900) as sandbox:
        sent = calls.execute(Result, sandbox.id, "true", {})

        def by_hand() -> None:
            headers = {"content-type": "application/json"}
            client._http.post(sent.path, content=sent.body, headers=headers, timeout=60).raise_for_status()

        def by_sdk() -> None:
            assert sandbox.execute("true").ok

        for warm_up in (by_hand, by_sdk) * 5:
            warm_up()
        hand, sdk = [], []
        for turn in range(pairs):
            for call, times in ((by_hand, hand), (by_sdk, sdk))[:: 1 if turn % 2 else -1]:
                times.append(took(call))
        p50 = statistics.median(hand), statistics.median(sdk)
        print(f"by hand {p50[0] * 1e3:.1f} ms, SDK {p50[1] * 1e3:.1f} ms, ratio {p50[1] / p50[0]:.3f} (p50, {pairs} pairs)")


if __name__ == "__main__":
    main()
