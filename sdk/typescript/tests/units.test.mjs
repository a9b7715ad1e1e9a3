/** What needs no server: frames, times, errors, addresses, retries. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import * as calls from "../dist/calls.js";
import * as code from "../dist/code.js";
import { address, token } from "../dist/config.js";
import { REASONS, errorOf } from "../dist/errors.js";
import * as rekindle from "../dist/index.js";
import { downloadPath, socketClient, uploadPath } from "../dist/node.js";
import { Sha256 } from "../dist/sha256.js";
import * as t from "../dist/types.js";
import * as w from "../dist/wire.js";

const { Client, RekindleError, ProtocolError } = rekindle;

function error(reason, delay, retryable = true) {
  const details = [
    { type: "rekindle.v1.ErrorDetail", value: "", debug: { reason: `ERROR_REASON_${reason}`, retryable, hint: "wait" } },
    { type: "google.rpc.ErrorInfo", value: "", debug: { reason, domain: "rekindle" } },
  ];
  if (delay) details.push({ type: "google.rpc.RetryInfo", value: "", debug: { retryDelay: delay } });
  return { code: "resource_exhausted", message: "no room", details };
}

function end(value) {
  const framed = w.frame(value);
  framed[0] = 2;
  return framed;
}

test("there is one version", async () => {
  const about = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(about.version, rekindle.VERSION);
  assert.equal(Object.keys(about.dependencies ?? {}).length, 0);
});

test("nothing that index.js reaches is of one runtime", async () => {
  const dist = new URL("../dist/", import.meta.url);
  const reached = new Set(["./index.js"]);
  for (const file of reached) {
    const text = await readFile(new URL(file, dist), "utf8");
    assert.doesNotMatch(text, /\b(?:import|require)\(/, `${file} imports as it runs`);
    for (const [, name] of text.matchAll(/^(?:import|export)\b(?:.* from)? ?["']([^"']+)["'];$/gm)) {
      assert.match(name, /^\.\/[a-z0-9]+\.js$/, `${file} imports ${name}`);
      reached.add(name);
    }
  }
  assert.ok(reached.size > 10 && !reached.has("./node.js"), [...reached].join());
});

test("frames come in any pieces", () => {
  const body = w.joined([w.frame({ a: 1 }), w.frame({ b: "é".repeat(40_000) }), end({})]);
  for (const step of [1, 3, 1000, body.length]) {
    const frames = new w.Frames();
    const told = [];
    for (let at = 0; at < body.length; at += step) told.push(...frames.feed(body.subarray(at, at + step)));
    frames.end();
    assert.deepEqual(told, [{ a: 1 }, { b: "é".repeat(40_000) }]);
  }
});

test("a stream that breaks off is an error", () => {
  const body = w.joined([w.frame({ a: 1 }), end({})]);
  for (let cut = 0; cut < body.length; cut += 1) {
    const frames = new w.Frames();
    frames.feed(body.subarray(0, cut));
    assert.throws(() => frames.end(), ProtocolError);
  }
  const failed = new w.Frames();
  failed.feed(end({ error: error("VM_LOST") }));
  assert.throws(() => failed.check(), rekindle.SandboxEndedError);
  for (const wrong of [[1, 0, 0, 0, 0], [0, 255, 255, 255, 255], [0, 0, 0, 0, 1, 120], [0, 0, 0, 0, 2, 91, 93]]) {
    assert.throws(() => new w.Frames().feed(Uint8Array.from(wrong)), ProtocolError);
  }
  assert.throws(() => new w.Frames().feed(w.joined([end({}), w.frame({})])), ProtocolError, "nothing follows the end");
});

test("times, paths and numbers", () => {
  const info = w.decode(t.fileInfo, {
    path: w.base64(Uint8Array.of(0x61, 0xff, 0xc3, 0xa9, 0xc3)),
    size: "5000000000",
    modifiedAt: "2026-01-02T03:04:05.123456789Z",
    kind: "FILE_KIND_NEW",
    unknown: 7,
  });
  assert.deepEqual([info.path, info.size, info.kind], ["a\udcffé\udcc3", 5_000_000_000, undefined]);
  assert.equal(w.path64(info.path), w.base64(Uint8Array.of(0x61, 0xff, 0xc3, 0xa9, 0xc3)), "it goes back as it came");
  assert.equal(info.modifiedAt.getMilliseconds(), 123);
  assert.deepEqual([1.5, 0, 3600, 1e-9].map(w.span), ["1.5s", "0s", "3600s", "0.000000001s"]);
  assert.throws(() => w.span(Number.NaN), RangeError);
  for (const wrong of [{ size: [] }, { size: "x" }, { size: 1.5 }, { modifiedAt: "then" }, { path: "*" }, { metadata: { a: 1 } }]) {
    assert.throws(() => w.decode(t.fileInfo, wrong), ProtocolError, JSON.stringify(wrong));
  }
  assert.equal(w.decode(t.started, JSON.parse('{"__proto__": {"pid": 7}}')).pid, 0, "nothing is inherited");
  assert.equal(w.decode(t.sandboxInfo, { onTimeout: "ON_TIMEOUT_PAUSE_UNTIL_USED" }).onTimeout, "pause_until_used");
});

test("bytes go through base64 and SHA-256", () => {
  for (const size of [0, 1, 55, 56, 63, 64, 65, 119, 0x6000, 0x6001, 300_000]) {
    const data = new Uint8Array(size).map((_, at) => at * 31);
    assert.equal(w.base64(data), Buffer.from(data).toString("base64"));
    assert.deepEqual(w.unbase64(w.base64(data)), data);
    for (const step of [1000, 7]) {
      const sum = new Sha256();
      for (let at = 0; at < size; at += step) sum.update(data.subarray(at, at + step));
      assert.equal(Buffer.from(sum.digest()).toString("hex"), createHash("sha256").update(data).digest("hex"), `${size}`);
    }
  }
});

test("an error says what the server says", () => {
  const told = errorOf(error("HOST_FULL", "0.250s"));
  assert.ok(told instanceof rekindle.CapacityError && told instanceof RekindleError && told instanceof Error);
  assert.deepEqual([told.reason, told.retryable, told.retryAfter, told.code], ["HOST_FULL", true, 0.25, "resource_exhausted"]);
  assert.equal(String(told), "HOST_FULL: no room\nhint: wait");
  assert.equal(told.name, "CapacityError");
  assert.equal(errorOf(error("SOMETHING_NEW")).constructor, RekindleError);
  for (const odd of [null, [], {}, { details: 7 }, { details: [7, { debug: 7 }] }]) assert.ok(errorOf(odd) instanceof RekindleError);
  assert.ok(REASONS.size > 20);
});

test("addresses", () => {
  assert.equal(address("https://h:1/", false), "https://h:1");
  for (const own of ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"]) assert.equal(address(own, false), own);
  for (const wrong of ["unix:/a", "h:1", "http://example.com", "http://127.0.0.1.example.com", "ftp://h", "https://"]) {
    assert.throws(() => address(wrong, false), /use /, wrong);
  }
  assert.equal(address("unix:/a", true), "http://localhost");
  const kept = { server: process.env.REKINDLE_SERVER, token: process.env.REKINDLE_TOKEN };
  try {
    process.env.REKINDLE_SERVER = "https://env";
    process.env.REKINDLE_TOKEN = "";
    assert.equal(address(undefined, false), "https://env");
    assert.equal(token(undefined), undefined);
    delete process.env.REKINDLE_SERVER;
    assert.throws(() => address(undefined, false), /REKINDLE_SERVER/);
  } finally {
    if (kept.server !== undefined) process.env.REKINDLE_SERVER = kept.server;
    if (kept.token !== undefined) process.env.REKINDLE_TOKEN = kept.token;
    else delete process.env.REKINDLE_TOKEN;
  }
});

test("a run is whole and bounded", () => {
  const told = (value) => w.decode(code.codeEvent, value);
  const collected = new code.Collected();
  collected.take(told({ started: { context: { id: "c", language: "CODE_LANGUAGE_BASH" } } }));
  assert.throws(() => collected.run(), ProtocolError);
  for (let n = 0; n < 3; n += 1) collected.take(told({ stdout: "x".repeat(code.MAX_STREAM / 2) }));
  collected.take(told({ result: { isMain: true, text: "t", data: "[".repeat(100_000), json: "[1]" } }));
  collected.take(told({ end: { executionCount: "7", duration: "1.5s", turnsLeft: 3, warning: "write it" } }));
  const run = collected.run();
  assert.deepEqual([run.turnsLeft, run.warning], [3, "write it"]);
  assert.deepEqual([run.stdout.length, run.truncated, run.executionCount, run.text], [code.MAX_STREAM, true, 7, "t"]);
  assert.deepEqual([run.main.data, run.main.json, run.context.language, run.ok], [undefined, [1], "bash", true]);
});

/** A client whose server gives these answers, the last of them for ever. */
function answering(...answers) {
  const seen = [];
  const fetch = async (url, init) => {
    seen.push({ path: url.split(".v1.")[1], headers: init.headers, message: JSON.parse(new TextDecoder().decode(init.body)) });
    const [status, body] = answers[Math.min(seen.length, answers.length) - 1];
    return new Response(JSON.stringify(body), { status });
  };
  return { client: new Client({ server: "https://h", token: "t", fetch }), seen };
}

