// A Node process that waits for one execution: started by the agent before the snapshot, as root.
//
// Required ahead of a program that is only a placeholder (`node --require park.cjs -e 0`). It waits
// for the request, becomes the user, and puts the execution's source where Node will look for it.
// Then it returns, and Node goes on exactly as `node -e SOURCE` does: module detection, top-level
// await, stack traces and the end are Node's own.
//
// The request is what guest-agent/src/warm/request.rs writes. The verdict is as in exec/child.rs:
// nothing when the program runs, a step and an error number when it does not.
'use strict';

const CONTROL = 1000;
const STEP = { stdio: 1, user: 3, directory: 4, program: 5 };
const EIO = 5;

const crypto = require('node:crypto');
const fs = require('node:fs');
const inspector = require('node:inspector');
const Module = require('node:module');
const v8 = require('node:v8');
const threads = require('node:worker_threads');

// Under this name threads of the program find its source.
const SOURCE = 'rekindle.source';

// What the first line of output needs is loaded and compiled while nobody waits for it.
function practise() {
  for (const name of ['child_process', 'events', 'net', 'path', 'stream', 'tty', 'url', 'util', 'vm']) require(`node:${name}`);
  void [fs.ReadStream, fs.WriteStream];
  require('node:util').format('%s', 'warm', 1, { a: [1, 'b'] }, new Map([[1, 2]]), new Error('warm'));
  require('node:vm').runInThisContext('(function () { return typeof require; })()', { filename: '[warm]' });
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

function parse(data) {
  const strings = data.toString('utf8').split('\0');
  const [terminal, uid, gid, groups, cwd, ...rest] = strings;
  return {
    terminal: terminal === '1',
    uid: Number(uid),
    gid: Number(gid),
    groups: groups.split(',').filter(Boolean).map(Number),
    cwd,
    stdio: rest.slice(0, 3),
    source: rest[3],
    environment: rest.slice(4, -1),
  };
}

// A descriptor that is closed is the next one to be opened.
function openStdio(request) {
  request.stdio.forEach((path, number) => {
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

// V8 seeds Math.random when it is first used, from a generator that clones share, or from this flag.
function reseed() {
  const random = crypto.randomBytes(8);
  v8.setFlagsFromString(`--random-seed=${(random.readUInt32LE(0) >>> 1) || 1}`);
  // The flag is short, so that a random part of the sequence is left out on top of it.
  for (let skipped = random.readUInt16LE(4) & 0x1fff; skipped >= 0; skipped -= 1) Math.random();
  v8.setFlagsFromString('--random-seed=0');
  // Contexts made later are seeded from that other generator, which numbers given to objects move on.
  const numbered = new WeakSet();
  for (let moved = random.readUInt16LE(6) & 0xfff; moved >= 0; moved -= 1) numbered.add({});
}

// Another value for a property, which stays what it is otherwise.
function replace(object, name, value) {
  const { enumerable, writable, configurable } = Object.getOwnPropertyDescriptor(object, name);
  Object.defineProperty(object, name, { value, enumerable, writable, configurable });
}

// The process began for its program when it was claimed, as far as it took to get so far.
function restartClock(milestones, parkedAt) {
  const waited = Number(process.hrtime.bigint() - parkedAt);
  for (let index = 1; index < milestones.length; index += 1) {
    if (milestones[index] !== -1) milestones[index] += waited;
  }
  milestones[0] = (Date.now() - performance.now()) * 1000;
  const { uptime } = process;
  replace(process, 'uptime', { uptime() { return uptime() - waited / 1e9; } }.uptime);
}

function prepare() {
  try {
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

function wait() {
  const { options, milestones } = prepare();
  const parkedAt = process.hrtime.bigint();
  const request = parse(read(read(4).readUInt32LE(0)));
  let step = STEP.stdio;
  try {
    openStdio(request);
    step = STEP.user;
    process.setgroups(request.groups);
    process.setgid(request.gid);
    process.setuid(request.uid);
    step = STEP.directory;
    process.chdir(request.cwd);
    step = STEP.program;
    setEnvironment(request.environment);
    reseed();
    restartClock(milestones, parkedAt);
    options['--eval'] = request.source;
    options['--require'] = [];
    replace(process, '_eval', request.source);
    threads.setEnvironmentData(SOURCE, request.source);
    forget(request.source);
  } catch (error) {
    const verdict = Buffer.alloc(5);
    verdict.writeUInt8(step, 0);
    verdict.writeInt32LE(-error.errno || EIO, 1);
    fs.writeSync(CONTROL, verdict);
    process.reallyExit(127);
  }
  fs.closeSync(CONTROL);
}

// Nothing was required before the program.
function forget(source) {
  replace(process, 'execArgv', ['-e', source]);
  replace(process, '_preload_modules', []);
  delete require.cache[__filename];
}

// Threads the program starts require what their process was started with.
if (threads.isMainThread) wait();
else forget(threads.getEnvironmentData(SOURCE));
