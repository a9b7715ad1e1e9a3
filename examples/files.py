"""A file goes in, is changed in the sandbox, moved, listed, and comes back."""

from client import connect

client = connect()
sandbox = client.sandboxes.Create(client.new("CreateSandboxRequest")).id
try:
    written = client.upload(sandbox, "notes/today.txt", b"bread\nmilk\n")
    print("uploaded", written.size, "bytes with SHA-256", written.sha256.hex()[:12])

    program = client.new("Program", shell="sort -r today.txt > sorted.txt && wc -l < sorted.txt")
    request = client.new("ExecuteRequest", sandbox=sandbox, program=program, cwd="notes")
    print("lines:", client.sandboxes.Execute(request).stdout.text.strip())

    client.files.MakeDir(client.new("MakeDirRequest", sandbox=sandbox, path=b"done"))
    move = client.new("MoveFileRequest", sandbox=sandbox, to=b"done/list.txt", must_not_exist=True)
    setattr(move, "from", b"notes/sorted.txt")  # `from` is a word of Python's own
    client.files.Move(move)
    listing = client.files.List(client.new("ListFilesRequest", sandbox=sandbox, path=b"done"))
    print("done has", [entry.path.decode() for entry in listing.entries])
    print("it reads", client.download(sandbox, "done/list.txt").decode().split())
finally:
    client.sandboxes.Destroy(client.new("DestroySandboxRequest", sandbox=sandbox))