test("calls of a step say so", async () => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const parent = `00-${trace}-00f067aa0ba902b7-01`;
  const { client, seen } = answering([200, {}]);
  const told = async (sandbox) => {
    await sandbox.execute("true");
    const { headers } = seen.at(-1);
    return [headers["traceparent"], headers["rekindle-step"], headers["authorization"]];
  };
  const sandbox = client.sandbox("sb-1");
  assert.deepEqual(await told(sandbox), [undefined, undefined, "Bearer t"]);
  const plan = sandbox.step("plan", { trace: parent });
  assert.deepEqual(await told(plan), [parent, "plan", "Bearer t"]);
  assert.deepEqual(await told(plan.step("act")), [parent, "act", "Bearer t"]);
  assert.deepEqual(await told(sandbox), [undefined, undefined, "Bearer t"], "and no other");
  const [sent] = await told(sandbox.step("plan", { trace }));
  assert.match(sent, new RegExp(`^00-${trace}-[0-9a-f]{16}-01$`));
  for (const wrong of ["", " ", "a\nb", "é", "x".repeat(65)]) assert.throws(() => client.step(wrong), TypeError);
  assert.throws(() => client.step("plan", { trace: "x" }), TypeError);
  await client.timeline(trace);
  assert.deepEqual(seen.at(-1).message, { trace });
});

