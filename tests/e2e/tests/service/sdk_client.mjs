/**
 * What a program does that has the TypeScript SDK and a real sandbox. Run by sdk.rs beside the compiler, with REKINDLE_SDK
 * (the SDK's folder), REKINDLE_SERVER and REKINDLE_TOKEN, and REKINDLE_SOCKET, the same server's socket.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";

// An emulated guest on a busy host takes its time.
const PATIENCE = 240;

const run = (args, env = {}) => execFileSync(process.execPath, args, { stdio: "inherit", env: { ...process.env, ...env } });
const compile = (project) => run(["node_modules/typescript/lib/tsc.js", "-p", project]);

// The SDK is built here, where `rekindle` is this package's own name.
for (const part of ["src", "tests", "package.json", "tsconfig.json", "README.md"]) {
  fs.cpSync(`${process.env.REKINDLE_SDK}/${part}`, part, { recursive: true });
}
compile(".");
console.log("built");

const tests = fs.readdirSync("tests").filter((name) => name.endsWith(".test.mjs")).map((name) => `tests/${name}`);
for (const url of [process.env.REKINDLE_SERVER, process.env.REKINDLE_SOCKET]) run(["--test", ...tests], { REKINDLE_URL: url });
console.log("tested");

fs.mkdirSync("examples");
const onPage = (page) => fs.readFileSync(page, "utf8").split("```ts\n").slice(1).map((rest) => rest.split("```")[0]);
const examples = onPage("README.md");
assert.ok(examples.length >= 6, `${examples.length} examples`);
// The guide's program says what is to be seen, and not where it has its names from.
const [traces] = onPage(`${process.env.REKINDLE_SDK}/../../docs/guides/traces.md`);
examples.push(`import { Client, Sandbox } from "rekindle";
const client = new Client(), traceId = "4bf92f3577b34da6a3ce929d0e0e4738", traceparent = "00-" + traceId + "-00f067aa0ba902b7-01";
${traces}
if (!steps.some((step) => step.step === "count" && step.executions === 1)) throw new Error(JSON.stringify(steps));
`);
examples.forEach((example, at) => fs.writeFileSync(`examples/${at}.ts`, example));
const options = { rootDir: ".", outDir: "../examples-built", declaration: false, noUnusedLocals: false };
fs.writeFileSync("examples/tsconfig.json", JSON.stringify({ extends: "../tsconfig.json", compilerOptions: options, include: ["*.ts"] }));
compile("examples");
examples.forEach((_, at) => run([`examples-built/${at}.js`]));
console.log("examples");

const { Sandbox } = await import("rekindle");
const { socketClient } = await import("rekindle/node");

async function programs(sandbox) {
  assert.equal((await sandbox.runPython("print(6 * 7)", { timeout: PATIENCE })).stdout, "42\n");
  assert.equal((await sandbox.runNode("console.log(6 * 7)", { timeout: PATIENCE })).stdout, "42\n");
  const missing = await sandbox.runPython("import nothing_of_the_sort", { timeout: PATIENCE });
  const { kind, subject, hint } = missing.diagnosis;
  assert.deepEqual([missing.exitCode, kind, subject], [1, "missing_module", "nothing_of_the_sort"]);
  assert.match(hint, /not installed/);
  const long = await sandbox.runPython("print('é' * 30000)", { timeout: PATIENCE });
  assert.ok(long.truncated && long.stdout.length < 5000 && long.stdoutOutput.totalChars === 30_001);
  assert.equal(new TextDecoder().decode(await long.fullStdout()), `${"é".repeat(30_000)}\n`);
  console.log("programs");
}

async function data(sandbox) {
  await sandbox.writeFile("d/sold.csv", `buyer_id,sold\n${Array.from({ length: 300 }, (_, n) => `${(n % 40) + 1},${n}\n`).join("")}`);
  await sandbox.writeFile("d/buyers.json", JSON.stringify(Array.from({ length: 40 }, (_, n) => ({ id: n + 1, name: `n${n + 1}` }))));
  const told = await sandbox.describe(["d/sold.csv", "d/buyers.json"], { loadData: "load_data.py", timeout: PATIENCE });
  assert.match(told.text, /d\/sold\.csv \| CSV \| 300 records/);
  assert.match(told.text, /d\/sold\.csv:buyer_id = d\/buyers\.json:id/);
  assert.deepEqual(told.structure.files.map((file) => [file.path, file.records]), [["d/sold.csv", 300], ["d/buyers.json", 40]]);
  const program = "from load_data import buyers, sold; print(len(sold), buyers[39]['name'])";
  const loaded = await sandbox.runPython(program, { timeout: PATIENCE });
  assert.match(loaded.stdout, /^buyers: list, 40 long, from [^]*\n300 n40\n$/m);
  assert.ok((await sandbox.describe("d", { maxChars: 300 })).text.length <= 300);
  console.log("data");
}

async function turns(make) {
  const sandbox = await make({ maxTurns: 4, resultPath: "answer.txt" });
  try {
    const before = await sandbox.info();
    assert.deepEqual([before.turns, before.result], [{ max: 4, left: 4 }, { path: "answer.txt", exists: false }]);
    const told = [await sandbox.execute("true", { timeout: PATIENCE })];
    told.push(await sandbox.runPython("open('answer.txt', 'w').write('42')", { timeout: PATIENCE }));
    assert.equal((await sandbox.info()).result.exists, true);
    const run = await sandbox.runCode("6 * 7", { deadline: PATIENCE });
    assert.deepEqual([run.turnsLeft, run.warning], [1, "1 turn is left: write the result to answer.txt now"]);
    told.push(await (await sandbox.start("true")).wait({ deadline: PATIENCE }));
    const warned = "3 turns are left: write the result to answer.txt now";
    assert.deepEqual(told.map((one) => [one.turnsLeft, one.warning]), [[3, warned], [2, ""], [0, ""]]);
    await assert.rejects(sandbox.execute("true"), { name: "CapacityError", reason: "TURNS_SPENT", retryable: false });
    assert.equal(await sandbox.readText("answer.txt"), "42");
  } finally {
    await sandbox.cleanup();
  }
  console.log("turns");
}

async function code(sandbox) {
  assert.ok((await sandbox.runCode("x = 20", { deadline: PATIENCE })).ok);
  const ran = await sandbox.runCode("print('adding'); x + 22", { deadline: PATIENCE });
  assert.deepEqual([ran.stdout, ran.text, ran.executionCount], ["adding\n", "42", 2]);
  const failed = await sandbox.runCode("1 / 0", { deadline: PATIENCE });
  assert.deepEqual([failed.ok, failed.error.name], [false, "ZeroDivisionError"]);
  const other = await sandbox.createContext("javascript");
  assert.equal((await sandbox.runCode("const n = 2; n * 21", { context: other, deadline: PATIENCE })).text, "42");
  console.log("code");
}

async function ports(sandbox) {
  const page = "require('http').createServer((asked, answer) => answer.writeHead(201).end(asked.method + asked.url)).listen(8000, '127.0.0.1', () => console.log('listens'))";
  const server = await sandbox.start(["node", "-e", page]);
  for await (const event of server.attach()) if (event.stdout) break;
  const port = await sandbox.port(8000);
  const answer = await fetch(`${port.url}/path`, { method: "PUT", headers: port.headers });
  assert.deepEqual([answer.status, await answer.text()], [201, "PUT/path"]);
  const { "E2b-Traffic-Access-Token": _, ...without } = port.headers;
  assert.equal((await fetch(port.url, { headers: without })).status, 403);
  await assert.rejects(sandbox.getHost(8000), /no names of their own/);
  await server.kill();
  console.log("ports");
}

const client = socketClient(process.env.REKINDLE_SOCKET);
for (const make of [(options) => Sandbox.create(options), (options) => client.create(options)]) {
  await turns(make);
  const sandbox = await make();
  try {
    await programs(sandbox);
    await data(sandbox);
    await code(sandbox);
    await ports(sandbox);
  } finally {
    await sandbox.cleanup();
  }
}
console.log("done");
