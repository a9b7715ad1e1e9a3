/** The client: makes the calls of `calls.ts` with `fetch`. */

import * as c from "./calls.js";
import type { Call, StreamCall } from "./calls.js";
import * as config from "./config.js";
import { Watch, patience, pause, streamsBodies } from "./http.js";
import type { Fetch } from "./http.js";
import type { CallOptions, CreateOptions } from "./options.js";
import { inherited, stepName, traceparent } from "./origin.js";
import { Sandbox } from "./sandbox.js";
import { Stream } from "./stream.js";
import type { NetworkPolicy, SandboxEvent, SandboxInfo, SandboxRules, Template, Timeline } from "./types.js";
import { VERSION } from "./version.js";
import { Frames, frame, joined, parse, utf8 } from "./wire.js";

/** Which server, and how it is reached. */
export interface ClientOptions {
  /** `https://HOST:PORT`, else REKINDLE_SERVER. Plain `http://` only to this machine. */
  server?: string;
  /** A token of `rekindle token create`, else REKINDLE_TOKEN. */
  token?: string;
  /** How often a call is repeated where its error says that it may be. */
  retries?: number;
  /** The trace that its calls are part of: a `traceparent`, or the 32 digits of its id; else TRACEPARENT. */
  trace?: string;
  /** The step that its calls are part of. */
  step?: string;
  /** In place of `fetch`: for sockets, certificates and proxies. */
  fetch?: Fetch;
}

type Bytes = Uint8Array<ArrayBuffer>;

/** What is sent after the first message of a call: all of it, or piece by piece. */
export type Content = readonly Bytes[] | AsyncIterable<Bytes>;

/** A server. Many calls may be under way at once. */
export class Client {
  readonly #options: ClientOptions;
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #retries: number;
  readonly #fetch: Fetch | undefined;

  constructor(options: ClientOptions = {}) {
    this.#options = options;
    this.#url = config.address(options.server, options.fetch !== undefined);
    const token = config.token(options.token);
    this.#headers = { "connect-protocol-version": "1", "user-agent": `rekindle-typescript/${VERSION}` };
    if (token !== undefined) this.#headers["authorization"] = `Bearer ${token}`;
    const parent = options.trace === undefined ? inherited() : traceparent(options.trace);
    if (parent !== undefined) this.#headers["traceparent"] = parent;
    if (options.step !== undefined) this.#headers["rekindle-step"] = stepName(options.step);
    this.#retries = options.retries ?? c.RETRIES;
    this.#fetch = options.fetch;
  }