test("a call is repeated only where the error says so", async () => {
  const full = [429, error("HOST_FULL", "0.001s")];
  const good = answering(full, full, [200, { templates: [{ name: "a" }] }]);
  assert.deepEqual((await good.client.templates()).map((one) => one.name), ["a"]);
  assert.equal(good.seen.length, 3);
  assert.equal(good.seen[0].headers.authorization, "Bearer t");
  for (const answer of [
    [429, error("QUOTA_EXCEEDED")],
    [429, error("HOST_FULL", "0.001s", false)],
    [503, { code: "unavailable", message: "x" }],
    [502, {}],
  ]) {
    const { client, seen } = answering(answer);
    await assert.rejects(client.templates(), RekindleError);
    assert.equal(seen.length, 1);
  }
  const always = answering(full);
  await assert.rejects(always.client.templates(), rekindle.CapacityError);
  assert.equal(always.seen.length, 4, "and not for ever");
  const slow = answering([429, error("HOST_FULL", "60s")]);
  await assert.rejects(slow.client.create({ deadline: 1 }), rekindle.CapacityError);
  assert.equal(slow.seen.length, 1, "and not beyond its deadline");
  assert.ok(Number(slow.seen[0].headers["connect-timeout-ms"]) <= 1000);
  const given = AbortSignal.timeout(50);
  await assert.rejects(answering([429, error("HOST_FULL", "20s")]).client.templates({ signal: given }), { name: "TimeoutError" });
});

