// Gives a Node process that outlives a snapshot fresh randomness in every clone.
//
// Required at start only while a template is built. The process registers itself; after a restore
// the agent sends it a signal, and it reseeds and says so by removing its registration.
//
// By then the clock has jumped, so OpenSSL reseeds itself on its next use. What is left are the
// random bytes Node keeps in a buffer, which are used up, and V8's generator, which cannot be
// reseeded and is replaced by one that draws from OpenSSL.
'use strict';

const fs = require('node:fs');

const registration = `/run/rekindle/interpreters/${process.pid}`;

process.once('SIGUSR2', () => {
  const crypto = require('node:crypto');
  // More than Node keeps: 128 identifiers, and 6 KiB for integers of 6 bytes.
  for (let i = 0; i < 256; i += 1) crypto.randomUUID();
  for (let i = 0; i < 2048; i += 1) crypto.randomInt(1 << 30);

  const pool = new Uint32Array(256);
  let next = pool.length;
  Math.random = function random() {
    if (next >= pool.length) {
      crypto.randomFillSync(pool);
      next = 0;
    }
    const high = pool[next] >>> 5;
    const low = pool[next + 1] >>> 6;
    next += 2;
    return (high * 67108864 + low) / 9007199254740992;
  };
  try {
    fs.unlinkSync(registration);
  } catch {
    // Nobody waits for it.
  }
});

try {
  fs.writeFileSync(registration, 'node\n');
} catch {
  // Not a guest of ours.
}
