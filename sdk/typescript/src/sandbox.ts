/** A sandbox and all that can be done in it. */

import * as c from "./calls.js";
import { Client } from "./client.js";
import type { Content } from "./client.js";
import { Collected } from "./code.js";
import type { CodeContext, CodeEvent, CodeLanguage, CodeRun } from "./code.js";
import { ConnectionFailedError, NotFoundError, ProtocolError, RekindleError } from "./errors.js";
import { Execution, Result, eventOf } from "./execution.js";
import type { Event } from "./execution.js";
import type {
  CallOptions,
  CreateOptions,
  DescribeOptions,
  ExecuteOptions,
  FileOptions,
  ListOptions,
  PauseOptions,
  Program,
  RunCodeOptions,
  StartOptions,
  TimeoutOptions,
  WatchOptions,
  WriteOptions,
} from "./options.js";
import { named, portOf } from "./port.js";
import type { Port } from "./port.js";
import type { Stream } from "./stream.js";
import type { Connection, Description, DetachedInfo, FileEvent, FileInfo, FileList, SandboxInfo, Timeline } from "./types.js";
import { joined, utf8 } from "./wire.js";

/** Longest wait for the reason of a refusal, in milliseconds. */
const PATIENCE = 5000;
/** Nothing, without an end. */
const SILENCE: Content = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) };

/** A virtual machine for code that nobody has read. */
export class Sandbox {
  readonly client: Client;
  readonly #id: string;
  readonly #owned: boolean;
  #ended = false;

  private constructor(client: Client, id: string, owned: boolean) {
    this.client = client;
    this.#id = id;
    this.#owned = owned;
  }

  /** Creates a sandbox, with a client made by the variables of the environment unless there is one. */
  static async create(options: CreateOptions & CallOptions & { client?: Client } = {}): Promise<Sandbox> {
    const { client = new Client(), deadline, signal, ...asked } = options;
    // A call that is repeated gets the same sandbox.
    const call = c.create({ requestId: crypto.randomUUID().replaceAll("-", ""), ...asked });
    const info = await client.call(call, { deadline, signal });
    return new Sandbox(client, info.id, true);
  }

  /** A sandbox that is there. At the end of `await using` it is let go of, and not ended. */
  static connect(id: string, options: { client?: Client } = {}): Sandbox {
    return new Sandbox(options.client ?? new Client(), id, false);
  }

