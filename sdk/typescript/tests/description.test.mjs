/**
 * Everything that this package sends and reads is in the description that the server serves, with its type; and everything
 * in that is sent, but for what is listed here with a reason, and read.
 */

import assert from "node:assert/strict";
import test from "node:test";

import * as c from "../dist/calls.js";
import * as code from "../dist/code.js";
import { REASONS } from "../dist/errors.js";
import * as types from "../dist/types.js";
import { prefixOf } from "../dist/wire.js";
import { description, needsServer } from "./server.mjs";

/** Methods that are not called, and why. */
const NOT_CALLED = {
  "Host/Status": "for operators: `rekindle status`",
  "Host/Usage": "for operators: `rekindle usage`",
};
const INPUT = "a program that takes input is one of `start`, which has its input, signals and terminal in calls of their own";
/** Fields of requests that are not sent, and why. */
const NOT_SENT = {
  "Code.plainInterpreter": "for measurements",
  "ListSandboxesRequest.pageSize": "pages are put together here",
  "ExecuteInput.stdin": INPUT,
  "ExecuteInput.stdinEnd": INPUT,
  "ExecuteInput.signal": INPUT,
  "ExecuteInput.resize": INPUT,
  "ExecuteStart.terminal": INPUT,
  "ExecuteStart.liveStdin": INPUT,
};

const EVERYTHING = {
  template: "t", ttl: 1.5, idleTimeout: 2, env: { A: "b" }, metadata: { a: "b" }, milliCpus: 1, memoryBytes: 2, pids: 3,
  queueTimeout: 4, network: "n", requestId: "r", onTimeout: "pause", maxTurns: 6,
  resultPath: "p", gateway: ["s/o"], gatewayBudget: 5,
};
const OPTIONS = {
  stdin: "x", env: { A: "b" }, cwd: "/", timeout: 1.5, memoryBytes: 1 << 23, outputLimit: 0, idempotencyKey: "k", user: "root",
  now: new Date("2024-01-02T03:04:05Z"), timezone: "Europe/Berlin",
};
const FILE = {
  user: "root", mode: 0o600, mustNotExist: true, inPlace: true, metadata: { a: "b" }, recursive: true, describe: true,
  maxEntries: 1, depth: 2,
};

/** Every call with everything set that can be. */
const CALLS = [
  c.create(EVERYTHING), c.pause("s", { withoutMemory: true }), ...["Get", "Resume", "Destroy"].map((method) => c.about(method, "s")),
  c.setTimeout("s", { ttl: 1, idleTimeout: 0, onTimeout: "pause_until_used" }), c.setNetwork("s", "n"), c.timeline("s", "t"),
  c.sandboxes({ a: "b" }, true, "p"), c.watchSandboxes({ a: "b" }, true, "s"), c.templates(), c.execute("s", ["true"], OPTIONS),
  c.execute("s", { language: "node", source: "1" }, OPTIONS), c.execute("s", { language: "python", source: "1" }, {}),
  c.executeStream("s", "true", OPTIONS), c.start("s", "true", { ...OPTIONS, liveStdin: true, terminal: { rows: 24, columns: 80 } }),
  c.executions("s"), c.attach("s", "e", true), c.wait("s", "e"), c.signal("s", "e", 9, true), c.sendInput("s", "e", "x", true),
  c.resize("s", "e", 24, 80), c.uploadStart("s", "p", 0, FILE), c.download("s", "p", 1, "root"), c.listFiles("s", "p", FILE),
  c.stat("s", "p", "root"), c.remove("s", "p", true, "root"), c.makeDir("s", "p", FILE), c.move("s", "a", "b", FILE),
  c.describe("s", ["p", "q"], { ...FILE, maxChars: 300, loadData: "load_data.py", timeout: 1.5 }), c.watch("s", "p", FILE), c.connections("s", true), c.runCode("s", "1", { language: "javascript", env: { A: "b" } }),
  c.runCode("s", "1", { context: "c" }), c.createContext("s", "typescript", "/"), c.contexts("s"), c.restartContext("s", "c"),
  c.removeContext("s", { id: "c" }),
];

/** What is declared to be read of messages. */
const READ = [...Object.values(types), ...Object.values(code)].filter((one) => one?.message !== undefined);

/** The fields of a message by their names in JSON. */
function fields(name, told) {
  return new Map((told.messages[name]?.field ?? []).map((field) => [field.jsonName, field]));
}

/** The fields that these messages have besides the known ones. */
function beyond(known, told) {
  const names = [...known].flatMap(([name, own]) => [...fields(name, told).keys()].filter((key) => !own.has(key)).map((key) => `${name}.${key}`));
  return new Set(names.map((name) => name.replace(/^rekindle\.v1\./, "")));
}