test("an execution has a clock that starts at a moment", async () => {
  const { client, seen } = answering([200, { id: "sb-1" }]);
  const sandbox = await client.create();
  await sandbox.execute("date", { now: new Date("2024-01-02T04:04:05.5+01:00"), timezone: "Europe/Berlin" });
  const { now, timezone } = seen[1].message;
  assert.deepEqual([now, timezone], ["2024-01-02T03:04:05.500Z", "Europe/Berlin"]);
});

test("a sandbox is made once and ended once", async () => {
  const { client, seen } = answering([200, { id: "sb-1" }]);
  const sandbox = await client.create({ metadata: { a: "b" } });
  assert.equal((await sandbox.execute("fail 3", { outputLimit: 0, timeout: undefined })).exitCode, undefined);
  await sandbox[Symbol.asyncDispose]();
  await sandbox.cleanup();
  await assert.rejects(sandbox.execute("true"), /cleaned up/);
  await assert.rejects(sandbox.stat("x"), /cleaned up/);
  assert.deepEqual(seen.map((one) => one.path), ["Sandboxes/Create", "Sandboxes/Execute", "Sandboxes/Destroy"]);
  assert.deepEqual(seen[0].message.metadata, { a: "b" });
  assert.match(seen[0].message.requestId, /^[0-9a-f]{32}$/);
  assert.deepEqual(seen[1].message, { sandbox: "sb-1", program: { shell: "fail 3" }, outputLimit: 0 });
  await client.sandbox("sb-2")[Symbol.asyncDispose]();
  assert.equal(seen.length, 3, "what was not made here is not ended here");
});

test("an execution tells what it did on the network", async () => {
  const denial = { reason: "not_allowed", message: "no rule has it", host: "evil.example", port: 443, rule: "tls *.org:443" };
  const network = { connections: "3", denied: "1", failed: "1", bytesUp: "5000000000", bytesDown: "7", denials: [denial] };
  const { client } = answering([200, { outcome: { exitCode: 0 }, network }], [200, { outcome: { exitCode: 0 } }]);
  const sandbox = client.sandbox("sb-1");
  assert.deepEqual((await sandbox.execute("fetch")).network, {
    connections: 3, denied: 1, failed: 1, bytesUp: 5_000_000_000, bytesDown: 7, denials: [denial],
  });
  const nothing = { connections: 0, denied: 0, failed: 0, bytesUp: 0, bytesDown: 0, denials: [] };
  assert.deepEqual((await sandbox.execute("true")).network, nothing, "it did nothing there");
});

test("a sandbox tells how it was started and what it used", async () => {
  const stages = [{ name: "claim", duration: "0.001s" }, { name: "resume", duration: "0.020s" }];
  const start = { kind: "SANDBOX_START_KIND_PARKED", queued: "0.5s", stages, total: "0.521s" };
  const used = {
    executions: "2", connections: "9", connectionsDenied: "4", networkBytesUp: "10", networkBytesDown: "5000000000",
    networkRequests: "6", gatewayRequests: "1", gatewayCost: "3",
  };
  const info = await answering([200, { id: "sb-1", start, usage: used }]).client.sandbox("sb-1").info();
  const read = [{ name: "claim", duration: 0.001 }, { name: "resume", duration: 0.02 }];
  assert.deepEqual(info.start, { kind: "parked", queued: 0.5, stages: read, total: 0.521 });
  for (const [name, value] of Object.entries(used)) assert.equal(info.usage[name], Number(value), name);
});

