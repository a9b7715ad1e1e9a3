/** How a port of a sandbox is reached, from what the server says of it. No input or output happens here. */

import { SandboxEndedError, WrongStateError } from "./errors.js";
import type { SandboxInfo } from "./types.js";

/** What a request to a port of a sandbox needs: `fetch(port.url + "/path", { headers: port.headers })`. */
export interface Port {
  /** Where it is sent, without a slash at its end. */
  readonly url: string;
  /** What it shows: the token of the sandbox's ports among others, for whoever may reach them. */
  readonly headers: Record<string, string>;
  /** The name of the host, where that alone says which port is meant; else the headers do. */
  readonly host: string | undefined;
}

/** A port of this sandbox. */
export function portOf(info: SandboxInfo, number: number): Port {
  if (!Number.isInteger(number) || number < 1 || number > 65535) throw new RangeError(`${number} is no port; use 1 to 65535`);
  if (info.end !== undefined) throw new SandboxEndedError(`the sandbox ${info.id} has ended`, { hint: "create a new one" });
  if (info.ports === undefined) {
    const hint = "the server needs [http] listen, the token the scope exec";
    throw new WrongStateError("the server does not tell how to reach this sandbox's ports", { hint });
  }
  if (info.ports.url === "") {
    const hint = "have [http] domain set on the server";
    throw new WrongStateError("the server listens on all addresses and has no name for ports", { hint });
  }
  const url = info.ports.url.replace("{port}", String(number));
  const headers = {
    "E2b-Sandbox-Id": info.id,
    "E2b-Sandbox-Port": String(number),
    "E2b-Traffic-Access-Token": info.ports.token,
  };
  return { url, headers, host: info.ports.url.includes("{port}") ? new URL(url).host : undefined };
}

/** The name of the host of a port; an error where there is none. */
export function named(port: Port): string {
  if (port.host === undefined) {
    const hint = "use port(), whose headers say which port is meant, or have [http] domain set on the server";
    throw new WrongStateError("the ports of this server have no names of their own", { hint });
  }
  return port.host;
}
