/** All of it against a real server, in whatever template is its default. */

import assert from "node:assert/strict";
import test from "node:test";

import * as rekindle from "../dist/index.js";
import { client, needsServer } from "./server.mjs";

// An emulated guest on a busy host takes its time.
const timeout = 240;
const text = (data) => new TextDecoder().decode(data);

/** A sandbox for one test. */
async function within(use, options = {}) {
  const sandbox = await client().create({ ttl: 900, ...options });
  try {
    return await use(sandbox);
  } finally {
    await sandbox.cleanup();
  }
}

/** Waits in the sandbox until a program is gone whose number is in a file. */
const GONE = "for i in $(seq 100); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.1; done; exit 1";

test("every end is a result", needsServer, () =>
  within(
    async (sandbox) => {
      const ran = await sandbox.execute("echo $WORD $MORE; pwd; echo no >&2; exit 3", { env: { MORE: "there" }, cwd: "/tmp", timeout });
      assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode, ran.ok], ["hello there\n/tmp\n", "no\n", 3, false]);
      assert.ok(ran.usage.wallTime > 0 && !ran.truncated && ran.spilledPath === "");
      assert.equal(text(await ran.fullStdout()), ran.stdout);
      assert.equal((await sandbox.execute(["cat"], { stdin: "words", timeout })).stdout, "words");
      assert.ok((await sandbox.shell("sleep 600", { timeout: 1 })).timedOut);
      assert.equal((await sandbox.shell("kill -11 $$", { timeout })).outcome.signal, 11);
      const long = await sandbox.shell("seq 1 100000", { timeout });
      assert.ok(long.truncated && long.stdout.length < 5000 && long.spilledPath !== "");
      assert.equal((await long.fullStdout()).length, 588_895);
      const missing = await sandbox.shell("no-such-program", { timeout });
      assert.deepEqual([missing.exitCode, missing.diagnosis?.subject], [127, "no-such-program"]);
      const info = await sandbox.info();
      assert.deepEqual([info.state, info.usage.executions, info.metadata], ["running", 6, { test: "ends" }]);
      assert.ok((await sandbox.timeline()).entries.some((entry) => entry.call === "execute"));
      const listed = [];
      for await (const one of client().sandboxes({ test: "ends" })) listed.push(one.id);
      assert.ok(listed.includes(sandbox.id));
    },
    { env: { WORD: "hello" }, metadata: { test: "ends" } },
  ));

test("errors have classes and reasons", needsServer, () =>
  within(async (sandbox) => {
    await assert.rejects(client().sandbox("sb-none").info(), (error) => {
      assert.ok(error instanceof rekindle.NotFoundError);
      return error.reason === "UNKNOWN_SANDBOX" && error.hint !== "";
    });
    await assert.rejects(client().create({ template: "nothing" }), { reason: "UNKNOWN_TEMPLATE" });
    await assert.rejects(sandbox.readFile("nothing"), { reason: "NOT_FOUND", name: "NotFoundError" });
    await assert.rejects(sandbox.execute("true", { timeout: 1e9 }), rekindle.InvalidRequestError);
    await assert.rejects(sandbox.execute("sleep 600", { timeout, deadline: 1 }), rekindle.DeadlineError);
    const { id } = sandbox;
    await sandbox.cleanup();
    await assert.rejects(client().sandbox(id).execute("true"), { name: "SandboxEndedError", endReason: "destroyed" });
  }));

test("a program is followed and dies with its reader", needsServer, () =>
  within(async (sandbox) => {
    const events = [];
    for await (const event of sandbox.stream("echo one; echo two >&2; exit 4", { timeout })) events.push(event);
    assert.ok(events[0].started.pid > 0);
    assert.equal(events.map((event) => (event.stdout ? text(event.stdout) : "")).join(""), "one\n");
    assert.equal(events.map((event) => (event.stderr ? text(event.stderr) : "")).join(""), "two\n");
    assert.equal(events.at(-1).finished.exitCode, 4);
    for await (const event of sandbox.stream("echo $$ > pid; echo ready; sleep 600", { timeout })) if (event.stdout) break;
    assert.ok((await sandbox.execute(GONE, { timeout })).ok, "it goes on without its reader");
    const giveUp = new AbortController();
    const running = sandbox.execute("echo $$ > other; sleep 600", { timeout, signal: giveUp.signal });
    running.catch(() => undefined);
    const wrote = "for i in $(seq 100); do test -s other && exit 0; sleep 0.1; done; exit 1";
    assert.ok((await sandbox.execute(wrote, { timeout })).ok, "it does not run");
    giveUp.abort(new Error("enough"));
    await assert.rejects(running, /enough/);
    assert.ok((await sandbox.execute(GONE.replace("pid", "other"), { timeout })).ok, "it goes on though nobody waits");
  }));

