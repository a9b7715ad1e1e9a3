"""One sandbox, one program, and how it ended."""

from client import connect

client = connect()
sandbox = client.sandboxes.Create(client.new("CreateSandboxRequest"))
try:
    program = client.python("import sys; print(6 * 7); sys.exit(3)")
    done = client.sandboxes.Execute(client.new("ExecuteRequest", sandbox=sandbox.id, program=program))
    print("it printed", done.stdout.text.strip())
    # One of exit_code, signal, timed_out, out_of_memory and cancelled.
    print("it ended with", done.outcome.WhichOneof("outcome"), done.outcome.exit_code)
    print("it took", done.usage.wall_time.ToMilliseconds(), "ms")
finally:
    client.sandboxes.Destroy(client.new("DestroySandboxRequest", sandbox=sandbox.id))
