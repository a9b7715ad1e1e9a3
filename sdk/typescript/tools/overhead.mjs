// What the SDK adds to a call: `execute("true")` beside the same request sent by hand, by turns in one run.
//
//     npm run build && REKINDLE_SERVER=http://127.0.0.1:PORT REKINDLE_TOKEN=… node tools/overhead.mjs [PAIRS]

import assert from "node:assert/strict";
import { Client } from "../dist/index.js";

const pairs = Number(process.argv[2] ?? 150);
let sent;
const client = new Client({
  fetch: (url, init) => {
    sent = [url, init];
    return fetch(url, init);
  },
});
const sandbox = await client.create({ ttl: 900 });
try {
  assert.ok((await sandbox.execute("true")).ok);
  const [url, { method, headers, body }] = sent;
  const byHand = async () => {
    const answer = await fetch(url, { method, headers, body });
    const said = await answer.text();
    assert.ok(answer.ok, said);
  };
  const bySdk = async () => assert.ok((await sandbox.execute("true")).ok);
  const took = async (call) => {
    const began = performance.now();
    await call();
    return performance.now() - began;
  };
  for (let turn = 0; turn < 5; turn++) {
    await byHand();
    await bySdk();
  }
  const [hand, sdk] = [[], []];
  for (let turn = 0; turn < pairs; turn++) {
    const order = [[byHand, hand], [bySdk, sdk]];
    for (const [call, times] of turn % 2 ? order.reverse() : order) times.push(await took(call));
  }
  const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
  const [one, other] = [median(hand), median(sdk)];
  const ratio = (other / one).toFixed(3);
  console.log(`by hand ${one.toFixed(1)} ms, SDK ${other.toFixed(1)} ms, ratio ${ratio} (p50, ${pairs} pairs)`);
} finally {
  await sandbox.cleanup();
}
