/**
 * The SDK for TypeScript on a runtime that is not Node. Run by sdk.rs beside the compiler and the runtime's package, with
 * REKINDLE_SDK (the SDK's folder), REKINDLE_RUNTIME, REKINDLE_SERVER and REKINDLE_TOKEN.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";

const { REKINDLE_SDK: sdk, REKINDLE_RUNTIME: runtime, REKINDLE_SERVER: server, REKINDLE_TOKEN: token } = process.env;
const run = (program, words, env = {}) =>
  execFileSync(program, words, { stdio: "inherit", env: { ...process.env, ...env } });

/** Ends well, with a reason, where the runtime's program is not for this machine. */
function needs(program, env = {}) {
  try {
    run(program, ["--version"], env);
  } catch (error) {
    console.log(`cannot run: ${error.message}`);
    process.exit(0);
  }
}

for (const part of ["src", "tests", "package.json", "tsconfig.json"]) {
  fs.cpSync(`${sdk}/${part}`, part, { recursive: true });
}
run(process.execPath, ["node_modules/typescript/lib/tsc.js", "-p", "."]);

const SMOKE = `import { smoke } from "./tests/smoke.mjs";\nawait smoke();\nconsole.log("smoke on ${runtime}");\n`;
fs.writeFileSync("smoke.mjs", SMOKE);
// What needs no server, and that nothing has drifted from what this one serves.
const tests = ["tests/units.test.mjs", "tests/description.test.mjs"];

/** Modules that a file reaches, from a folder's root. */
function reached(file, all = new Set()) {
  if (all.has(file)) return all;
  all.add(file);
  for (const [, from] of fs.readFileSync(file, "utf8").matchAll(/ from "(\.[^"]+)"/g)) {
    reached(new URL(from, `file:///${file}`).pathname.slice(1), all);
  }
  return all;
}

const RUNTIMES = {
  bun() {
    const bun = "node_modules/@oven/bun-linux-x64-baseline/bin/bun";
    needs(bun);
    for (const test of tests) run(bun, ["test", `./${test}`], { REKINDLE_URL: server });
    run(bun, ["smoke.mjs"]);
  },
  deno() {
    const deno = "node_modules/@deno/linux-x64-glibc/deno";
    const env = { DENO_DIR: `${process.cwd()}/deno`, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
    needs(deno, env);
    run(deno, ["test", "--no-check", "--allow-all", ...tests], { ...env, REKINDLE_URL: server });
    // With what a program needs and no more.
    run(deno, ["run", "--no-prompt", "--allow-net=127.0.0.1", "--allow-env=REKINDLE_SERVER,REKINDLE_TOKEN", "smoke.mjs"], env);
  },
  worker() {
    const workerd = "node_modules/@cloudflare/workerd-linux-64/bin/workerd";
    needs(workerd);
    const worker = [
      'import { smoke } from "./tests/smoke.mjs";',
      "export default {",
      "  async test(_controller, env) {",
      '    if (globalThis.process?.versions?.node) throw new Error("this is Node");',
      "    await smoke({ server: env.SERVER, token: env.TOKEN });",
      '    console.log("smoke on worker");',
      "  },",
      "};",
    ];
    fs.writeFileSync("worker.mjs", worker.join("\n"));
    const modules = [...reached("worker.mjs")];
    assert.ok(modules.includes("dist/index.js") && !modules.includes("dist/node.js"), modules.join());
    const embedded = modules.map((file) => `(name = "${file}", esModule = embed "${file}")`);
    const text = (name, value) => `(name = "${name}", text = ${JSON.stringify(value)})`;
    const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [${embedded.join(", ")}],
      compatibilityDate = "2026-01-01",
      bindings = [${text("SERVER", server)}, ${text("TOKEN", token)}],
      globalOutbound = "host",
    )),
    (name = "host", network = (allow = ["local"])),
  ],
);
`;
    fs.writeFileSync("worker.capnp", config);
    run(workerd, ["test", "worker.capnp"]);
  },
};
RUNTIMES[runtime]();
console.log("done");
