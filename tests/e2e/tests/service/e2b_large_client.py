"""A file of 256 MiB, there and back, as a program that knows only E2B moves it. Run by e2b.rs."""

import hashlib

from e2b import Sandbox

# An emulated guest on a busy host takes its time.
PATIENCE = 600
PIECE = 1 << 20
PIECES = 256

content = hashlib.sha256()
with open("large.bin", "wb") as file:
    for number in range(PIECES):
        # No two pieces are alike, and none is made of zeros.
        piece = hashlib.sha256(b"%d" % number).digest() * (PIECE // 32)
        file.write(piece)
        content.update(piece)

sandbox = Sandbox.create(timeout=PATIENCE, request_timeout=PATIENCE)
with open("large.bin", "rb") as file:
    sandbox.files.write("large.bin", file, request_timeout=PATIENCE)
assert sandbox.files.get_info("large.bin").size == PIECE * PIECES
inside = sandbox.commands.run("sha256sum large.bin", timeout=PATIENCE, request_timeout=PATIENCE).stdout
assert inside.split()[0] == content.hexdigest(), inside
back = hashlib.sha256()
for piece in sandbox.files.read("large.bin", format="stream", request_timeout=PATIENCE):
    back.update(piece)
assert back.digest() == content.digest()
sandbox.kill()
print("done")
