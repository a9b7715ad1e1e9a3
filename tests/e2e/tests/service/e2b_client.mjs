// What a program in JavaScript that knows only E2B does. Run by e2b.rs, with E2B_API_KEY, E2B_API_URL and
// E2B_SANDBOX_URL set.

import assert from 'node:assert/strict'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import { AuthenticationError, BuildError, CommandExitError, SandboxError, VolumeError } from 'e2b'
import { Sandbox, Template, Volume } from 'e2b'

// An emulated guest on a busy host takes its time.
const PATIENCE = { timeoutMs: 240_000, requestTimeoutMs: 240_000 }

async function commands(sandbox) {
  const run = (line, options) => sandbox.commands.run(line, { ...PATIENCE, ...options })
  assert.equal((await run("python3 -c 'print(6 * 7)'")).stdout, '42\n')
  assert.equal((await run('echo $WORD; pwd', { cwd: '/tmp' })).stdout, 'hello\n/tmp\n')
  assert.equal((await run('id -un', { user: 'root' })).stdout, 'root\n')
  const failed = await run('echo before; exit 3').catch((error) => error)
  assert(failed instanceof CommandExitError)
  assert.deepEqual([failed.exitCode, failed.stdout], [3, 'before\n'])
  const reader = await run('read line; echo "got $line"', { background: true, stdin: true })
  await sandbox.commands.sendStdin(reader.pid, 'a word\n')
  assert.equal((await reader.wait()).stdout, 'got a word\n')
  console.log('commands')
}

async function files(sandbox) {
  const data = Uint8Array.from({ length: 1 << 20 }, (_, index) => index)
  await sandbox.files.write('folder/data.bin', data.buffer)
  assert.deepEqual(await sandbox.files.read('folder/data.bin', { format: 'bytes' }), data)
  await sandbox.files.write('folder/text', 'words')
  assert.equal(await sandbox.files.read('/home/user/folder/text'), 'words')
  assert.deepEqual((await sandbox.files.list('folder')).map((entry) => entry.name).sort(), ['data.bin', 'text'])
  await sandbox.files.remove('folder/text')
  assert.equal(await sandbox.files.exists('folder/text'), false)
  console.log('files')
}

async function absent(sandbox) {
  for (const [what, kind, ask] of [
    ['snapshots of sandboxes', SandboxError, () => sandbox.createSnapshot()],
    ['volumes', VolumeError, () => Volume.create('mine')],
    ['template builds', BuildError, () => Template.build(Template().fromBaseImage(), 'mine')],
  ]) {
    const refused = await ask().catch((error) => error)
    assert(refused instanceof kind, `${what}: ${refused}`)
    assert(refused.message.includes(`Rekindle has no ${what}`), refused.message)
  }
  console.log('absent')
}

async function interpreter() {
  const sandbox = await Interpreter.create(PATIENCE)
  const run = (code, options) => sandbox.runCode(code, { ...PATIENCE, ...options })
  await run('x = 41')
  assert.equal((await run('x + 1')).text, '42')
  assert.equal((await run('y')).error.name, 'NameError')
  assert.equal((await run('const z = 6 * 7; z', { language: 'javascript' })).text, '42')
  assert.equal(await sandbox.kill(), true)
  console.log('interpreter')
}

const sandbox = await Sandbox.create({ ...PATIENCE, metadata: { made: 'here' }, envs: { WORD: 'hello' } })
await commands(sandbox)
await files(sandbox)
await absent(sandbox)
assert.deepEqual((await sandbox.getInfo()).metadata, { made: 'here' })
assert.equal(await sandbox.kill(), true)
assert.equal(await sandbox.isRunning(), false)
await interpreter()
const stranger = Sandbox.create({ ...PATIENCE, apiKey: `e2b_${'00'.repeat(20)}` })
assert((await stranger.catch((error) => error)) instanceof AuthenticationError)
console.log('done')
