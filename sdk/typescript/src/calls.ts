/** Every call of the API that this package makes: what is sent, and how the answer is read. No input or output. */

import * as code from "./code.js";
import { DeadlineError, ProtocolError, RekindleError, errorOf } from "./errors.js";
import type {
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
import { Sha256 } from "./sha256.js";
import * as t from "./types.js";
import { base64, decode, fields, frame, parse, path64, span, utf8 } from "./wire.js";
import type { Json, Message, Read } from "./wire.js";

/** Bytes of content in one message of an upload. */
export const CHUNK = 256 * 1024;
/** Tries of a call whose error says that it may be repeated. */
export const RETRIES = 3;
/** Longest wait before a call is repeated, in seconds. */
const LONGEST_WAIT = 30;

/** A call: its method, what is sent, and how an answer is read. */
export interface Call<T> {
  readonly method: string;
  readonly message: Json;
  readonly read: (value: Json) => T;
}

/** A call with any number of answers. */
export interface StreamCall<T> extends Call<T> {
  readonly streams: true;
}

/** The error of an answer that is none. */
export function refusal(status: number, body: Uint8Array): RekindleError {
  let value: Json = {};
  try {
    value = parse(body);
  } catch {
    // Something between here and the server answered.
  }
  if ("code" in value) return errorOf(value);
  return new ProtocolError(`the server answered with status ${status} and no error of this API`);
}

/** How many seconds to wait before the call is made again; `undefined` when it is not. Only the server's word counts. */
export function waitBefore(error: unknown, tried: number, retries: number, left: number | undefined): number | undefined {
  if (!(error instanceof RekindleError) || tried >= retries || !error.retryable || error.retryAfter === undefined) {
    return undefined;
  }
  // Longer every time: everybody else who was refused comes back as well.
  const wait = Math.min(Math.max(error.retryAfter, 0.01) * 2 ** tried, LONGEST_WAIT);
  return left === undefined || wait < left ? wait : undefined;
}

/** The server did not say in time that the deadline is over. */
export function late(deadline: number): DeadlineError {
  return new DeadlineError(`no answer within ${deadline} s`, { code: "deadline_exceeded", reason: "DEADLINE" });
}

function one<M extends Message<any>>(method: string, message: Json, answer: M): Call<Read<M>> {
  return { method, message, read: (value) => decode(answer, value) as Read<M> };
}

function several<M extends Message<any>>(method: string, message: Json, answer: M): StreamCall<Read<M>> {
  return { ...one(method, message, answer), streams: true };
}

function done(method: string, message: Json): Call<void> {
  return { method, message, read: () => undefined };
}

function seconds(value: number | undefined): string | undefined {
  return value === undefined ? undefined : span(value);
}

function onTimeout(what: t.OnTimeout | undefined): string | undefined {
  return what === undefined ? undefined : `ON_TIMEOUT_${what.toUpperCase()}`;
}

// Sandboxes.

export function create(options: CreateOptions): Call<t.SandboxInfo> {
  const { milliCpus, memoryBytes, pids, ttl, idleTimeout, queueTimeout, ...rest } = options;
  const { template, env, metadata, requestId, network, gateway, gatewayBudget } = rest;
  const message = fields({
    template,
    limits: fields({ milliCpus, memoryBytes, pids }),
    env,
    ttl: seconds(ttl),
    idleTimeout: seconds(idleTimeout),
    metadata,
    queueTimeout: seconds(queueTimeout),
    requestId,
    network,
    gateway: gateway?.length ? gateway : undefined,
    gatewayBudget,
    onTimeout: onTimeout(rest.onTimeout),
    maxTurns: rest.maxTurns,
    resultPath: rest.resultPath,
  });
  return one("Sandboxes/Create", message, t.sandboxInfo);
}

export function pause(sandbox: string, options: PauseOptions): Call<t.SandboxInfo> {
  const { withoutMemory } = options;
  return one("Sandboxes/Pause", fields({ sandbox, withoutMemory }), t.sandboxInfo);
}

export function about(method: "Get" | "Resume" | "Destroy", sandbox: string): Call<t.SandboxInfo> {
  return one(`Sandboxes/${method}`, { sandbox }, t.sandboxInfo);
}

export function setTimeout(sandbox: string, options: TimeoutOptions): Call<t.SandboxInfo> {
  const { ttl, idleTimeout } = options;
  const message = { sandbox, ttl: seconds(ttl), idleTimeout: seconds(idleTimeout), onTimeout: onTimeout(options.onTimeout) };
  return one("Sandboxes/SetTimeout", fields(message), t.sandboxInfo);
}

export function setNetwork(sandbox: string, network: string): Call<t.SandboxInfo> {
  return one("Network/Update", fields({ sandbox, network }), t.sandboxInfo);
}

export function connections(sandbox: string, follow: boolean): StreamCall<t.Connection> {
  return several("Network/Connections", fields({ sandbox, follow }), t.connection);
}

export function timeline(sandbox: string, trace?: string): Call<t.Timeline> {
  return one("Sandboxes/Timeline", fields({ sandbox, trace }), t.timeline);
}

export function sandboxes(
  metadata: Readonly<Record<string, string>> | undefined,
  includeEnded: boolean,
  pageToken: string,
): Call<t.SandboxPage> {
  return one("Sandboxes/List", fields({ metadata, includeEnded, pageToken }), t.sandboxPage);
}

export function watchSandboxes(
  metadata: Readonly<Record<string, string>> | undefined,
  includeExisting: boolean,
  sandbox: string | undefined,
): StreamCall<t.SandboxEvent> {
  return several("Sandboxes/Watch", fields({ metadata, includeExisting, sandbox }), t.sandboxEvent);
}

export function templates(): Call<t.TemplateList> {
  return one("Host/ListTemplates", {}, t.templateList);
}

// Executions.

function isList(what: Program): what is readonly string[] {
  return Array.isArray(what);
}

function program(what: Program): Json {
  if (typeof what === "string") return { shell: what };
  if (isList(what)) return { command: { argv: [...what] } };
  return { code: fields({ language: `LANGUAGE_${what.language.toUpperCase()}`, source: what.source }) };
}

function bytes64(data: Uint8Array | string | undefined): string | undefined {
  return data === undefined ? undefined : base64(typeof data === "string" ? utf8(data) : data);
}

function request(sandbox: string, what: Program, options: ExecuteOptions): Json {
  const { stdin, env, cwd, timeout, memoryBytes, idempotencyKey, user, outputLimit, timezone } = options;
  const now = options.now?.toISOString();
  const asked = {
    stdin: bytes64(stdin), env, cwd, timeout: seconds(timeout), memoryBytes, idempotencyKey, user, now, timezone,
  };
  const message = fields({ sandbox, program: program(what), ...asked });
  // None at all is something else than the server's default.
  return outputLimit === undefined ? message : { ...message, outputLimit };
}

export function execute(sandbox: string, what: Program, options: ExecuteOptions): Call<t.ExecutionResult> {
  return one("Sandboxes/Execute", request(sandbox, what, options), t.executionResult);
}

export function executeStream(sandbox: string, what: Program, options: ExecuteOptions): StreamCall<t.ExecuteEvent> {
  const message = { start: { request: request(sandbox, what, options) } };
  return several("Sandboxes/ExecuteStream", message, t.executeEvent);
}

export function start(sandbox: string, what: Program, options: StartOptions): Call<t.DetachedInfo> {
  const { liveStdin, terminal } = options;
  const message = fields({ request: request(sandbox, what, options), liveStdin, terminal: terminal && fields({ ...terminal }) });
  return one("Executions/Start", message, t.detachedInfo);
}

export function executions(sandbox: string): Call<t.DetachedList> {
  return one("Executions/List", { sandbox }, t.detachedList);
}

export function attach(sandbox: string, execution: string, fromNow: boolean): StreamCall<t.ExecuteEvent> {
  return several("Executions/Attach", fields({ sandbox, execution, fromNow }), t.executeEvent);
}

export function wait(sandbox: string, execution: string): Call<t.ExecutionResult> {
  return one("Executions/Wait", { sandbox, execution }, t.executionResult);
}

export function signal(sandbox: string, execution: string, number: number, everyone: boolean): Call<void> {
  return done("Executions/Signal", fields({ sandbox, execution, signal: number, everyone }));
}

export function sendInput(sandbox: string, execution: string, data: Uint8Array | string, end: boolean): Call<void> {
  return done("Executions/SendInput", fields({ sandbox, execution, data: bytes64(data), end }));
}

export function resize(sandbox: string, execution: string, rows: number, columns: number): Call<void> {
  return done("Executions/Resize", { sandbox, execution, size: fields({ rows, columns }) });
}

// Code in contexts.

function language(name: code.CodeLanguage | undefined): string | undefined {
  return name === undefined ? undefined : `CODE_LANGUAGE_${name.toUpperCase()}`;
}

function idOf(context: string | code.CodeContext | undefined): string | undefined {
  return typeof context === "object" ? context.id : context;
}

export function runCode(sandbox: string, source: string, options: RunCodeOptions): StreamCall<code.CodeEvent> {
  const { context, env } = options;
  const message = { sandbox, code: source, language: language(options.language), context: idOf(context), env };
  return several("Interpreter/Run", fields(message), code.codeEvent);
}

export function createContext(sandbox: string, name: code.CodeLanguage, cwd: string | undefined): Call<code.CodeContext> {
  return one("Interpreter/CreateContext", fields({ sandbox, language: language(name), cwd }), code.codeContext);
}

export function contexts(sandbox: string): Call<code.ContextList> {
  return one("Interpreter/ListContexts", { sandbox }, code.contextList);
}

export function restartContext(sandbox: string, context: string | code.CodeContext): Call<void> {
  return done("Interpreter/RestartContext", fields({ sandbox, context: idOf(context) }));
}

export function removeContext(sandbox: string, context: string | code.CodeContext): Call<void> {
  return done("Interpreter/RemoveContext", fields({ sandbox, context: idOf(context) }));
}

// Files.

/** The first message of an upload; chunks and an end follow it. */
export function uploadStart(
  sandbox: string,
  path: string,
  size: number | undefined,
  options: WriteOptions,
): StreamCall<t.FileInfo> {
  const { mode, mustNotExist, inPlace, metadata, user } = options;
  const begin = fields({ sandbox, path: path64(path), mustNotExist, inPlace, metadata, user });
  if (mode !== undefined) begin["mode"] = mode;
  if (size !== undefined) begin["size"] = String(size);
  return several("Files/Upload", { start: begin }, t.fileInfo);
}

/** The frames of some content. */
export function* uploadChunks(data: Uint8Array): Generator<Uint8Array<ArrayBuffer>> {
  for (let at = 0; at < data.length; at += CHUNK) yield frame({ chunk: base64(data.subarray(at, at + CHUNK)) });
}

export function uploadEnd(): Uint8Array<ArrayBuffer> {
  return frame({ end: {} });
}

export function download(sandbox: string, path: string, maxBytes: number | undefined, user: string | undefined): StreamCall<t.DownloadPart> {
  return several("Files/Download", fields({ sandbox, path: path64(path), maxBytes, user }), t.downloadPart);
}

/** Counts what a download brings, so that no half of a file is taken for a whole. */
export class Received {
  readonly #sum = new Sha256();
  #size = 0;
  #file: t.FileInfo | undefined;

  /** The content of a part. */
  take(part: t.DownloadPart): Uint8Array<ArrayBuffer> {
    if (this.#file !== undefined) throw new ProtocolError("the download goes on after its end");
    this.#sum.update(part.chunk);
    this.#size += part.chunk.length;
    if (part.end !== undefined) {
      const sum = base64(this.#sum.digest());
      if (part.end.size !== this.#size || base64(part.end.sha256) !== sum) {
        throw new ProtocolError("the download differs from what was sent");
      }
      this.#file = part.end.file;
    }
    return part.chunk;
  }

  /** What was read, once it was read to its end. */
  file(): t.FileInfo {
    if (this.#file === undefined) throw new ProtocolError("the download broke off");
    return this.#file;
  }
}

export function listFiles(
  sandbox: string,
  path: string,
  options: ListOptions,
): Call<t.FileList> {
  const { maxEntries, depth = 1, user } = options;
  return one("Files/List", fields({ sandbox, path: path64(path), maxEntries, depth, user }), t.fileList);
}

export function stat(sandbox: string, path: string, user: string | undefined): Call<t.FileInfo> {
  return one("Files/Stat", fields({ sandbox, path: path64(path), user }), t.fileInfo);
}

export function remove(sandbox: string, path: string, recursive: boolean, user: string | undefined): Call<void> {
  return done("Files/Remove", fields({ sandbox, path: path64(path), recursive, user }));
}

export function makeDir(
  sandbox: string,
  path: string,
  options: FileOptions & { mode?: number; mustNotExist?: boolean },
): Call<t.FileInfo> {
  const { mode, mustNotExist, user } = options;
  const message = fields({ sandbox, path: path64(path), mustNotExist, user });
  if (mode !== undefined) message["mode"] = mode;
  return one("Files/MakeDir", message, t.fileInfo);
}

export function move(
  sandbox: string,
  from: string,
  to: string,
  options: FileOptions & { mustNotExist?: boolean },
): Call<t.FileInfo> {
  const { mustNotExist, user } = options;
  return one("Files/Move", fields({ sandbox, from: path64(from), to: path64(to), mustNotExist, user }), t.fileInfo);
}

export function describe(
  sandbox: string,
  path: string | readonly string[],
  options: DescribeOptions,
): Call<t.Description> {
  const { maxChars, loadData, timeout, user } = options;
  const paths = (typeof path === "string" ? [path] : path).map(path64);
  const loader = loadData === undefined ? undefined : path64(loadData);
  return one("Files/Describe", fields({ sandbox, paths, maxChars, loader, timeout: seconds(timeout), user }), t.description);
}

export function watch(
  sandbox: string,
  path: string,
  options: WatchOptions,
): StreamCall<t.FileEvents> {
  const { recursive, describe, user } = options;
  return several("Files/Watch", fields({ sandbox, path: path64(path), recursive, describe, user }), t.fileEvents);
}
