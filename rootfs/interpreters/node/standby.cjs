// A Node process that waits for one execution: started by the agent before the snapshot, as root.
//
// Required ahead of a program that is only a placeholder (`node --require standby.cjs -e 0`), it practises what
// programs do first. When Node has started up and looks for the program's source, it finds a getter: there
// the process is told how executions usually are and prepares for that, waits for the execution's own
// request, becomes the user, and returns the execution's source. Node then goes on exactly as
// `node -e SOURCE` does: module detection, top-level await and stack traces are Node's own.
//
// The format of requests is written down in rootfs/interpreters/README.md. The verdict is as in
// exec/child.rs: nothing when the program runs, a step and an error number when it does not.
'use strict';

// What the agent asks is read from the first, and answered to the second.
const REQUESTS = 1000;
const ANSWERS = 1001;
const STEP = { stdio: 1, user: 3, directory: 4, program: 5 };
const EIO = 5;
// Numbers of V8's generators that are left out at random, at most.
const SKIPPED = 8192;

const fs = require('node:fs');
const inspector = require('node:inspector');
const Module = require('node:module');
const path = require('node:path');
const v8 = require('node:v8');
const threads = require('node:worker_threads');

let inbox = Buffer.alloc(1 << 16);
const numbers = new Uint8Array(SKIPPED);
// For how long it has stood by, in nanoseconds.
let waited = 0;

// What only native code can do.
const native = threads.isMainThread ? load() : {};

// Under this name threads of the program find its source.
const SOURCE = 'rekindle.source';

// What a program's first line needs is loaded and compiled while nobody waits for it.
function practise() {
  for (const name of ['child_process', 'events', 'net', 'path', 'stream', 'tty', 'url', 'util', 'vm']) require(`node:${name}`);
  void [fs.ReadStream, fs.WriteStream];
  require('node:util').format('%s', 'warm', 1, { a: [1, 'b'] }, new Map([[1, 2]]), new Error('warm'));
  require('node:url').pathToFileURL('/warm/[eval1]');
  const vm = require('node:vm');
  new vm.Script('(function () { return typeof require; })()', { filename: '[warm]', importModuleDynamically() {} }).runInThisContext();
  // Node does the same to what it evaluates. Expressions that look the same are compiled once.
  for (const expression of [/\bcrypto\b/, /^/]) expression.exec('warm');
  threads.setEnvironmentData(SOURCE, '');
  process.setuid(process.getuid());
  process.chdir(process.cwd());
  process.emit('warm', process.hrtime.bigint(), performance.now(), Date.now());
  practiseOutput();
}

// Prints as a program does, but for the last step: a write that comes to its end would leave a callback behind.
function practiseOutput() {
  const stop = () => { throw new Error('warm'); };
  const handle = { getAsyncId: () => 0, writeUtf8String: stop, writeLatin1String: stop };
  const stream = new (require('node:net').Socket)({ handle, readable: false, writable: true });
  new (require('node:console').Console)({ stdout: stream, colorMode: false }).log('%s', 'warm', 1);
}

// Makes the streams a program prints to, and prints without writing. The agent lets no descriptor be opened
// meanwhile: libuv keeps one in reserve from the first stream on, which would show. It takes it with the next.
function makeOutput() {
  const streams = [process.stdout, process.stderr];
  for (const stream of streams) stream.write = () => true;
  console.log(1);
  console.error('warm');
  for (const stream of streams) {
    delete stream.write;
    // Nothing shows that they are there already.
    stream._handle?.unref?.();
  }
}

// Leaves the heap with nothing to do: a clone would do it first, and do it slowly.
function settle() {
  v8.setFlagsFromString('--expose-gc');
  const collect = require('node:vm').runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  collect({ type: 'minor' });
  collect({ type: 'minor' });
}

