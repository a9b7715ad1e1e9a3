"""What Rekindle's own backend says of output that its sandbox did not keep; the standard tests know no such thing."""

import os

import pytest

pytestmark = pytest.mark.skipif(not os.environ.get("REKINDLE_SERVER"), reason="is of Rekindle's own backend")


def test_what_is_lost_of_an_output_is_said():
    from rekindle import Sandbox
    from rekindle.adapters.deepagents import RekindleSandbox

    with Sandbox(ttl=900) as sandbox:
        backend = RekindleSandbox(sandbox)
        flood = backend.execute("head -c 70000000 /dev/zero | tr '\\0' x")
        assert flood.truncated and flood.exit_code == 0 and len(flood.output) == 64 << 20
        whole = backend.execute("seq 1 100000")
        assert not whole.truncated and len(whole.output) == 588_895