test("a server tells what holds for its sandboxes", async () => {
  const rules = {
    ttl: "3600s", maxTtl: "86400s", executeTimeout: "60s", maxExecuteTimeout: "600.5s", outputLimit: 4000,
    maxOutputLimit: 1_000_000, maxUploadBytes: "5000000000", maxDownloadBytes: "1",
  };
  const packages = ["pip:numpy 2.4.6", "node v24.19.0"];
  const templates = [{ name: "python-node", packages, rootAllowed: true }, { name: "minimal" }];
  const networks = [{ name: "build", rules: ["tls pypi.org:443"] }, { name: "open", everything: true }];
  const { client, seen } = answering([200, { templates, networks, rules }]);
  const [large, minimal] = await client.templates();
  assert.deepEqual([large.packages, large.rootAllowed, minimal.packages, minimal.rootAllowed], [packages, true, [], false]);
  assert.deepEqual(await client.networks(), [
    { name: "build", everything: false, rules: ["tls pypi.org:443"] },
    { name: "open", everything: true, rules: [] },
  ]);
  assert.deepEqual(await client.rules(), {
    ttl: 3600, maxTtl: 86_400, idleTimeout: undefined, executeTimeout: 60, maxExecuteTimeout: 600.5, outputLimit: 4000,
    maxOutputLimit: 1_000_000, maxUploadBytes: 5_000_000_000, maxDownloadBytes: 1,
  });
  assert.deepEqual(new Set(seen.map((one) => one.path)), new Set(["Host/ListTemplates"]));
});

test("what became of a call is told", async () => {
  const outcomes = [
    { done: {} },
    { execution: { exitCode: 3 } },
    { error: "ERROR_REASON_NOT_FOUND" },
    { error: "ERROR_REASON_NEW" },
    { end: "SANDBOX_END_REASON_VM_LOST" },
    { cancelled: {} },
  ];
  const { entries } = w.decode(t.timeline, { entries: outcomes.map((outcome) => ({ call: "execute", outcome })) });
  const told = entries.map(({ outcome }) => [outcome.done, outcome.execution?.exitCode, outcome.error, outcome.end, outcome.cancelled]);
  assert.deepEqual(told, [
    [true, undefined, undefined, undefined, false],
    [false, 3, undefined, undefined, false],
    [false, undefined, "NOT_FOUND", undefined, false],
    [false, undefined, "NEW", undefined, false],
    [false, undefined, undefined, "vm_lost", false],
    [false, undefined, undefined, undefined, true],
  ]);
  const executions = [{ running: {} }, { outcome: { signal: 9 } }, { error: "ERROR_REASON_VM_LOST" }];
  const states = await answering([200, { executions }]).client.sandbox("sb-1").executions();
  assert.deepEqual(
    states.map(({ running, outcome, error }) => [running, outcome?.signal, error]),
    [[true, undefined, undefined], [false, 9, undefined], [false, undefined, "VM_LOST"]],
  );
});

test("a download counts only when it is whole", () => {
  const part = (value) => w.decode(t.downloadPart, value);
  const received = new calls.Received();
  received.take(part({ chunk: w.base64(w.utf8("abc")) }));
  assert.throws(() => received.file(), /broke off/);
  assert.throws(() => received.take(part({ end: { size: "3", sha256: w.base64(new Uint8Array(32)) } })), /differs/);
});

test("output that was not kept is no whole output", async () => {
  for (const kept of ["", "the beginning"]) {
    const spill = kept ? { spilledPath: w.base64(w.utf8("/spill")), spilledBytes: String(kept.length) } : {};
    const stdout = { text: "the [cut] end", truncated: true, totalBytes: "900", totalChars: "900", ...spill };
    const answer = (request, response) => {
      if (request.url.endsWith("Execute")) response.end(JSON.stringify({ outcome: { exitCode: 0 }, stdout, stderr: { text: "x" } }));
      else {
        const sha256 = w.base64(new Uint8Array(createHash("sha256").update(kept).digest()));
        const ended = { end: { size: String(kept.length), sha256, file: {} } };
        response.end(w.joined([w.frame({ chunk: w.base64(w.utf8(kept)) }), w.frame(ended), end({})]));
      }
    };
    await serving(answer, async (client) => {
      const result = await client.sandbox("sb-1").execute("true");
      const told = async (output) => new TextDecoder().decode(await output);
      assert.equal(await told(result.fullStderr()), "x");
      await assert.rejects(result.fullStdout(), (lost) => {
        assert.deepEqual([lost.keptBytes, lost.totalBytes, lost.name], [kept.length, 900, "OutputLostError"]);
        return lost instanceof rekindle.OutputLostError && /lost/.test(lost.message);
      });
      assert.equal(await told(result.fullStdout({ partial: true })), kept || "the [cut] end");
      stdout.totalBytes = String(kept.length);
      if (kept) assert.equal(await told((await client.sandbox("sb-1").execute("true")).fullStdout()), kept);
    });
  }
});

