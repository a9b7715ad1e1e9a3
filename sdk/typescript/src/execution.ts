/** Programs in a sandbox: what came of one, and one that goes on alone. */

import * as c from "./calls.js";
import { OutputLostError } from "./errors.js";
import type { CallOptions, OutputOptions } from "./options.js";
import type { Sandbox } from "./sandbox.js";
import type { Stream } from "./stream.js";
import type {
  DetachedInfo,
  Diagnosis,
  ExecuteEvent,
  ExecutionNetwork,
  ExecutionResult,
  ExecutionUsage,
  Missed,
  Outcome,
  Output,
  Started,
} from "./types.js";
import { utf8 } from "./wire.js";

const SIGKILL = 9;

/** What came of an execution. Whatever its end, it is a result and no exception. */
export class Result {
  readonly #sandbox: Sandbox;
  /** Its name. */
  readonly execution: string;
  readonly outcome: Outcome;
  /** The exit code; `undefined` when the program did not get to return one. */
  readonly exitCode: number | undefined;
  /** It returned 0. */
  readonly ok: boolean;
  /** It ran into its wall-clock limit. */
  readonly timedOut: boolean;
  /** It ran into its memory limit. */
  readonly outOfMemory: boolean;
  /** What it printed, shortened. */
  readonly stdout: string;
  /** What it printed to its standard error, shortened. */
  readonly stderr: string;
  readonly stdoutOutput: Output;
  readonly stderrOutput: Output;
  /** Something of either was cut. */
  readonly truncated: boolean;
  /** Where in the sandbox its whole standard output is; empty when it was not spilled. */
  readonly spilledPath: string;
  readonly usage: ExecutionUsage;
  readonly diagnosis: Diagnosis | undefined;
  readonly warmInterpreter: boolean;
  /** An earlier call's answer, with the same idempotency key. */
  readonly replayed: boolean;
  /** What it did on the network. */
  readonly network: ExecutionNetwork;
  /** Turns that the sandbox had left once this one was taken; `undefined` when they have no bound. */
  readonly turnsLeft: number | undefined;
  /** That the result is to be written now, when 3 and when 1 turns are left. */
  readonly warning: string;

  constructor(sandbox: Sandbox, told: ExecutionResult) {
    this.#sandbox = sandbox;
    this.execution = told.execution;
    this.outcome = told.outcome;
    this.exitCode = told.outcome.exitCode;
    this.ok = told.outcome.exitCode === 0;
    this.timedOut = told.outcome.timedOut;
    this.outOfMemory = told.outcome.outOfMemory;
    this.stdout = told.stdout.text;
    this.stderr = told.stderr.text;
    this.stdoutOutput = told.stdout;
    this.stderrOutput = told.stderr;
    this.truncated = told.stdout.truncated || told.stderr.truncated;
    this.spilledPath = told.stdout.spilledPath;
    this.usage = told.usage;
    this.diagnosis = told.diagnosis;
    this.warmInterpreter = told.warmInterpreter;
    this.replayed = told.replayed;
    this.network = told.network;
    this.turnsLeft = told.turnsLeft;
    this.warning = told.warning;
  }

  /**
   * All that it printed, also what was cut. A sandbox keeps 64 MiB of each stream, of its last 32 executions that were cut.
   * Where that is not all, it is an `OutputLostError`, or with `partial` the part that was kept: the beginning, or the
   * shortened text.
   */
  fullStdout(options: OutputOptions = {}): Promise<Uint8Array> {
    return this.#full(this.stdoutOutput, options);
  }

  /** All that it printed to its standard error, in the same way. */
  fullStderr(options: OutputOptions = {}): Promise<Uint8Array> {
    return this.#full(this.stderrOutput, options);
  }

  async #full(output: Output, { partial = false, ...options }: OutputOptions): Promise<Uint8Array> {
    const kept = output.spilledPath === "" ? 0 : output.spilledBytes;
    if (output.truncated && kept < output.totalBytes && !partial) throw new OutputLostError(kept, output.totalBytes);
    if (output.spilledPath === "") return utf8(output.text);
    return await this.#sandbox.readFile(output.spilledPath, options);
  }
}

/** What a live execution tells: exactly one of these is set. */
export interface Event {
  /** It runs. Always first. */
  readonly started: Started | undefined;
  readonly stdout: Uint8Array | undefined;
  readonly stderr: Uint8Array | undefined;
  /** It ended. Always last. */
  readonly finished: Result | undefined;
  /** What it printed before and is not told here. */
  readonly missed: Missed | undefined;
}

/** An event whose result knows its sandbox. */
export function eventOf(sandbox: Sandbox, told: ExecuteEvent): Event {
  return { ...told, finished: told.finished && new Result(sandbox, told.finished) };
}

/** A program in a sandbox that goes on without anybody waiting for it. */
export class Execution {
  constructor(
    readonly sandbox: Sandbox,
    readonly name: string,
    /** What was told when it was started. */
    readonly started?: DetachedInfo,
  ) {}

  /** What it prints, from its beginning as far as that is kept. Closing the stream leaves the program alone. */
  attach(options: CallOptions & { fromNow?: boolean } = {}): Stream<Event> {
    const call = c.attach(this.sandbox.id, this.name, options.fromNow ?? false);
    return this.sandbox.client.stream(call, options).map((event) => eventOf(this.sandbox, event));
  }

  /** Waits for its end. */
  async wait(options: CallOptions = {}): Promise<Result> {
    return new Result(this.sandbox, await this.sandbox.client.call(c.wait(this.sandbox.id, this.name), options));
  }

  /** Sends it a signal by its number, or every process of it. */
  async signal(number: number, options: CallOptions & { everyone?: boolean } = {}): Promise<void> {
    await this.sandbox.client.call(c.signal(this.sandbox.id, this.name, number, options.everyone ?? false), options);
  }

  /** Kills every process of it. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.signal(SIGKILL, { ...options, everyone: true });
  }

  /** Sends bytes to its standard input, after all that was sent before. */
  async sendInput(data: Uint8Array | string, options: CallOptions & { end?: boolean } = {}): Promise<void> {
    await this.sandbox.client.call(c.sendInput(this.sandbox.id, this.name, data, options.end ?? false), options);
  }

  /** Changes the size of its terminal. */
  async resize(rows: number, columns: number, options: CallOptions = {}): Promise<void> {
    await this.sandbox.client.call(c.resize(this.sandbox.id, this.name, rows, columns), options);
  }
}