// Node keeps its options, and the moment it started, in variables of its own modules. The debugger can
// see them; nothing else here needs it.
function reach() {
  const session = new inspector.Session();
  session.connect();
  const box = Object.create(null);
  const name = `rekindle${process.pid}`;
  globalThis[name] = box;
  const post = (method, params) => {
    let answer;
    session.post(method, params, (error, result) => {
      if (error) throw new Error(error.message);
      answer = result;
    });
    return answer;
  };
  const list = (objectId) => post('Runtime.getProperties', { objectId, ownProperties: true });
  // The value of a variable that a function closes over.
  const variable = (owner, wanted) => {
    box.value = owner;
    const { objectId } = post('Runtime.evaluate', { expression: `${name}.value` }).result;
    const scopes = list(objectId).internalProperties.find((property) => property.name === '[[Scopes]]');
    for (const scope of list(scopes.value.objectId).result) {
      if (!scope.value?.objectId) continue;
      const found = list(scope.value.objectId).result.find((entry) => entry.name === wanted);
      if (!found?.value?.objectId) continue;
      const store = `function () { globalThis['${name}'].value = this; }`;
      post('Runtime.callFunctionOn', { objectId: found.value.objectId, functionDeclaration: store });
      return box.value;
    }
    throw new Error(`${wanted} is not where it used to be`);
  };
  try {
    const getOptionValue = variable(Module._initPaths, 'getOptionValue');
    const options = variable(getOptionValue, 'optionsDict');
    const milestones = variable(performance.eventLoopUtilization, 'milestones');
    options['--eval'] = 'placeholder';
    if (getOptionValue('--eval') !== 'placeholder') throw new Error('the options are not where they used to be');
    return { options, milestones };
  } finally {
    delete globalThis[name];
    session.disconnect();
  }
}

// The next request. The agent waits for an answer before it sends another one.
function receive() {
  let have = 0;
  do {
    if (have === inbox.length) inbox = Buffer.concat([inbox], 2 * have);
    const n = fs.readSync(REQUESTS, inbox, have, inbox.length - have);
    // The agent is gone.
    if (n === 0) process.reallyExit(0);
    have += n;
  } while (have < 4 || have < 4 + inbox.readUInt32LE(0));
  return decode(inbox.toString('utf8', 4, have).split('\0'));
}

// The one place where Node decodes a request.
function decode([order, seed, skipped, source, _terminal, stdin, stdout, stderr, uid, gid, groups, cwd, ...rest]) {
  const random = [Number(seed), Number(skipped)];
  if (order === 'go') return { order, random, source };
  const user = { uid: Number(uid), gid: Number(gid), groups };
  return { order, random, source, stdio: [stdin, stdout, stderr], ...user, cwd, environment: rest.slice(0, -1) };
}

// A descriptor that is closed is the next one to be opened.
function openStdio(request) {
  request.stdio.forEach((file, number) => {
    if (file === '') return;
    fs.closeSync(number);
    const flags = number ? fs.constants.O_WRONLY : fs.constants.O_RDONLY;
    if (fs.openSync(file, flags) !== number) throw Object.assign(new Error('out of order'), { errno: -EIO });
  });
}

function setEnvironment(variables) {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const variable of variables) {
    const end = variable.indexOf('=');
    process.env[variable.slice(0, end)] = variable.slice(end + 1);
  }
  native.showEnvironment?.(Buffer.from(variables.map((variable) => `${variable}\0`).join('')));
  // Where modules are looked for depends on it.
  Module._initPaths();
}

// The functions below run once, when somebody waits. In brackets they are compiled with the file.

// V8 seeds Math.random when it is first used, from a generator that clones share, or from this flag.
// Both loops are the engine's own: one written out here would be found worth optimizing.
const reseed = (function reseed(seed, skipped) {
  v8.setFlagsFromString(`--random-seed=${(seed >>> 1) || 1}`);
  // The flag is short, so that a random part of the sequence is left out on top of it.
  numbers.subarray(0, (skipped & (SKIPPED - 1)) + 1).forEach(Math.random);
  // Contexts made later are seeded from that other generator, from which every symbol takes a number.
  numbers.subarray(0, (skipped >>> 16) & 0xfff).forEach(Symbol);
  v8.setFlagsFromString('--random-seed=0 --lazy-feedback-allocation --sparkplug');
});

// Another value for a property, which stays what it is otherwise.
const replace = (function replace(object, name, value) {
  Object.defineProperty(object, name, { value });
});

// The process began for its program when it was claimed, as far as it took to get so far.
const restartClock = (function restartClock({ milestones, since }) {
  waited = Number(process.hrtime.bigint() - since);
  for (let index = 1; index < milestones.length; index += 1) {
    if (milestones[index] !== -1) milestones[index] += waited;
  }
  milestones[0] = (Date.now() - performance.now()) * 1000;
});