  /** Its name. */
  get id(): string {
    if (this.#ended) throw new RekindleError("the sandbox was cleaned up");
    return this.#id;
  }

  /** The same sandbox, for calls that are part of a step, and of a trace: see {@link Client.step}. It ends nothing. */
  step(name: string, options: { trace?: string } = {}): Sandbox {
    return new Sandbox(this.client.step(name, options), this.id, false);
  }

  /** Ends it. One that has ended already is no error. */
  async cleanup(options: CallOptions = {}): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    try {
      await this.client.call(c.about("Destroy", this.#id), options);
    } catch (error) {
      // It ended long ago.
      if (!(error instanceof NotFoundError)) throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#owned) await this.cleanup();
  }

  // Programs.

  /**
   * Runs a line for the shell, or a program with its arguments, and returns its shortened output. `timeout` bounds the
   * program, `deadline` (seconds) the whole call. Whoever gives up, kills it.
   */
  async execute(program: Program, options: ExecuteOptions & CallOptions = {}): Promise<Result> {
    return new Result(this, await this.client.call(c.execute(this.id, program, options), options));
  }

  /** Runs a line for the shell. */
  shell(line: string, options: ExecuteOptions & CallOptions = {}): Promise<Result> {
    return this.execute(line, options);
  }

  /** Runs Python code. */
  runPython(source: string, options: ExecuteOptions & CallOptions = {}): Promise<Result> {
    return this.execute({ language: "python", source }, options);
  }

  /** Runs JavaScript on Node. */
  runNode(source: string, options: ExecuteOptions & CallOptions = {}): Promise<Result> {
    return this.execute({ language: "node", source }, options);
  }

  /** Runs a program and tells what it prints as it prints it. Closing the stream kills the program. */
  stream(program: Program, options: ExecuteOptions & CallOptions = {}): Stream<Event> {
    const events = this.client.stream(c.executeStream(this.id, program, options), options);
    return events.map((event) => eventOf(this, event));
  }

  /** Starts a program that goes on without anybody waiting for it. */
  async start(program: Program, options: StartOptions & CallOptions = {}): Promise<Execution> {
    const started = await this.client.call(c.start(this.id, program, options), options);
    return new Execution(this, started.execution, started);
  }

  /** The programs that were started so, oldest first. */
  async executions(options: CallOptions = {}): Promise<DetachedInfo[]> {
    return (await this.client.call(c.executions(this.id), options)).executions;
  }

  /** A program that was started so. */
  execution(name: string): Execution {
    return new Execution(this, name);
  }

  // Code in contexts, which remember.

  /**
   * Runs code in a context: what earlier runs defined is there. Code that fails is a result. `onEvent` is told
   * everything as it happens. Whoever gives up interrupts the code.
   */
  async runCode(
    source: string,
    options: RunCodeOptions & CallOptions & { onEvent?: (event: CodeEvent) => void } = {},
  ): Promise<CodeRun> {
    const collected = new Collected();
    for await (const event of this.streamCode(source, options)) {
      collected.take(event);
      options.onEvent?.(event);
    }
    return collected.run();
  }

  /** Runs code in a context and tells what it prints and shows. Closing the stream interrupts the code. */
  streamCode(source: string, options: RunCodeOptions & CallOptions = {}): Stream<CodeEvent> {
    return this.client.stream(c.runCode(this.id, source, options), options);
  }

  /** Makes a context whose code begins in `cwd`, or in the user's home. */
  createContext(language: CodeLanguage = "python", options: CallOptions & { cwd?: string } = {}): Promise<CodeContext> {
    return this.#call(() => c.createContext(this.id, language, options.cwd), options);
  }

  /** The contexts of the sandbox, oldest first. */
  async contexts(options: CallOptions = {}): Promise<CodeContext[]> {
    return (await this.client.call(c.contexts(this.id), options)).contexts;
  }

  /** Forgets what was defined in a context. */
  restartContext(context: string | CodeContext, options: CallOptions = {}): Promise<void> {
    return this.#call(() => c.restartContext(this.id, context), options);
  }

  /** Removes a context. */
  removeContext(context: string | CodeContext, options: CallOptions = {}): Promise<void> {
    return this.#call(() => c.removeContext(this.id, context), options);
  }

  // Files. Paths in the sandbox are absolute or relative to its user's home.

  /** Writes content to `path` in the sandbox, whole or not at all. */
  async writeFile(path: string, content: Uint8Array | string, options: WriteOptions & CallOptions = {}): Promise<FileInfo> {
    const data = typeof content === "string" ? utf8(content) : content;
    return await this.#upload(path, data.length, [...c.uploadChunks(data), c.uploadEnd()], options);
  }

  /** Writes what a file or a stream holds to `path` in the sandbox, piece by piece, whole or not at all. */
  async uploadFile(
    content: Blob | ReadableStream<Uint8Array>,
    path: string,
    options: WriteOptions & CallOptions = {},
  ): Promise<FileInfo> {
    const [source, size] = content instanceof Blob ? [content.stream(), content.size] : [content, undefined];
    return await this.#upload(path, size, frames(source), options);
  }

  async #upload(path: string, size: number | undefined, content: Content, options: WriteOptions & CallOptions): Promise<FileInfo> {
    const written: FileInfo[] = [];
    const call = c.uploadStart(this.id, path, size, options);
    try {
      for await (const info of this.client.stream(call, options, content)) written.push(info);
    } catch (error) {
      throw error instanceof ConnectionFailedError ? await this.#refusal(call, error, options) : error;
    }
    if (written.length !== 1) throw new ProtocolError("the upload was not answered");
    return written[0] as FileInfo;
  }

  /**
   * Why an upload was not taken. A server that refuses one answers and hangs up; whoever is sending still finds only
   * that it did. Asked again by somebody who sends nothing, it is heard.
   */
  async #refusal(call: c.StreamCall<FileInfo>, failure: ConnectionFailedError, options: WriteOptions & CallOptions): Promise<unknown> {
    // To write in place begins with emptying what is there.
    if (options.inPlace || !this.client.streamsRequests) return failure;
    const asked = this.client.stream(call, { signal: options.signal }, SILENCE);
    const timer = globalThis.setTimeout(() => void asked.close(), PATIENCE);
    try {
      await asked.next();
      return failure;
    } catch (error) {
      return error instanceof ConnectionFailedError ? failure : error;
    } finally {
      clearTimeout(timer);
      await asked.close();
    }
  }

  /** The content of a file of the sandbox, or of a directory as a tar archive. */
  async readFile(path: string, options: FileOptions & CallOptions & { maxBytes?: number } = {}): Promise<Uint8Array<ArrayBuffer>> {
    const received = new c.Received();
    const pieces: Uint8Array[] = [];
    const call = c.download(this.id, path, options.maxBytes, options.user);
    for await (const part of this.client.stream(call, options)) pieces.push(received.take(part));
    received.file();
    return joined(pieces);
  }

  /** The same as text. */
  async readText(path: string, options: FileOptions & CallOptions & { maxBytes?: number } = {}): Promise<string> {
    return new TextDecoder().decode(await this.readFile(path, options));
  }

  /**
   * The same piece by piece. A stream that ends without an error has brought all of it, with its checksum compared.
   */
  downloadFile(
    path: string,
    options: FileOptions & CallOptions & { maxBytes?: number } = {},
  ): ReadableStream<Uint8Array<ArrayBuffer>> {
    const received = new c.Received();
    const parts = this.client.stream(c.download(this.id, path, options.maxBytes, options.user), options);
    return new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        async pull(controller) {
          // A part without content would leave whoever reads waiting.
          for (;;) {
            const { done, value } = await parts.next();
            if (done) {
              received.file();
              controller.close();
              return;
            }
            const piece = received.take(value);
            if (piece.length > 0) {
              controller.enqueue(piece);
              return;
            }
          }
        },
        cancel: () => parts.close(),
      },
      { highWaterMark: 0 },
    );
  }

  /** What a directory holds; the user's home when left out. */
  listFiles(path = "", options: ListOptions & CallOptions = {}): Promise<FileList> {
    return this.#call(() => c.listFiles(this.id, path, options), options);
  }

  /** Describes a path; a symbolic link is not followed. */
  stat(path: string, options: FileOptions & CallOptions = {}): Promise<FileInfo> {
    return this.#call(() => c.stat(this.id, path, options.user), options);
  }

  /** Removes a file or a directory. */
  remove(path: string, options: FileOptions & CallOptions & { recursive?: boolean } = {}): Promise<void> {
    return this.#call(() => c.remove(this.id, path, options.recursive ?? false, options.user), options);
  }

  /** Makes a directory, with the parents it needs. */
  makeDir(
    path: string,
    options: FileOptions & CallOptions & { mode?: number; mustNotExist?: boolean } = {},
  ): Promise<FileInfo> {
    return this.#call(() => c.makeDir(this.id, path, options), options);
  }

  /** Renames a file or a directory within the sandbox. */
  move(path: string, to: string, options: FileOptions & CallOptions & { mustNotExist?: boolean } = {}): Promise<FileInfo> {
    return this.#call(() => c.move(this.id, path, to, options), options);
  }

  /**
   * Says what is in data without reading it out: of JSON, JSON Lines, CSV, Parquet, Excel and SQLite files and of
   * directories the records, keys, types, ranges and examples. Of several paths also by which columns they may belong
   * together.
   */
  describe(path: string | readonly string[], options: DescribeOptions & CallOptions = {}): Promise<Description> {
    return this.#call(() => c.describe(this.id, path, options), options);
  }

  /** Tells what changes in a directory. An empty list comes first: from then on nothing is missed. */
  watch(path: string, options: WatchOptions & CallOptions = {}): Stream<FileEvent[]> {
    return this.client.stream(c.watch(this.id, path, options), options).map((changes) => changes.events);
  }

  // What its programs serve.

  /** How to reach a port that a program in the sandbox serves over HTTP: `url`, and `headers` that every request needs. */
  async port(number: number, options: CallOptions = {}): Promise<Port> {
    return portOf(await this.info(options), number);
  }

  /**
   * The name under which a port is reached, where the server has a domain for its sandboxes. Requests need the headers
   * of `port` all the same.
   */
  async getHost(number: number, options: CallOptions = {}): Promise<string> {
    return named(await this.port(number, options));
  }

  // Its life.

  /** The sandbox as it is now. */
  info(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#call(() => c.about("Get", this.id), options);
  }

  /** Stops its processors and its clocks, or ends all but its files. */
  pause(options: PauseOptions & CallOptions = {}): Promise<SandboxInfo> {
    return this.#call(() => c.pause(this.id, options), options);
  }

  /** Lets it run again. */
  resume(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#call(() => c.about("Resume", this.id), options);
  }

  /** Sets how long it still has, how long it may go without a call, and what happens when the first is over. */
  setTimeout(options: TimeoutOptions & CallOptions): Promise<SandboxInfo> {
    return this.#call(() => c.setTimeout(this.id, options), options);
  }

  /** Puts another network policy in force; `none` means no network. */
  setNetwork(network: string, options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#call(() => c.setNetwork(this.id, network), options);
  }

  /** The last connections to the outside, oldest first; with `follow` every change until the sandbox ends. */
  connections(options: CallOptions & { follow?: boolean } = {}): Stream<Connection> {
    return this.client.stream(c.connections(this.id, options.follow ?? false), options);
  }

  /** What happened in it: every call with its cost. */
  timeline(options: CallOptions = {}): Promise<Timeline> {
    return this.#call(() => c.timeline(this.id), options);
  }

  /** A call; what is wrong with it already is a rejection, as whatever is wrong with its answer. */
  async #call<T>(make: () => c.Call<T>, options: CallOptions): Promise<T> {
    return await this.client.call(make(), options);
  }
}

/** The frames of an upload after its first. */
async function* frames(source: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = source.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield* c.uploadChunks(value);
    }
    yield c.uploadEnd();
  } finally {
    // One that was read to its end does not mind.
    await reader.cancel().catch(() => undefined);
  }
}