/** A server that does what it is told, for as long as `use` takes. */
async function serving(answer, use) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(new Client({ server: `http://127.0.0.1:${server.address().port}`, token: "t" }));
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test("an upload is all frames, whether buffered or streamed", async () => {
  for (const size of [0, 1, calls.CHUNK, 3 * calls.CHUNK + 7]) {
    const bodies = [];
    const answer = async (request, response) => {
      const pieces = [];
      for await (const piece of request) pieces.push(piece);
      bodies.push(Buffer.concat(pieces));
      response.end(w.joined([w.frame({ size: String(size) }), end({})]));
    };
    await serving(answer, async (client) => {
      const data = new Uint8Array(size).fill(120);
      assert.equal((await client.sandbox("sb-1").writeFile("p", data)).size, size);
      assert.equal((await client.sandbox("sb-1").uploadFile(new Blob([data]), "p")).size, size);
    });
    for (const body of bodies) {
      const sent = [];
      for (let at = 0; at < body.length; at += 5 + body.readUInt32BE(at + 1)) {
        sent.push(JSON.parse(body.subarray(at + 5, at + 5 + body.readUInt32BE(at + 1))));
      }
      assert.deepEqual(sent.shift(), { start: { sandbox: "sb-1", path: "cA==", size: String(size) } });
      assert.deepEqual(sent.pop(), { end: {} });
      assert.equal(sent.reduce((sum, one) => sum + w.unbase64(one.chunk).length, 0), size);
    }
  }
});

test("files of this machine go there and back by their paths", async () => {
  const content = new Uint8Array(2 * calls.CHUNK + 7).map((_, at) => at * 7);
  const sha256 = w.base64(new Uint8Array(createHash("sha256").update(content).digest()));
  let sent;
  let ends = true;
  const answer = async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    if (request.url.endsWith("Upload")) {
      sent = new w.Frames().feed(Buffer.concat(pieces));
      return response.end(w.joined([w.frame({ size: String(content.length) }), end({})]));
    }
    const part = w.frame({ chunk: w.base64(content) });
    const whole = [part, w.frame({ end: { size: String(content.length), sha256, file: {} } }), end({})];
    response.end(w.joined(ends ? whole : [part]));
  };
  const dir = await mkdtemp(join(tmpdir(), "rekindle-"));
  try {
    await writeFile(join(dir, "in"), content);
    await serving(answer, async (client) => {
      const sandbox = client.sandbox("sb-1");
      const info = await uploadPath(sandbox, join(dir, "in"), "p", { mode: 0o640 });
      assert.equal(info.size, content.length);
      assert.deepEqual(sent.shift(), { start: { sandbox: "sb-1", path: "cA==", mode: 0o640 } });
      assert.deepEqual(sent.pop(), { end: {} });
      assert.deepEqual(w.joined(sent.map((one) => w.unbase64(one.chunk))), content);
      await assert.rejects(uploadPath(sandbox, join(dir, "nothing"), "p"), { code: "ENOENT" });
      await downloadPath(sandbox, "p", join(dir, "out"));
      ends = false;
      await assert.rejects(downloadPath(sandbox, "p", join(dir, "out")), ProtocolError);
    });
    assert.deepEqual(new Uint8Array(await readFile(join(dir, "out"))), content, "half of a file takes no file's place");
    assert.deepEqual((await readdir(dir)).sort(), ["in", "out"], "no half of a file is left");
  } finally {
    await rm(dir, { recursive: true });
  }
});