function prepare() {
  try {
    // Until the program runs, functions note from the start what they meet, and none is compiled for a few calls.
    v8.setFlagsFromString('--no-lazy-feedback-allocation --no-sparkplug');
    endAtOnce();
    practise();
    // Some builds refuse to change the user, and would only say so when it is too late.
    process.setgroups(process.getgroups());
    const { options, milestones } = reach();
    Object.defineProperty(options, '--eval', { get: () => wait({ options, milestones }) });
  } catch (error) {
    fs.writeSync(ANSWERS, `!${error.message}\n`);
    process.reallyExit(1);
  }
}

// Becomes what a request asks for, but for its user. Changes what is not so already.
function become(request, now) {
  now.step = STEP.stdio;
  openStdio(request);
  now.step = STEP.user;
  if (request.order !== 'rehearse' && now.grouped !== request.groups) {
    process.setgroups(request.groups.split(',').filter(Boolean).map(Number));
    process.setgid(request.gid);
    now.grouped = request.groups;
  }
  now.step = STEP.program;
  if (now.environment?.join('\0') !== request.environment.join('\0')) setEnvironment(request.environment);
  const { uid, cwd, environment } = request;
  Object.assign(now, { uid, cwd, environment });
}

// Takes the last steps, which belong to the execution alone.
const becomeUser = (function becomeUser({ source, random }, now, reached) {
  // As root still.
  native.showArguments?.(Buffer.from(`node\0-e\0${source}\0`));
  now.step = STEP.user;
  process.setuid(now.uid);
  native.reveal?.();
  now.step = STEP.directory;
  process.chdir(now.cwd);
  now.step = STEP.program;
  reseed(...random);
  restartClock(reached);
  replace(process, '_eval', source);
  process.execArgv[1] = source;
  threads.setEnvironmentData(SOURCE, source);
  return source;
});

// A program that has come to a good end, its listeners included, has nothing to gain from the engine being
// taken down piece by piece. It ends at once, unless somebody has changed how programs end. What ends a
// program badly is only told after this.
function endAtOnce() {
  if (!native.wrapEmit) return;
  const { emit, reallyExit } = process;
  const own = native.wrapEmit(emit, (type, code) => {
    const ended = type === 'exit' && process._exiting && (process.exitCode ?? code) === 0;
    if (ended && process.emit === own && process.reallyExit === reallyExit) native.exit();
  });
  Object.defineProperty(Object.getPrototypeOf(process), 'emit', { value: own, writable: true, configurable: true });
}

// What an image has of rootfs/interpreters/native, which not every Node can load: then nothing.
function load() {
  const addon = { exports: {} };
  try {
    process.dlopen(addon, path.join(__dirname, '../native.so'));
  } catch {
    return {};
  }
  return addon.exports;
}

// Returns the program's source when the process has become an execution.
function wait({ options, milestones }) {
  const reached = { milestones, since: process.hrtime.bigint() };
  const { uptime } = process;
  replace(process, 'uptime', { uptime() { return uptime() - waited / 1e9; } }.uptime);
  forget('');
  options['--require'] = [];
  Object.defineProperty(options, '--eval', { value: '', writable: true, enumerable: true, configurable: true });
  fs.writeSync(ANSWERS, '.');
  const now = {};
  try {
    for (;;) {
      const request = receive();
      if (request.order !== 'go') become(request, now);
      if (request.order === 'go' || request.order === 'run') {
        options['--eval'] = becomeUser(request, now, reached);
        break;
      }
      if (request.order === 'rehearse') {
        makeOutput();
        settle();
      }
      fs.writeSync(ANSWERS, '.');
    }
  } catch (error) {
    const verdict = Buffer.alloc(5);
    verdict.writeUInt8(now.step, 0);
    verdict.writeInt32LE(-error.errno || EIO, 1);
    fs.writeSync(ANSWERS, verdict);
    process.reallyExit(127);
  }
  fs.closeSync(REQUESTS);
  fs.closeSync(ANSWERS);
  return options['--eval'];
}

// Nothing was required before the program.
const forget = (function forget(source) {
  replace(process, 'execArgv', ['-e', source]);
  replace(process, '_preload_modules', []);
  delete require.cache[__filename];
});

// Threads the program starts require what their process was started with.
if (threads.isMainThread) prepare();
else forget(threads.getEnvironmentData(SOURCE));
