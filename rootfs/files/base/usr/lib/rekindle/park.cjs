// A Node process that waits for one execution: started by the agent before the snapshot, as root.
//
// Required ahead of a program that is only a placeholder (`node --require park.cjs -e 0`). It is told
// how executions usually are and prepares for that, waits for the execution's own request, becomes the
// user, and puts the execution's source where Node will look for it. Then it returns, and Node goes on
// exactly as `node -e SOURCE` does: module detection, top-level await, stack traces and the end are
// Node's own.
//
// A request is what guest-agent/src/warm/request.rs writes. The verdict is as in exec/child.rs:
// nothing when the program runs, a step and an error number when it does not.
'use strict';

const CONTROL = 1000;
const STEP = { stdio: 1, user: 3, directory: 4, program: 5 };
const EIO = 5;
const ROUNDS = 2;
const SETTLING_MILLIS = 100;

const fs = require('node:fs');
const inspector = require('node:inspector');
const Module = require('node:module');
const v8 = require('node:v8');
const threads = require('node:worker_threads');

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
  parse('go\x001,2\x00warm\x00');
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

// Leaves the heap and the compilers with nothing to do: a clone would do it first, and do it slowly.
function settle() {
  // What is called often is compiled further, in batches; those of these functions are full.
  for (let round = 0; round < ROUNDS; round += 1) practise();
  v8.setFlagsFromString('--expose-gc');
  const collect = require('node:vm').runInNewContext('gc');
  v8.setFlagsFromString('--no-expose-gc');
  collect({ type: 'minor' });
  collect({ type: 'minor' });
  // What was compiled in the background is taken over the next time it is called.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SETTLING_MILLIS);
  practise();
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

function read(size) {
  const data = Buffer.alloc(size);
  for (let got = 0; got < size;) {
    const n = fs.readSync(CONTROL, data, got, size - got);
    // The agent is gone.
    if (n === 0) process.reallyExit(0);
    got += n;
  }
  return data;
}

function parse(text) {
  const strings = text.split('\0');
  const [order, random, source] = strings;
  if (order === 'go') return { order, random, source };
  const [terminal, stdin, stdout, stderr, uid, gid, groups, cwd, ...environment] = strings.slice(3, -1);
  const stdio = [stdin, stdout, stderr];
  return { order, random, source, terminal, stdio, uid: Number(uid), gid: Number(gid), groups, cwd, environment };
}

function receive() {
  return parse(read(read(4).readUInt32LE(0)).toString('utf8'));
}

// A descriptor that is closed is the next one to be opened.
function openStdio(request) {
  request.stdio.forEach((path, number) => {
    if (path === '') return;
    fs.closeSync(number);
    // The first terminal that the leader of a session opens becomes its own.
    const flags = request.terminal ? fs.constants.O_RDWR : number ? fs.constants.O_WRONLY : fs.constants.O_RDONLY;
    if (fs.openSync(path, flags) !== number) throw Object.assign(new Error('out of order'), { errno: -EIO });
  });
}

function setEnvironment(variables) {
  for (const name of Object.keys(process.env)) delete process.env[name];
  for (const variable of variables) {
    const end = variable.indexOf('=');
    process.env[variable.slice(0, end)] = variable.slice(end + 1);
  }
  // Where modules are looked for depends on it.
  Module._initPaths();
}

// The functions below run once, when somebody waits. In brackets they are compiled with the file.

// V8 seeds Math.random when it is first used, from a generator that clones share, or from this flag.
// Both loops are the engine's own: one written out here would be found worth optimizing.
const reseed = (function reseed(numbers) {
  const [seed, skipped] = numbers.split(',').map(Number);
  v8.setFlagsFromString(`--random-seed=${(seed >>> 1) || 1}`);
  // The flag is short, so that a random part of the sequence is left out on top of it.
  Array.from({ length: (skipped & 0x1fff) + 1 }, Math.random);
  v8.setFlagsFromString('--random-seed=0');
  // Contexts made later are seeded from that other generator, from which every symbol takes a number.
  Array.from({ length: (skipped >>> 16) & 0xfff }, Symbol);
});

// Another value for a property, which stays what it is otherwise.
const replace = (function replace(object, name, value) {
  const { enumerable, writable, configurable } = Object.getOwnPropertyDescriptor(object, name);
  return Object.defineProperty(object, name, { value, enumerable, writable, configurable });
});

// The process began for its program when it was claimed, as far as it took to get so far.
const restartClock = (function restartClock(milestones, parkedAt) {
  const waited = Number(process.hrtime.bigint() - parkedAt);
  for (let index = 1; index < milestones.length; index += 1) {
    if (milestones[index] !== -1) milestones[index] += waited;
  }
  milestones[0] = (Date.now() - performance.now()) * 1000;
  const { uptime } = process;
  replace(process, 'uptime', { uptime() { return uptime() - waited / 1e9; } }.uptime);
});

function prepare() {
  try {
    endAtOnce();
    practise();
    // Some builds refuse to change the user, and would only say so when it is too late.
    process.setgroups(process.getgroups());
    const reached = reach();
    fs.writeSync(CONTROL, '.');
    return reached;
  } catch (error) {
    fs.writeSync(CONTROL, `!${error.message}\n`);
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
  Object.assign(now, request);
}

// Takes the last steps, which belong to the execution alone.
const becomeUser = (function becomeUser({ random, source }, now, { options, milestones, parkedAt }) {
  now.step = STEP.user;
  process.setuid(now.uid);
  now.step = STEP.directory;
  process.chdir(now.cwd);
  now.step = STEP.program;
  reseed(random);
  restartClock(milestones, parkedAt);
  options['--eval'] = source;
  options['--require'] = [];
  replace(process, '_eval', source);
  threads.setEnvironmentData(SOURCE, source);
  forget(source);
});

// A program that has come to a good end, its listeners included, has nothing to gain from the engine being
// taken down piece by piece. It ends as with `process.exit()`, unless somebody has changed how that works.
// What ends a program badly is only told after this.
function endAtOnce() {
  const { emit, reallyExit } = process;
  const own = {
    emit(type, ...rest) {
      const heard = Reflect.apply(emit, this, [type, ...rest]);
      const ended = type === 'exit' && process._exiting && (process.exitCode ?? rest[0]) === 0;
      if (ended && process.emit === own.emit && process.reallyExit === reallyExit) reallyExit(0);
      return heard;
    },
  };
  Object.defineProperty(Object.getPrototypeOf(process), 'emit', { value: own.emit, writable: true, configurable: true });
}

function wait() {
  const reached = { ...prepare(), parkedAt: process.hrtime.bigint() };
  const now = {};
  try {
    for (;;) {
      const request = receive();
      if (request.order !== 'go') become(request, now);
      if (request.order === 'go' || request.order === 'run') {
        becomeUser(request, now, reached);
        break;
      }
      if (request.order === 'rehearse') {
        makeOutput();
        settle();
      }
      fs.writeSync(CONTROL, '.');
    }
  } catch (error) {
    const verdict = Buffer.alloc(5);
    verdict.writeUInt8(now.step, 0);
    verdict.writeInt32LE(-error.errno || EIO, 1);
    fs.writeSync(CONTROL, verdict);
    process.reallyExit(127);
  }
  fs.closeSync(CONTROL);
}

// Nothing was required before the program.
const forget = (function forget(source) {
  replace(process, 'execArgv', ['-e', source]);
  replace(process, '_preload_modules', []);
  delete require.cache[__filename];
});

// Threads the program starts require what their process was started with.
if (threads.isMainThread) wait();
else forget(threads.getEnvironmentData(SOURCE));
