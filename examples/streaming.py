"""Output while a program runs, and input that answers it."""

import queue

from client import connect

client = connect()
sandbox = client.sandboxes.Create(client.new("CreateSandboxRequest")).id
try:
    words = queue.Queue()
    program = client.python("name = input('who are you? ')\nprint('hello', name)")
    request = client.new("ExecuteRequest", sandbox=sandbox, program=program)
    words.put(client.new("ExecuteInput", start=client.new("ExecuteStart", request=request, live_stdin=True)))
    said = ""
    for event in client.sandboxes.ExecuteStream(iter(words.get, None)):
        kind = event.WhichOneof("event")
        if kind == "started":
            print("started as process", event.started.pid)
        elif kind == "stdout":
            # Output comes in pieces as the program writes it: a line may be in several.
            *lines, said = (said + event.stdout.decode()).split("\n")
            for line in lines:
                print("it says:", line)
            if said.endswith("? "):
                print("it says:", said.strip())
                said = ""
                words.put(client.new("ExecuteInput", stdin=b"a program\n"))
                # Only a word ends the input: a stream that breaks off is never taken for its end.
                words.put(client.new("ExecuteInput", stdin_end=client.new("StdinEnd")))
        elif kind == "finished":
            print("it ended with", event.finished.outcome.exit_code)
            words.put(None)
finally:
    client.sandboxes.Destroy(client.new("DestroySandboxRequest", sandbox=sandbox))
