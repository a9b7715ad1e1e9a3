/** For Node, Bun and Deno: a server on a unix socket, which `fetch` does not reach, and files of this machine. */

import * as http from "node:http";
import { homedir } from "node:os";
import { join } from "node:path";

import { Client } from "./client.js";
import type { ClientOptions } from "./client.js";
import { variable } from "./config.js";
import type { Fetch } from "./http.js";

export { downloadPath, uploadPath } from "./local.js";

/** Where the server of the whole machine listens. */
const ROOT_SOCKET = "/run/rekindle/rekindle.sock";

/** The socket of this machine's server: REKINDLE_SERVER where that is one, else where the server listens by itself. */
export function defaultSocket(): string {
  const named = variable("REKINDLE_SERVER");
  if (named?.startsWith("unix:")) return socketOf(named);
  const { process } = globalThis as { process?: { geteuid?: () => number } };
  if (process?.geteuid?.() === 0) return ROOT_SOCKET;
  const data = variable("REKINDLE_DATA") ?? join(variable("XDG_DATA_HOME") ?? join(homedir(), ".local/share"), "rekindle");
  return join(data, "rekindle.sock");
}

function socketOf(server: string): string {
  const path = server.replace(/^unix:(\/\/)?/, "");
  if (!path.startsWith("/")) throw new TypeError(`${server} names no socket; use unix:/PATH`);
  return path;
}

/** A client of the server on a unix socket: `/PATH` or `unix:/PATH`, or this machine's. */
export function socketClient(socket: string = defaultSocket(), options: Omit<ClientOptions, "server" | "fetch"> = {}): Client {
  return new Client({ ...options, server: "http://localhost", fetch: socketFetch(socket) });
}

/** As much of `fetch` as a `Client` uses, over a unix socket. */
export function socketFetch(socket: string): Fetch {
  const socketPath = socketOf(socket);
  const agent = new http.Agent({ keepAlive: true });
  return (url, init) => {
    const { pathname, search } = new URL(url);
    const headers = Object.fromEntries(new Headers(init.headers));
    return new Promise<Response>((resolve, reject) => {
      const body = init.body;
      if (body instanceof Uint8Array) headers["content-length"] = String(body.length);
      const path = pathname + search;
      const request = http.request({ agent, headers, method: init.method ?? "GET", path, socketPath });
      const signal = init.signal ?? undefined;
      const abort = (): void => {
        reject(signal?.reason as Error);
        request.destroy();
      };
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      request.once("close", () => signal?.removeEventListener("abort", abort));
      // A failure after the answer has begun is told by the answer's body.
      request.on("error", reject);
      request.on("response", (answer) => resolve(response(answer)));
      if (body instanceof ReadableStream) {
        send(request, body).catch((error: unknown) => {
          request.destroy(error instanceof Error ? error : new Error(String(error)));
        });
      } else {
        request.end(body instanceof Uint8Array ? body : undefined);
      }
    });
  };
}

async function send(request: http.ClientRequest, body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  const closed = new Promise<void>((resolve) => request.once("close", resolve));
  void closed.then(() => reader.cancel()).catch(() => undefined);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (request.destroyed) return;
      if (done) break;
      if (!request.write(value)) {
        await Promise.race([closed, new Promise<void>((resolve) => request.once("drain", resolve))]);
      }
    }
    request.end();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function response(answer: http.IncomingMessage): Response {
  const pieces = answer[Symbol.asyncIterator]();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value));
    },
    cancel: () => answer.destroy(),
  });
  const headers = new Headers();
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  return new Response(body, { status: answer.statusCode ?? 502, headers });
}