  /**
   * The same server, for calls that are part of a step, and of a trace: a `traceparent` as W3C has it, or the 32 digits
   * of its id, else the one there was before, else the variable TRACEPARENT.
   */
  step(name: string, options: { trace?: string } = {}): Client {
    return new Client({ ...this.#options, trace: options.trace ?? this.#options.trace, step: name });
  }

  /** What happened in a trace, named by the 32 digits of its id, in all sandboxes; with sums by its steps. */
  timeline(trace: string, options: CallOptions = {}): Promise<Timeline> {
    return this.call(c.timeline("", trace), options);
  }

  /** Creates a sandbox. */
  create(options: CreateOptions & CallOptions = {}): Promise<Sandbox> {
    return Sandbox.create({ ...options, client: this });
  }

  /** A sandbox that is there. `await using` lets go of it and does not end it. */
  sandbox(id: string): Sandbox {
    return Sandbox.connect(id, { client: this });
  }

  /** Sandboxes, oldest first; only those whose metadata has all of these pairs. */
  async *sandboxes(
    metadata?: Readonly<Record<string, string>>,
    options: CallOptions & { includeEnded?: boolean } = {},
  ): AsyncGenerator<SandboxInfo, void, undefined> {
    let page = "";
    do {
      const answer = await this.call(c.sandboxes(metadata, options.includeEnded ?? false, page), options);
      yield* answer.sandboxes;
      page = answer.nextPageToken;
    } while (page !== "");
  }

  /**
   * Tells what happens to sandboxes, from now on; only those whose metadata has all of these pairs, or the one of this
   * name. With `includeExisting` those that are there come first.
   */
  watch(
    metadata?: Readonly<Record<string, string>>,
    options: CallOptions & { includeExisting?: boolean; sandbox?: string } = {},
  ): Stream<SandboxEvent> {
    return this.stream(c.watchSandboxes(metadata, options.includeExisting ?? false, options.sandbox), options);
  }

  /** What sandboxes can be made from. */
  async templates(options: CallOptions = {}): Promise<Template[]> {
    return (await this.call(c.templates(), options)).templates;
  }

  /** The network policies that sandboxes can be created with. */
  async networks(options: CallOptions = {}): Promise<NetworkPolicy[]> {
    return (await this.call(c.templates(), options)).networks;
  }

  /** What holds for every sandbox: defaults and bounds. */
  async rules(options: CallOptions = {}): Promise<SandboxRules> {
    return (await this.call(c.templates(), options)).rules;
  }

  /** Makes a call with one answer. It is repeated where its error says so, and only there. */
  async call<T>(call: Call<T>, options: CallOptions = {}): Promise<T> {
    const began = performance.now();
    for (let tried = 0; ; tried += 1) {
      const { deadline, signal } = options;
      const left = deadline === undefined ? undefined : deadline - (performance.now() - began) / 1000;
      try {
        return await this.#once(call, left, signal);
      } catch (error) {
        const wait = c.waitBefore(error, tried, this.#retries, left);
        if (wait === undefined) throw error;
        await pause(wait, signal);
      }
    }
  }

  async #once<T>(call: Call<T>, deadline: number | undefined, signal: AbortSignal | undefined): Promise<T> {
    const watch = new Watch(deadline, signal);
    try {
      const answer = await this.#send(call, "application/json", deadline, watch, utf8(JSON.stringify(call.message)));
      const body = new Uint8Array(await answer.arrayBuffer());
      if (answer.status !== 200) throw c.refusal(answer.status, body);
      return call.read(parse(body));
    } catch (error) {
      throw watch.failure(error);
    } finally {
      watch.done();
    }
  }

  /** Whether it sends a request while that is made. */
  get streamsRequests(): boolean {
    return this.#fetch !== undefined || streamsBodies();
  }

  /** Makes a call with any number of answers, once the first is asked for. `content` is what is sent after its message. */
  stream<T>(call: StreamCall<T>, options: CallOptions = {}, content?: Content): Stream<T> {
    return new Stream((closed) => this.#stream(call, options, content, closed));
  }

  async *#stream<T>(
    call: StreamCall<T>,
    { deadline, signal }: CallOptions,
    content: Content | undefined,
    closed: AbortSignal,
  ): AsyncGenerator<T, void, undefined> {
    if (closed.aborted) return;
    const watch = new Watch(deadline, signal);
    const give = (): void => watch.abort();
    closed.addEventListener("abort", give);
    const frames = new Frames();
    const first = frame(call.message);
    let whole = false;
    let body: ReadableStream<Bytes> | Bytes = first;
    try {
      if (content !== undefined) body = await bodyOf(first, content, this.streamsRequests);
      const answer = await this.#send(call, "application/connect+json", deadline, watch, body);
      if (answer.status !== 200) throw c.refusal(answer.status, new Uint8Array(await answer.arrayBuffer()));
      const reader = answer.body?.getReader();
      while (reader !== undefined) {
        const { done, value } = await reader.read();
        if (done) break;
        for (const message of frames.feed(value)) yield call.read(message);
        frames.check();
      }
      frames.end();
      whole = true;
    } catch (error) {
      if (!closed.aborted) throw watch.failure(error);
    } finally {
      watch.done();
      closed.removeEventListener("abort", give);
      // Who reads no further ends the call.
      if (!whole) watch.abort();
    }
  }

  async #send(
    call: Call<unknown>,
    type: string,
    deadline: number | undefined,
    watch: Watch,
    body: Bytes | ReadableStream<Bytes>,
  ): Promise<Response> {
    const headers: Record<string, string> = { ...this.#headers, "content-type": type };
    if (deadline !== undefined) {
      headers["connect-timeout-ms"] = String(Math.min(Math.max(Math.trunc(deadline * 1000), 1), 9_999_999_999));
    }
    // A token is for this server and for no other that it names.
    const init: RequestInit & { duplex?: "half" } = { method: "POST", headers, body, signal: watch.signal, redirect: "manual" };
    if (body instanceof ReadableStream) init.duplex = "half";
    const url = `${this.#url}/rekindle.v1.${call.method}`;
    if (this.#fetch !== undefined) return await this.#fetch(url, init);
    return await fetch(url, { ...init, ...patience() });
  }
}

/** The body of a request with more than one message. */
async function bodyOf(
  first: Bytes,
  content: Content,
  streamed: boolean,
): Promise<ReadableStream<Bytes> | Bytes> {
  if (!(Symbol.asyncIterator in content)) return joined([first, ...content]);
  if (streamed) {
    const pieces = content[Symbol.asyncIterator]();
    return new ReadableStream<Bytes>({
      start: (controller) => controller.enqueue(first),
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await pieces.return?.();
      },
    });
  }
  const pieces = [first];
  for await (const piece of content) pieces.push(piece);
  return joined(pieces);
}