test("what is started goes on alone", needsServer, () =>
  within(async (sandbox) => {
    const reader = await sandbox.start("read line; echo got $line", { liveStdin: true });
    assert.ok((await sandbox.executions()).some((one) => one.execution === reader.name && one.running));
    await reader.sendInput("a word\n", { end: true });
    assert.equal((await reader.wait({ deadline: timeout })).stdout, "got a word\n");
    const told = [];
    for await (const event of sandbox.execution(reader.name).attach()) told.push(event.stdout ? text(event.stdout) : "");
    assert.equal(told.join(""), "got a word\n");
    const terminal = await sandbox.start("read x; stty size", { liveStdin: true, terminal: { rows: 24, columns: 80 } });
    await terminal.resize(30, 90);
    await terminal.sendInput("\n");
    assert.match((await terminal.wait({ deadline: timeout })).stdout, /30 90/);
    const sleeper = await sandbox.start(["sleep", "600"]);
    await sleeper.kill();
    assert.equal((await sleeper.wait({ deadline: timeout })).outcome.signal, 9);
  }));

test("files go there and back", needsServer, () =>
  within(async (sandbox) => {
    const content = new Uint8Array(1_000_003).map((_, at) => at * 7);
    const info = await sandbox.uploadFile(new Blob([content]), "data/in.bin", { mode: 0o640, metadata: { a: "b" } });
    assert.deepEqual([info.size, info.kind, info.mode & 0o777], [content.length, "file", 0o640]);
    assert.deepEqual(await sandbox.readFile("data/in.bin"), content);
    const pieces = [];
    for await (const piece of sandbox.downloadFile("data/in.bin")) pieces.push(piece);
    assert.equal(Buffer.compare(Buffer.concat(pieces), content), 0);
    await sandbox.uploadFile(new Blob([content]).stream(), "data/streamed");
    assert.equal((await sandbox.stat("data/streamed")).size, content.length);
    await assert.rejects(sandbox.uploadFile(new Blob([content, content, content]), "/proc/x/y"), { reason: "NOT_FOUND" });
    await sandbox.writeFile("täxt.txt", "wörds");
    assert.equal(await sandbox.readText("täxt.txt"), "wörds");
    await assert.rejects(sandbox.writeFile("täxt.txt", "x", { mustNotExist: true }), rekindle.AlreadyExistsError);
    await sandbox.writeFile("empty", "");
    assert.equal((await sandbox.readFile("empty")).length, 0);
    await sandbox.makeDir("d");
    await sandbox.move("täxt.txt", "d/b.txt");
    assert.deepEqual((await sandbox.listFiles("d")).entries.map((entry) => entry.path), ["b.txt"]);
    assert.equal((await sandbox.stat("d")).kind, "directory");
    await sandbox.shell("touch $(printf 'd/\\377')", { timeout });
    const odd = (await sandbox.listFiles("d")).entries.find((entry) => entry.path !== "b.txt");
    assert.equal(odd.path, "\udcff");
    await sandbox.remove(`d/${odd.path}`);
    const changes = sandbox.watch("d");
    assert.deepEqual((await changes.next()).value, []);
    await sandbox.remove("d/b.txt");
    const [change] = (await changes.next()).value;
    assert.deepEqual([change.path, change.kind], ["b.txt", "removed"]);
    await changes.close();
    await sandbox.remove("d", { recursive: true });
    await assert.rejects(sandbox.stat("d"), rekindle.NotFoundError);
  }));

test("code remembers", needsServer, () =>
  within(async (sandbox) => {
    const context = await sandbox.createContext("bash", { cwd: "/tmp" });
    assert.equal(context.language, "bash");
    await sandbox.runCode("x=20", { context, deadline: timeout });
    const told = [];
    const run = await sandbox.runCode("echo $((x + 22)); pwd", { context, deadline: timeout, onEvent: (event) => told.push(event) });
    assert.deepEqual([run.stdout, run.ok, run.executionCount], ["42\n/tmp\n", true, 2]);
    assert.ok(told[0].started && told.at(-1).end);
    assert.equal((await sandbox.runCode("exit 3", { context, deadline: timeout })).ok, false);
    assert.ok((await sandbox.contexts()).some((one) => one.id === context.id));
    await sandbox.restartContext(context);
    assert.equal((await sandbox.runCode("echo [$x]", { context, deadline: timeout })).stdout, "[]\n");
    await sandbox.removeContext(context);
    assert.ok(!(await sandbox.contexts()).some((one) => one.id === context.id));
  }));

test("its time, its network and its connections", needsServer, () =>
  within(async (sandbox) => {
    assert.equal((await sandbox.pause()).state, "paused");
    await assert.rejects(sandbox.execute("true"), { reason: "SANDBOX_PAUSED", name: "WrongStateError" });
    assert.equal((await sandbox.resume()).state, "running");
    const info = await sandbox.setTimeout({ ttl: 600, onTimeout: "pause" });
    assert.ok(info.expiresAt > new Date() && info.onTimeout === "pause");
    await sandbox.setNetwork("none");
    for await (const _ of sandbox.connections()) assert.fail("it has no network");
    assert.ok((await client().templates()).some((template) => template.isDefault));
  }));
