/**
 * What a program does that has the SDK and no more than `fetch`: the same on every runtime, against any server. Nothing is
 * imported but the SDK, so that a worker can run it too.
 */

import * as rekindle from "../dist/index.js";

function equal(told, wanted) {
  const [a, b] = [JSON.stringify(told), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

async function thrown(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

const text = (data) => new TextDecoder().decode(data);

/** Makes a sandbox, uses it and ends it; throws where anything is not as it should be. */
export async function smoke(options) {
  const client = new rekindle.Client(options);
  const sandbox = await client.create({ ttl: 900 });
  const { id } = sandbox;
  const events = client.watch(undefined, { sandbox: id, includeExisting: true });
  try {
    equal((await events.next()).value.kind, "existing");
    const ran = await sandbox.execute("echo out", { timeout: 240 });
    equal([ran.stdout, ran.exitCode, ran.ok, text(await ran.fullStdout())], ["out\n", 0, true, "out\n"]);
    equal([ran.network.connections, ran.network.denials], [0, []]);
    equal((await sandbox.execute(["cat"], { stdin: "wörds", timeout: 240 })).stdout, "wörds");

    const told = [];
    for await (const event of sandbox.stream("echo one", { timeout: 240 })) {
      if (event.stdout) told.push(text(event.stdout));
      if (event.finished) told.push(event.finished.exitCode);
    }
    equal(told, ["one\n", 0]);
    // Who stops listening hangs up.
    const running = sandbox.stream("sleep 60000", { timeout: 240 });
    equal((await running.next()).value.started !== undefined, true);
    await running.close();

    const content = new Uint8Array(700_001).map((_, at) => at * 7);
    await sandbox.uploadFile(new Blob([content]), "a/b.bin");
    await sandbox.uploadFile(new Blob([content]).stream(), "a/streamed");
    for (const name of ["a/b.bin", "a/streamed"]) {
      const back = await sandbox.readFile(name);
      equal([back.length, back.every((byte, at) => byte === content[at])], [content.length, true]);
    }
    equal((await sandbox.listFiles("a")).entries.map((entry) => entry.path).sort(), ["b.bin", "streamed"]);

    const execution = await sandbox.start(["cat"], { liveStdin: true });
    await execution.sendInput("x", { end: true });
    equal((await execution.wait({ deadline: 240 })).stdout, "x");

    const missing = await thrown(sandbox.readFile("nothing"));
    equal([missing instanceof rekindle.NotFoundError, missing.reason], [true, "NOT_FOUND"]);
    const late = await thrown(sandbox.execute("sleep 60000", { deadline: 0.5 }));
    equal([late instanceof rekindle.DeadlineError], [true]);
    const giveUp = new AbortController();
    const given = thrown(sandbox.execute("sleep 60000", { signal: giveUp.signal }));
    setTimeout(() => giveUp.abort(new Error("enough")), 100);
    equal((await given).message, "enough");

    const info = await sandbox.info();
    equal([info.id, info.state, info.start.total > 0], [id, "running", true]);
    equal((await client.rules()).maxTtl >= 900, true);
    const { entries } = await sandbox.timeline();
    equal(entries.find((entry) => entry.call === "execute").outcome.execution.exitCode, 0);
    const listed = [];
    for await (const one of client.sandboxes()) listed.push(one.id);
    equal(listed.includes(id), true);
  } finally {
    await sandbox.cleanup();
  }
  equal((await events.next()).value.kind, "ended");
  await events.close();
  equal((await thrown(client.sandbox(id).execute("true"))).name, "SandboxEndedError");
}
