/** Everything that this package sends and reads is in the description that the server serves, with its type. */

import assert from "node:assert/strict";
import test from "node:test";

import * as c from "../dist/calls.js";
import * as code from "../dist/code.js";
import { REASONS } from "../dist/errors.js";
import * as types from "../dist/types.js";
import { prefixOf } from "../dist/wire.js";
import { description, needsServer } from "./server.mjs";

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
  c.sandboxes({ a: "b" }, true, "p"), c.templates(), c.execute("s", ["true"], OPTIONS),
  c.execute("s", { language: "node", source: "1" }, OPTIONS), c.execute("s", { language: "python", source: "1" }, {}),
  c.executeStream("s", "true", OPTIONS), c.start("s", "true", { ...OPTIONS, liveStdin: true, terminal: { rows: 24, columns: 80 } }),
  c.executions("s"), c.attach("s", "e", true), c.wait("s", "e"), c.signal("s", "e", 9, true), c.sendInput("s", "e", "x", true),
  c.resize("s", "e", 24, 80), c.uploadStart("s", "p", 0, FILE), c.download("s", "p", 1, "root"), c.listFiles("s", "p", FILE),
  c.stat("s", "p", "root"), c.remove("s", "p", true, "root"), c.makeDir("s", "p", FILE), c.move("s", "a", "b", FILE),
  c.describe("s", ["p", "q"], { ...FILE, maxChars: 300, loadData: "load_data.py", timeout: 1.5 }), c.watch("s", "p", FILE), c.connections("s", true), c.runCode("s", "1", { language: "javascript", env: { A: "b" } }),
  c.runCode("s", "1", { context: "c" }), c.createContext("s", "typescript", "/"), c.contexts("s"), c.restartContext("s", "c"),
  c.removeContext("s", { id: "c" }),
];

/** Checks one value of a request against its field. */
function fits(value, field, told, where) {
  const name = (field.typeName ?? "").replace(/^\./, "");
  if (field.label === "LABEL_REPEATED" && Array.isArray(value)) {
    for (const one of value) fits(one, { ...field, label: "" }, told, where);
  } else if (name === "google.protobuf.Duration") {
    assert.match(value, /^\d+(\.\d+)?s$/, where);
  } else if (name === "google.protobuf.Timestamp") {
    assert.match(value, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/, where);
  } else if (field.type === "TYPE_MESSAGE" && told.messages[name].options?.mapEntry) {
    assert.ok(Object.values(value).every((one) => typeof one === "string"), where);
  } else if (field.type === "TYPE_MESSAGE") {
    messageFits(value, name, told);
  } else if (field.type === "TYPE_ENUM") {
    assert.ok(told.enums[name].includes(value), `${where} is no ${value}`);
  } else {
    const right = { TYPE_STRING: "string", TYPE_BYTES: "string", TYPE_BOOL: "boolean", TYPE_UINT32: "number" }[field.type];
    assert.ok(right === undefined ? ["number", "string"].includes(typeof value) : typeof value === right, `${where} is ${field.type}`);
  }
}

function messageFits(value, name, told) {
  const known = new Map((told.messages[name].field ?? []).map((field) => [field.jsonName, field]));
  for (const [key, one] of Object.entries(value)) {
    assert.ok(known.has(key), `${name} has no ${key}`);
    fits(one, known.get(key), told, `${name}.${key}`);
  }
}

test("every request is one that the server knows", needsServer, async () => {
  const told = await description();
  for (const call of CALLS) {
    const method = told.methods[call.method];
    assert.ok(method, call.method);
    assert.equal(call.streams ?? false, Boolean(method.clientStreaming || method.serverStreaming), call.method);
    messageFits(call.message, method.inputType.slice(1), told);
  }
  const full = new Set([...Object.keys(EVERYTHING), "limits"]);
  for (const limit of ["milliCpus", "memoryBytes", "pids"]) full.delete(limit);
  assert.deepEqual(new Set(Object.keys(c.create(EVERYTHING).message)), full, "nothing that is asked for is left out");
  for (const part of [{ chunk: "eA==" }, { end: {} }]) messageFits(part, "rekindle.v1.UploadFileRequest", told);
});

test("every call is in the list above", () => {
  const verbs = Object.keys(c).filter((name) => typeof c[name] === "function" && !["Received", "refusal", "waitBefore", "late"].includes(name));
  const parts = ["uploadChunks", "uploadEnd"];
  assert.equal(new Set(CALLS.map((call) => call.method)).size, verbs.length - parts.length + 2, "`about` makes three of them");
});

test("every answer is read as the server has it", needsServer, async () => {
  const told = await description();
  const read = [...Object.values(types), ...Object.values(code)].filter((one) => one?.message !== undefined);
  assert.ok(read.length > 30);
  for (const { message, shape } of read) {
    const known = new Map((told.messages[message]?.field ?? []).map((field) => [field.jsonName, field]));
    for (const [name, kind] of Object.entries(shape)) {
      const where = `${message}.${name}`;
      const field = known.get(name);
      assert.ok(field, `there is no ${where}`);
      assert.equal(field.type, kind.proto, where);
      assert.equal(field.label === "LABEL_REPEATED", kind.repeated ?? false, where);
      if (kind.typeName && kind.typeName !== "*") assert.equal(field.typeName, `.${kind.typeName}`, where);
      if (kind.values) {
        const values = told.enums[kind.typeName].slice(1);
        const prefix = prefixOf(kind.typeName.split(".").pop());
        assert.deepEqual(new Set(kind.values.map((value) => prefix + value.toUpperCase())), new Set(values), where);
      }
    }
  }
});

test("every answer is the one of its call", needsServer, async () => {
  const told = await description();
  const shapes = new Map([...Object.values(types), ...Object.values(code)].filter((one) => one?.message).map((one) => [one.message, one.shape]));
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
