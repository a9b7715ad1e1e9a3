/** What callers may ask for. Times are seconds, sizes bytes. */

import type { CodeContext, CodeLanguage } from "./code.js";
import type { OnTimeout } from "./types.js";

/** Source code to run in a new process. */
export interface Code {
  readonly language: "python" | "node" | "bash";
  readonly source: string;
}

/** A line for the shell, a program with its arguments, or source code. */
export type Program = string | readonly string[] | Code;

/** What every call takes. */
export interface CallOptions {
  /** Seconds that the whole call may take; a `DeadlineError` when they are over. */
  deadline?: number;
  /** Gives the call up when it is aborted; the call throws the signal's reason then. */
  signal?: AbortSignal;
}

/** What the whole of an output takes. */
export interface OutputOptions extends CallOptions {
  /** Where some of it is lost: what was kept, and no `OutputLostError`. */
  partial?: boolean;
}

/** How to run a program. */
export interface ExecuteOptions {
  /** Bytes on its standard input. */
  stdin?: Uint8Array | string;
  /** Variables on top of the sandbox's. */
  env?: Readonly<Record<string, string>>;
  /** Its working directory; the user's home when left out. */
  cwd?: string;
  /** Its wall-clock limit in seconds. */
  timeout?: number;
  /** Memory of this execution; the sandbox's when left out. */
  memoryBytes?: number;
  /** Characters returned of each output stream; 4000 when left out. */
  outputLimit?: number;
  /** Two calls with one key run the program once. */
  idempotencyKey?: string;
  /** Who runs it: `user`, or `root` where the template and the token allow it. */
  user?: string;
  /** Where its clock starts; the sandbox's own clock when left out. */
  now?: Date;
  /** Its time zone, such as `Europe/Berlin`; the sandbox's, UTC, when left out. */
  timezone?: string;
}

/** How to start a program that goes on alone. */
export interface StartOptions extends ExecuteOptions {
  /** It takes input with `sendInput`. */
  liveStdin?: boolean;
  /** It has a terminal of this size. */
  terminal?: { readonly rows: number; readonly columns: number };
}

/** What to create. Times are seconds. */
export interface CreateOptions {
  /** Name of a template; the server's default when left out. */
  template?: string;
  /** How long it lives. */
  ttl?: number;
  /** How long it may go without a call; 0 means for ever. */
  idleTimeout?: number;
  /** What happens when its time to live is over. */
  onTimeout?: OnTimeout;
  /** Variables every execution sees. */
  env?: Readonly<Record<string, string>>;
  /** Your own words about it; `Client.sandboxes` filters by them. */
  metadata?: Readonly<Record<string, string>>;
  /** Thousandths of a host processor. */
  milliCpus?: number;
  /** Memory of all programs together. */
  memoryBytes?: number;
  /** Processes and threads at once. */
  pids?: number;
  /** How long to wait for room when the host is full; 0 means not at all. */
  queueTimeout?: number;
  /** Name of a network policy; no network when left out. */
  network?: string;
  /** How many executions may be started in it; any number when left out. */
  maxTurns?: number;
  /** Where in it the result is to be; `info()` says whether it is there. */
  resultPath?: string;
  /** What programs may ask of the gateway: `openai/chat`, or `openai/*` for all operations of a service. */
  gateway?: readonly string[];
  /** What they may spend there; as much as the operator allows when left out. */
  gatewayBudget?: number;
  /** Repeated with the same one, the first call's sandbox is returned. */
  requestId?: string;
}

/** How a sandbox is paused. */
export interface PauseOptions {
  /** Keep its files alone: its programs end, it takes up no memory of the host, and `resume` boots it. */
  withoutMemory?: boolean;
}

/** What to change of a sandbox's time. */
export interface TimeoutOptions {
  /** Seconds that it still has, from now on. */
  ttl?: number;
  /** Seconds that it may go without a call; 0 means for ever. */
  idleTimeout?: number;
  onTimeout?: OnTimeout;
}

/** How a directory is listed. */
export interface ListOptions extends FileOptions {
  /** Most entries; what is more is cut, and said so. */
  maxEntries?: number;
  /** How many levels deep; 1 when left out. */
  depth?: number;
}

/** How data is described. */
export interface DescribeOptions extends FileOptions {
  /** Most characters of the text; 4,000 when left out. */
  maxChars?: number;
  /** Where in the sandbox to write a Python program that loads the data. */
  loadData?: string;
  /** How long it may take, in seconds; 120 when left out. */
  timeout?: number;
}

/** How a directory is watched. */
export interface WatchOptions extends FileOptions {
  /** With everything below it. */
  recursive?: boolean;
  /** Each change with the file as it is then. */
  describe?: boolean;
}

/** As whom a file is touched: `user`, or `root` where the template and the token allow it. */
export interface FileOptions {
  user?: string;
}

/** How a file is written. */
export interface WriteOptions extends FileOptions {
  /** Its permissions, such as `0o644`. */
  mode?: number;
  mustNotExist?: boolean;
  /** Into the file that is there, through links, keeping its owner and permissions. */
  inPlace?: boolean;
  metadata?: Readonly<Record<string, string>>;
}

/** Which context runs code, and with what. */
export interface RunCodeOptions {
  /** `python` when left out; each language has a context of its own. */
  language?: CodeLanguage;
  /** Another context, or its id. */
  context?: string | CodeContext;
  env?: Readonly<Record<string, string>>;
}
