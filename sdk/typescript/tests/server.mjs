/** The server of tests that need one: REKINDLE_URL, or REKINDLE_SERVER, with REKINDLE_TOKEN where it asks for one. */

import { Client } from "../dist/index.js";
import { socketClient, socketFetch } from "../dist/node.js";

const url = process.env.REKINDLE_URL || process.env.REKINDLE_SERVER;

/** For the options of a test. */
export const needsServer = { skip: url ? false : "REKINDLE_URL is not set", timeout: 600_000 };

export function client() {
  return url.startsWith("unix:") ? socketClient(url) : new Client({ server: url });
}

/** Messages, enums and methods of the served description, by their full names. */
export async function description() {
  const path = "/rekindle.v1/descriptor";
  const answer = await (url.startsWith("unix:") ? socketFetch(url)(`http://localhost${path}`, {}) : fetch(url + path));
  if (answer.status !== 200) throw new Error(`status ${answer.status}`);
  const told = { messages: {}, enums: {}, methods: {} };
  const take = (scope, within) => {
    for (const message of [...(within.messageType ?? []), ...(within.nestedType ?? [])]) {
      told.messages[`${scope}.${message.name}`] = message;
      take(`${scope}.${message.name}`, message);
    }
    for (const one of within.enumType ?? []) told.enums[`${scope}.${one.name}`] = one.value.map((value) => value.name);
  };
  for (const file of (await answer.json()).file) {
    take(file.package, file);
    for (const service of file.service ?? []) {
      for (const method of service.method) told.methods[`${service.name}/${method.name}`] = method;
    }
  }
  return told;
}