/** Checks one value of a request against its field; `sent` collects the fields of each message. */
function fits(value, field, told, where, sent) {
  const name = (field.typeName ?? "").replace(/^\./, "");
  if (field.label === "LABEL_REPEATED" && Array.isArray(value)) {
    for (const one of value) fits(one, { ...field, label: "" }, told, where, sent);
  } else if (name === "google.protobuf.Duration") {
    assert.match(value, /^\d+(\.\d+)?s$/, where);
  } else if (name === "google.protobuf.Timestamp") {
    assert.match(value, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/, where);
  } else if (field.type === "TYPE_MESSAGE" && told.messages[name].options?.mapEntry) {
    assert.ok(Object.values(value).every((one) => typeof one === "string"), where);
  } else if (field.type === "TYPE_MESSAGE") {
    messageFits(value, name, told, sent);
  } else if (field.type === "TYPE_ENUM") {
    assert.ok(told.enums[name].includes(value), `${where} is no ${value}`);
  } else {
    const right = { TYPE_STRING: "string", TYPE_BYTES: "string", TYPE_BOOL: "boolean", TYPE_UINT32: "number" }[field.type];
    assert.ok(right === undefined ? ["number", "string"].includes(typeof value) : typeof value === right, `${where} is ${field.type}`);
  }
}

function messageFits(value, name, told, sent) {
  const known = fields(name, told);
  if (!sent.has(name)) sent.set(name, new Set());
  for (const [key, one] of Object.entries(value)) {
    assert.ok(known.has(key), `${name} has no ${key}`);
    sent.get(name).add(key);
    fits(one, known.get(key), told, `${name}.${key}`, sent);
  }
}

test("every request is one that the server knows", needsServer, async () => {
  const told = await description();
  const sent = new Map();
  for (const call of CALLS) {
    const method = told.methods[call.method];
    assert.ok(method, call.method);
    assert.equal(call.streams ?? false, Boolean(method.clientStreaming || method.serverStreaming), call.method);
    messageFits(call.message, method.inputType.slice(1), told, sent);
  }
  const full = new Set([...Object.keys(EVERYTHING), "limits"]);
  for (const limit of ["milliCpus", "memoryBytes", "pids"]) full.delete(limit);
  assert.deepEqual(new Set(Object.keys(c.create(EVERYTHING).message)), full, "nothing that is asked for is left out");
  for (const part of [{ chunk: "eA==" }, { end: {} }]) messageFits(part, "rekindle.v1.UploadFileRequest", told, sent);
  assert.deepEqual(beyond(sent, told), new Set(Object.keys(NOT_SENT)));
});

test("every method is called", needsServer, async () => {
  const called = new Set(CALLS.map((call) => call.method));
  const others = Object.keys((await description()).methods).filter((name) => !called.has(name));
  assert.deepEqual(new Set(others), new Set(Object.keys(NOT_CALLED)));
});

test("every call is in the list above", () => {
  const verbs = Object.keys(c).filter((name) => typeof c[name] === "function" && !["Received", "refusal", "waitBefore", "late"].includes(name));
  const parts = ["uploadChunks", "uploadEnd"];
  assert.equal(new Set(CALLS.map((call) => call.method)).size, verbs.length - parts.length + 2, "`about` makes three of them");
});

test("every answer is read as the server has it", needsServer, async () => {
  const told = await description();
  assert.ok(READ.length > 30);
  const read = new Map(READ.map(({ message, shape }) => [message, new Set(Object.keys(shape))]));
  for (const { message, shape } of READ) {
    const known = fields(message, told);
    for (const [name, kind] of Object.entries(shape)) {
      const where = `${message}.${name}`;
      const field = known.get(name);
      assert.ok(field, `there is no ${where}`);
      assert.equal(field.type, kind.proto, where);
      assert.equal(field.label === "LABEL_REPEATED", kind.repeated ?? false, where);
      if (kind.typeName && kind.typeName !== "*") assert.equal(field.typeName, `.${kind.typeName}`, where);
      // One that only says that it is there has nothing in it.
      if (kind.proto === "TYPE_MESSAGE" && kind.typeName.startsWith("rekindle.") && !read.has(kind.typeName)) read.set(kind.typeName, new Set());
      if (kind.values) {
        const values = told.enums[kind.typeName].slice(1);
        const prefix = prefixOf(kind.typeName.split(".").pop());
        assert.deepEqual(new Set(kind.values.map((value) => prefix + value.toUpperCase())), new Set(values), where);
      }
    }
  }
  assert.deepEqual(beyond(read, told), new Set(), "every field of an answer is read");
});

test("every answer is the one of its call", needsServer, async () => {
  const told = await description();
  const shapes = new Map(READ.map((one) => [one.message, one.shape]));
  for (const call of CALLS) {
    const output = told.methods[call.method].outputType.slice(1);
    const answer = call.read({});
    if (answer === undefined) assert.equal((told.messages[output].field ?? []).length, 0, `${call.method} says more`);
    else assert.deepEqual(Object.keys(answer), Object.keys(shapes.get(output)), call.method);
  }
});

test("every reason has its error", needsServer, async () => {
  const known = (await description()).enums["rekindle.v1.ErrorReason"].slice(1);
  assert.deepEqual(new Set(REASONS.keys()), new Set(known.map((name) => name.replace("ERROR_REASON_", ""))));
});

test("every error is read as the server has it", needsServer, async () => {
  const read = new Map([["rekindle.v1.ErrorDetail", new Set(["reason", "retryable", "retryAfter", "hint", "end"])]]);
  assert.deepEqual(beyond(read, await description()), new Set());
});
