// The JavaScript of a code interpreter's context. One JSON request per line comes in on standard input; what goes out
// is what python.py says at its beginning. Code is evaluated by V8's own console mode, which knows `await` outside of
// functions and lets names be declared again.
'use strict';

(() => {
  const fs = require('node:fs');
  const inspector = require('node:inspector');
  const Module = require('node:module');
  const path = require('node:path');
  const readline = require('node:readline');
  const { Readable } = require('node:stream');
  const url = require('node:url');
  const util = require('node:util');
  const vm = require('node:vm');

  const PIECE = 4000;
  // The host takes messages of up to 8 MiB.
  const LARGEST = 7 << 20;
  const MIME = {
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png',
    'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex', 'application/json': 'json',
    'application/javascript': 'javascript',
  };
  const SHOW = Symbol.for('Jupyter.display');

  // What is printed goes out at once and in order: messages of our own follow it.
  function write(fd, bytes) {
    for (let at = 0; at < bytes.length; ) {
      try {
        at += fs.writeSync(fd, bytes, at);
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
      }
    }
  }

  function send(message, both) {
    const text = Buffer.from(JSON.stringify(message));
    for (let at = 0; at < text.length; at += PIECE) {
      const mark = at + PIECE < text.length ? '\x1e+' : '\x1e.';
      const line = Buffer.concat([Buffer.from(mark), text.subarray(at, at + PIECE), Buffer.from('\n')]);
      write(1, line);
      if (both) write(2, line);
    }
  }

  // Without the warning that a feature of Node is new, which is not about the code.
  function quietly(doing) {
    const warn = process.emitWarning;
    process.emitWarning = () => {};
    try {
      return doing();
    } finally {
      process.emitWarning = warn;
    }
  }

  function printer(fd) {
    return (data, encoding, done) => {
      if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
      write(fd, typeof data === 'string' ? Buffer.from(data, encoding) : data);
      if (done) process.nextTick(done);
      return true;
    };
  }
  process.stdout.write = printer(1);
  process.stderr.write = printer(2);

  // Modules are found from the working directory, as in Node's own console.
  const from = () => path.join(process.cwd(), 'cell');
  globalThis.require = Module.createRequire(from());
  globalThis.module = new Module('cell');
  globalThis.exports = globalThis.module.exports;
  // `import()` needs to know which file asks; a file that is only a name will do.
  const importer = quietly(() => vm.runInThisContext('(name) => import(name)', {
    filename: from(),
    importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  }));
  const load = (name) => {
    const text = String(name);
    if (Module.isBuiltin(text) || /^(node|file|data|https?):/.test(text)) return importer(text);
    if (/^\.{0,2}\//.test(text)) return importer(url.pathToFileURL(path.resolve(text)).href);
    try {
      return importer(url.pathToFileURL(Module.createRequire(from()).resolve(text)).href);
    } catch {
      return importer(text);
    }
  };
  Object.defineProperty(globalThis, '__rekindle_import', { value: load });

  // Statements that only modules know, as those that every program does.
  function translated(code) {
    const names = (list) => list.replace(/(\w+)\s+as\s+(\w+)/g, '$1: $2');
    return code
      .replace(/^(\s*)import\s*(['"][^'"\n]+['"])\s*;?/gm, '$1await __rekindle_import($2);')
      .replace(/^(\s*)import\s+(?:type\s+)?([\w$]+\s*,\s*)?(\{[^}]*\}|\*\s*as\s+[\w$]+|[\w$]+)\s*from\s*(['"][^'"\n]+['"])\s*;?/gm,
        (_, indent, first, list, name) => {
          const asked = `await __rekindle_import(${name})`;
          const parts = [];
          const bound = list.startsWith('{') ? names(list)
            : list.startsWith('*') ? list.replace(/^\*\s*as\s+/, '') : `{ default: ${list} }`;
          if (first) parts.push(`${indent}var { default: ${first.replace(/\s*,\s*$/, '')} } = ${asked};`);
          parts.push(`${indent}var ${bound} = ${asked};`);
          return parts.join(' ');
        })
      .replace(/^(\s*)export\s+(default\s+)?(?=(const|let|var|function|class|async)\b)/gm, '$1')
      .replace(/(^|[^.\w$])import\s*\(/g, '$1__rekindle_import(');
  }

  // What was thrown in the middle of a run by nobody's doing, or by an interrupt.
  let running = null;
  class KeyboardInterrupt extends Error {}
  Object.defineProperty(KeyboardInterrupt.prototype, 'name', { value: 'KeyboardInterrupt' });
  const stray = (error) => {
    if (running) running.fail(error);
    else process.stderr.write(`${util.inspect(error)}\n`);
  };
  process.on('uncaughtException', stray);
  process.on('unhandledRejection', stray);
  process.on('SIGINT', () => running?.fail(new KeyboardInterrupt('the run was interrupted')));

  const session = new inspector.Session();
  session.connect();
  const box = Object.create(null);
  Object.defineProperty(globalThis, '__rekindle_box', { value: box });

  function evaluate(expression) {
    return new Promise((resolve, reject) => {
      running = { fail: reject };
      const options = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell', userGesture: true };
      const done = (error, answer) => {
        if (error) return reject(new Error(error.message));
        const found = answer.exceptionDetails?.exception ?? answer.result;
        take(found, (value) => answer.exceptionDetails ? reject(thrown(value)) : resolve(value));
      };
      box.post = () => session.post('Runtime.evaluate', options, done);
      try {
        // A loop without an end is interrupted from outside.
        vm.runInThisContext('__rekindle_box.post()', { breakOnSigint: true });
      } catch (error) {
        reject(error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new KeyboardInterrupt('the run was interrupted') : error);
      }
    });
  }

  // The value itself, of which the inspector tells only the name.
  function take(remote, then) {
    if (!remote.objectId) {
      const special = { NaN, Infinity, '-Infinity': -Infinity, '-0': -0 };
      if (remote.unserializableValue === undefined) return then(remote.value);
      if (remote.unserializableValue in special) return then(special[remote.unserializableValue]);
      return then(BigInt(remote.unserializableValue.slice(0, -1)));
    }
    const functionDeclaration = 'function () { globalThis.__rekindle_box.value = this; }';
    session.post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration }, (error) => {
      const value = box.value;
      delete box.value;
      then(error ? undefined : unboxed(value, remote));
    });
  }

  // `this` of a function that is not strict is an object, also where the value is none.
  const unboxed = (value, remote) => (remote.type === 'symbol' ? value.valueOf() : value);

  const thrown = (value) => ({ thrown: value });

  // A class that sets no name has the one it inherits: its own says more.
  function nameOf(error) {
    const set = [error, Object.getPrototypeOf(error)].some((each) => each && Object.hasOwn(each, 'name'));
    return (!set && error.constructor?.name) || error.name || 'Error';
  }

  const HIDDEN = '<an error that cannot be shown>';

  // Whatever is thrown ends its run: also what throws when it is looked at.
  function failure(error) {
    try { return described(error); } catch { return { type: 'error', name: 'Error', value: HIDDEN, traceback: '' }; }
  }

  function described(error) {
    const value = error && typeof error === 'object' && 'thrown' in error ? error.thrown : error;
    const text = (each) => { try { return String(each); } catch { return HIDDEN; } };
    if (!(value instanceof Error) && !(value && typeof value.stack === 'string')) {
      return { type: 'error', name: 'Error', value: text(util.inspect(value)).slice(0, LARGEST >> 3), traceback: '' };
    }
    const stack = text(value.stack).split('\n');
    // Below the code's own frames are those of this program.
    const end = stack.findIndex((line) => /__rekindle_box|\[eval|node:inspector/.test(line));
    const traceback = (end > 0 ? stack.slice(0, end) : stack).join('\n');
    return { type: 'error', name: text(nameOf(value)), value: text(value.message).slice(0, LARGEST >> 3), traceback: traceback.slice(0, LARGEST >> 3) };
  }

  async function forms(value) {
    let bundle = {};
    if (value && typeof value[SHOW] === 'function') bundle = { ...(await value[SHOW]()) };
    bundle['text/plain'] ??= typeof value === 'string' ? value : util.inspect(value);
    if (value && (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype)) {
      try { bundle['application/json'] ??= JSON.parse(JSON.stringify(value)); } catch { /* has no form in JSON */ }
    }
    return bundle;
  }

  async function show(value, main) {
    const result = { type: 'result', is_main_result: main };
    const extra = {};
    for (const [kind, form] of Object.entries(await forms(value))) {
      const size = JSON.stringify(form)?.length;
      if (size === undefined) continue;
      if (size > LARGEST / 2) {
        process.stderr.write(`a result was left out: its form ${kind} is larger than ${LARGEST / 2} bytes\n`);
      } else if (kind in MIME) {
        // Whatever is no text travels as one.
        result[MIME[kind]] = kind !== 'application/json' && typeof form === 'string' ? form : JSON.stringify(form);
      } else {
        extra[kind] = form;
      }
    }
    if (Object.keys(extra).length > 0) result.extra = JSON.stringify(extra);
    send(result);
  }
  globalThis.display = (value) => { void show(value, false); };

  let count = 0;
  async function run({ id, code, env, language }) {
    const before = Object.keys(env ?? {}).map((name) => [name, process.env[name]]);
    Object.assign(process.env, env ?? {});
    count += 1;
    send({ type: 'begin', id }, true);
    send({ type: 'number_of_executions', execution_count: count });
    try {
      if (language === 'typescript') {
        if (!Module.stripTypeScriptTypes) throw new Error('this Node does not know TypeScript');
        code = quietly(() => Module.stripTypeScriptTypes(code));
      }
      const value = await evaluate(`${translated(code)}\n//# sourceURL=cell-${count}.js`);
      if (value !== undefined) await show(value, true);
    } catch (error) {
      send(failure(error));
    }
    running = null;
    session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    send({ type: 'end', id }, true);
  }

  let last = Promise.resolve();
  const lines = readline.createInterface({ input: process.stdin, terminal: false });
  // Code has no input: what comes in are requests.
  Object.defineProperty(process, 'stdin', { value: Readable.from([]), configurable: true, enumerable: true });
  lines.on('line', (line) => { last = last.then(() => run(JSON.parse(line))); });
  lines.on('close', () => { last = last.then(() => process.exit(0)); });
  send({ type: 'ready' });
})();
