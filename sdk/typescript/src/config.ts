/** Where the server is and what it is shown, by options or by the variables that the command line knows too. */

/** A variable of the environment, where there is one. An empty one means unset. */
export function variable(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return process?.env?.[name] || undefined;
  } catch {
    return undefined; // Deno asks for permission first.
  }
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/**
 * What requests are sent to: the server that is named, else REKINDLE_SERVER. `fetch` alone cannot reach a socket; with
 * one of the caller's, which can, the name of the server does not matter.
 */
export function address(server: string | undefined, ownFetch: boolean): string {
  const name = server || variable("REKINDLE_SERVER");
  if (ownFetch && (name === undefined || name.startsWith("unix:"))) return "http://localhost";
  if (name === undefined) {
    throw new TypeError("no server is named; use the option server or REKINDLE_SERVER with https://HOST:PORT");
  }
  if (name.startsWith("unix:")) {
    throw new TypeError(`${name} is a socket, which fetch does not reach; use socketClient of rekindle/node`);
  }
  const url = URL.canParse(name) ? new URL(name) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw new TypeError(`${name} is no address of a server; use https://HOST:PORT`);
  }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw new TypeError(`${name} would send the token for all to read; use https://HOST:PORT`);
  }
  return name.replace(/\/+$/, "");
}

export function token(given: string | undefined): string | undefined {
  return given || variable("REKINDLE_TOKEN");
}
