//! Interpreters that were started before the snapshot: their clones' generators are their own, too.

use std::collections::BTreeSet;

use futures::future::join_all;
use rekindle::vm::{Identity, Vm, restore_clone};
use rekindle_e2e::guest::{output, python};

/// A Python and a Node process that draw random numbers before the machine is frozen and go on afterwards,
/// answering whoever connects. numpy takes part where the image has it.
const RECIPE: &str = r#"
description = "interpreters from before the snapshot"
image = "IMAGE"
memory_mib = 512
scratch_mib = 64

[[warmup]]
shell = """
cat > ~/draw.py <<'END'
import random, socket, tempfile, uuid
try:
    import numpy
    draw = lambda: numpy.random.random()
except ImportError:
    draw = random.random
random.random(), draw(), uuid.uuid4(), tempfile.mktemp()
door = socket.socket(socket.AF_UNIX)
door.bind('/home/user/python.sock')
door.listen()
while True:
    caller, _ = door.accept()
    caller.sendall(f'{random.random()} {draw()} {uuid.uuid4()} {tempfile.mktemp()}'.encode())
    caller.close()
END
cat > ~/draw.js <<'END'
const crypto = require('crypto');
const draw = () => [Math.random(), crypto.randomUUID(), crypto.randomBytes(8).toString('hex'), crypto.randomInt(2 ** 40)];
draw();
require('net').createServer((caller) => caller.end(draw().join(' '))).listen('/home/user/node.sock');
END
setsid python3 ~/draw.py </dev/null >/dev/null 2>&1 &
setsid node ~/draw.js </dev/null >/dev/null 2>&1 &
"""

[[warmup]]
shell = "until [ -S ~/python.sock ] && [ -S ~/node.sock ]; do sleep 0.2; done"
timeout_s = 300
"#;

/// Asks both, and draws from a fresh interpreter beside them.
const ASK: &str = "
import socket
for name in ('python', 'node'):
    line = socket.socket(socket.AF_UNIX)
    line.connect(f'/home/user/{name}.sock')
    print(line.makefile().read(), end=' ')
try:
    import numpy
    print(numpy.random.default_rng().random())
except ImportError:
    import random
    print(random.random())
";

const DRAWN: [&str; 9] = [
    "random of an old Python",
    "numpy of an old Python",
    "uuid4 of an old Python",
    "names of temporary files of an old Python",
    "Math.random of an old Node",
    "randomUUID of an old Node",
    "randomBytes of an old Node",
    "randomInt of an old Node",
    "numpy's default generator in a new Python",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interpreters_from_before_the_snapshot_share_no_randomness() {
    let lab = lab!();
    let _alone = lab.alone().await;
    let with_numpy = lab.source_of("prestarted", &RECIPE.replace("IMAGE", "python-node"));
    let source = match with_numpy {
        Ok(source) => source,
        Err(_) => lab.source_of("prestarted", &RECIPE.replace("IMAGE", "minimal")).expect("minimal is built"),
    };
    let built = source.build(&lab.host, &lab.store, &|_| {}).await.expect("the template is built");
    let plan = source.plan();
    let identity = Identity::default();
    let start = || restore_clone(&lab.host, &built.snapshot, &plan, &identity);
    let clones: Vec<Vm> = [start().await, start().await].map(|vm| vm.expect("a clone")).into();
    let drawn = join_all(clones.iter().map(|vm| output(vm, python(ASK)))).await;
    let drawn: Vec<Vec<&str>> = drawn.iter().map(|line| line.split(' ').collect()).collect();
    for (index, kind) in DRAWN.iter().enumerate() {
        let values: BTreeSet<&str> = drawn.iter().map(|line| line[index]).collect();
        assert_eq!(values.len(), clones.len(), "{kind}: {values:?}");
    }
    join_all(clones.into_iter().map(Vm::stop)).await;
}
