"""Calls that may be repeated: one sandbox and one run, however often they are made."""

import time
import uuid

import grpc
from client import connect


def patiently(call, request, tries=5):
    """Makes a call again while the server says that it may succeed later, or cannot be reached."""
    for attempt in range(tries):
        try:
            return call(request, timeout=60)
        except grpc.RpcError as error:
            # RESOURCE_EXHAUSTED: no room, or a quota. UNAVAILABLE: the server or the way to it. Nothing else changes
            # by being asked again; the ErrorDetail in the trailers says why, and how long to wait.
            again = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
            if error.code() not in again or attempt + 1 == tries:
                raise
            time.sleep(2**attempt / 10)


client = connect()
create = client.new("CreateSandboxRequest", request_id=str(uuid.uuid4()))
sandbox = patiently(client.sandboxes.Create, create).id
try:
    print("the same sandbox:", patiently(client.sandboxes.Create, create).id == sandbox)

    program = client.new("Program", shell="echo once >> log; wc -l < log")
    run = client.new("ExecuteRequest", sandbox=sandbox, program=program, idempotency_key="step-1")
    for _ in range(3):
        done = patiently(client.sandboxes.Execute, run)
        print("lines in the log:", done.stdout.text.strip(), "- an earlier answer" if done.replayed else "- it ran")
    try:
        missing = client.new("ExecuteRequest", sandbox="none", program=program)
        patiently(client.sandboxes.Execute, missing)
    except grpc.RpcError as error:
        print("not repeated:", error.code().name)
finally:
    client.sandboxes.Destroy(client.new("DestroySandboxRequest", sandbox=sandbox))