test("who closes a stream hangs up, also while waiting", async () => {
  let gone;
  const hungUp = new Promise((resolve) => (gone = resolve));
  const answer = (request, response) => {
    response.on("close", gone);
    response.write(w.frame({ started: { pid: 7 } }));
  };
  await serving(answer, async (client) => {
    const stream = client.sandbox("sb-1").stream("sleep 60");
    assert.equal((await stream.next()).value.started.pid, 7);
    const waiting = stream.next();
    await stream.close();
    assert.deepEqual(await waiting, { done: true, value: undefined });
    await hungUp;
  });
});

test("a lost connection is told, and no call is made twice", async () => {
  let asked = 0;
  const answer = (request) => {
    asked += 1;
    request.socket.destroy();
  };
  await serving(answer, async (client) => {
    await assert.rejects(client.templates(), rekindle.ConnectionFailedError);
    assert.equal(asked, 1);
  });
  await assert.rejects(socketClient("unix:/nowhere/at/all").templates(), rekindle.ConnectionFailedError);
});

test("the token goes to the server alone", async () => {
  let followed = false;
  const answer = (request, response) => {
    followed ||= request.url === "/elsewhere";
    response.writeHead(307, { location: "/elsewhere" }).end();
  };
  await serving(answer, async (client) => {
    await assert.rejects(client.templates(), ProtocolError);
    assert.equal(followed, false);
  });
});

test("a port is where the server says", async () => {
  const sandbox = (told) => {
    const fetch = async () => new Response(JSON.stringify({ id: "sb-1", ...told }), { status: 200 });
    return new Client({ server: "https://h", fetch }).sandbox("sb-1");
  };
  const named = sandbox({ ports: { url: "https://{port}-sb-1.box.test:3000", token: "ci.00" } });
  const port = await named.port(8000);
  assert.equal(port.url, "https://8000-sb-1.box.test:3000");
  assert.equal(await named.getHost(8000), "8000-sb-1.box.test:3000");
  const headers = { "E2b-Sandbox-Id": "sb-1", "E2b-Sandbox-Port": "8000", "E2b-Traffic-Access-Token": "ci.00" };
  assert.deepEqual(port.headers, headers);
  for (const wrong of [0, 1.5, 65536]) await assert.rejects(named.port(wrong), RangeError);
  const plain = sandbox({ ports: { url: "http://127.0.0.1:3000", token: "ci.00" } });
  assert.equal((await plain.port(8000)).url, "http://127.0.0.1:3000");
  const hinted = (hint) => (error) => error instanceof RekindleError && error.hint.includes(hint);
  await assert.rejects(plain.getHost(8000), hinted("[http] domain"));
  await assert.rejects(sandbox({}).port(8000), hinted("[http] listen"));
  await assert.rejects(sandbox({ ports: { token: "ci.00" } }).port(8000), hinted("[http] domain"));
  await assert.rejects(sandbox({ end: { reason: "SANDBOX_END_REASON_EXPIRED" } }).port(8000), hinted("create a new one"));
});

test("no permissions at all are asked for too", () => {
  const asked = [undefined, 0, 0o700].map((mode) => calls.makeDir("sb-1", "/d", { mode }).message.mode);
  assert.deepEqual(asked, [undefined, 0, 0o700]);
});

// Bun is told in its own words; Deno's does not give up.
const undici = typeof Bun === "undefined" && typeof Deno === "undefined";

test("fetch does not give up by itself", { skip: undici ? false : "is of Node's fetch" }, async () => {
  new Headers();
  const name = Symbol.for("undici.globalDispatcher.1");
  const real = globalThis[name];
  const seen = [];
  globalThis[name] = {
    dispatch: (options, handler) => {
      seen.push([options.headersTimeout, options.bodyTimeout]);
      return real.dispatch(options, handler);
    },
  };
  try {
    await serving((_request, response) => response.end("{}"), (client) => client.templates());
  } finally {
    globalThis[name] = real;
  }
  assert.deepEqual(seen, [[0, 0]]);
});
