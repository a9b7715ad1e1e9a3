"""What the agent says to a standby copy: the one place where Python decodes it.

The format is written down in rootfs/interpreters/README.md.
"""

import os

# What a copy is to do.
PREPARE, GO, RUN = b"prepare", b"go", b"run"


class Request:
    """One request. `details` are there unless the copy runs as it was prepared."""

    def __init__(self, fields):
        self.order, self.source = fields[0], fields[3]
        self.details = Details(fields) if self.order != GO else None


class Details:
    """Where and as whom an execution runs."""

    def __init__(self, fields):
        self.terminal = fields[4] == b"1"
        self.stdio = fields[5:8]
        # User, group, and all groups.
        self.user = fields[8:11]
        self.cwd = fields[11]
        self.environment = fields[12:-1]


def receive(descriptor):
    """The next request; `None` when the agent is gone."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
        part = os.read(descriptor, 1 << 16)
        if not part:
            return None
        data += part
    return Request(data[4:].split(b"\0"))
