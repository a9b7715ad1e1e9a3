/** Code that is run piece by piece: contexts, what a run tells, and a whole run. No input or output happens here. */

import { ProtocolError } from "./errors.js";
import { diagnosis } from "./types.js";
import * as w from "./wire.js";
import type { Read } from "./wire.js";

/** Characters that are kept of each stream of a run, and of all its results together. */
export const MAX_STREAM = 8 << 20;
export const MAX_RESULTS = 64 << 20;

const CODE_LANGUAGES = ["python", "javascript", "typescript", "bash"] as const;

/** What contexts speak. */
export type CodeLanguage = (typeof CODE_LANGUAGES)[number];

export const codeContext = w.message("CodeContext", {
  id: w.STRING,
  language: w.oneOf("CodeLanguage", CODE_LANGUAGES),
  cwd: w.STRING,
});
/** A process in a sandbox that remembers what code has defined. */
export interface CodeContext extends Read<typeof codeContext> {}

export const contextList = w.message("ListContextsResponse", { contexts: w.many(codeContext) });
/** The contexts of a sandbox. */
export interface ContextList extends Read<typeof contextList> {}

export const codeStarted = w.message("CodeStarted", { context: w.always(codeContext) });

export const codeResult = w.message("CodeResult", {
  /** It is the value of the code's last expression, not something that was shown on the way. */
  isMain: w.BOOL,
  text: w.MAYBE_STRING,
  html: w.MAYBE_STRING,
  markdown: w.MAYBE_STRING,
  svg: w.MAYBE_STRING,
  png: w.MAYBE_BYTES,
  jpeg: w.MAYBE_BYTES,
  pdf: w.MAYBE_BYTES,
  latex: w.MAYBE_STRING,
  javascript: w.MAYBE_STRING,
  /** JSON, read. */
  json: w.MAYBE_JSON,
  /** The rows of a table: an object of columns. */
  data: w.MAYBE_JSON,
  /** What a chart shows: its type, title, axes and elements. */
  chart: w.MAYBE_JSON,
  /** Other forms by their media type; what is no text is JSON. */
  others: w.WORDS,
});
/** A value in all the forms that it has. `undefined` is a form that it has not. */
export interface CodeResult extends Read<typeof codeResult> {}

export const codeError = w.message("CodeError", {
  name: w.STRING,
  value: w.STRING,
  traceback: w.STRING,
  /** What went wrong, in the codes that executions have too; `undefined` for what none of them is of. */
  diagnosis: w.maybe(diagnosis),
});
/** Why code failed. `ContextEnded` is the name when its context's process is gone, with all that was defined. */
export interface CodeError extends Read<typeof codeError> {}

export const codeEnd = w.message("CodeEnd", {
  /** It was the context's run of this number, from 1 on; 0 when its process has not told. */
  executionCount: w.UINT64,
  duration: w.SECONDS,
  /** Turns that the sandbox had left once this one was taken; `undefined` when they have no bound. */
  turnsLeft: w.MAYBE_UINT32,
  /** That the result is to be written now, when 3 and when 1 turns are left. */
  warning: w.STRING,
});
/** A run is over. */
export interface CodeEnd extends Read<typeof codeEnd> {}

export const codeEvent = w.message("RunCodeEvent", {
  /** Always first. */
  started: w.maybe(codeStarted),
  stdout: w.MAYBE_STRING,
  stderr: w.MAYBE_STRING,
  result: w.maybe(codeResult),
  error: w.maybe(codeError),
  /** Always last. */
  end: w.maybe(codeEnd),
});
/** What a run tells: exactly one of these is set. */
export interface CodeEvent extends Read<typeof codeEvent> {}

/** What came of code. Code that fails is a result and no exception. */
export interface CodeRun {
  readonly context: CodeContext;
  /** All values that were shown. */
  readonly results: readonly CodeResult[];
  readonly stdout: string;
  readonly stderr: string;
  readonly error: CodeError | undefined;
  readonly executionCount: number;
  readonly duration: number;
  /** It printed or showed more than is kept. */
  readonly truncated: boolean;
  /** Turns that the sandbox had left once this one was taken; `undefined` when they have no bound. */
  readonly turnsLeft: number | undefined;
  /** That the result is to be written now, when 3 and when 1 turns are left. */
  readonly warning: string;
  /** It did not fail. */
  readonly ok: boolean;
  /** The value of the code's last expression. */
  readonly main: CodeResult | undefined;
  /** That value as text. */
  readonly text: string | undefined;
}

/** About how much a result holds. */
function sizeOf(result: CodeResult): number {
  const { text, html, markdown, svg, png, jpeg, pdf, latex, javascript, others } = result;
  const forms = [text, html, markdown, svg, png, jpeg, pdf, latex, javascript, ...Object.values(others)];
  return forms.reduce((sum, form) => sum + (form?.length ?? 0), 0);
}

/** Some text, bounded. */
class Kept {
  readonly #pieces: string[] = [];
  #length = 0;

  /** Whether all of it is kept. */
  take(text: string): boolean {
    const fits = text.slice(0, MAX_STREAM - this.#length);
    this.#length += fits.length;
    this.#pieces.push(fits);
    return fits.length === text.length;
  }

  text(): string {
    return this.#pieces.join("");
  }
}

/** Puts a run together from what it tells. Code may print for ever: what is kept is bounded. */
export class Collected {
  readonly #stdout = new Kept();
  readonly #stderr = new Kept();
  readonly #results: CodeResult[] = [];
  #held = 0;
  #context: CodeContext | undefined;
  #error: CodeError | undefined;
  #end: CodeEnd | undefined;
  #truncated = false;

  take(event: CodeEvent): void {
    this.#context = event.started?.context ?? this.#context;
    if (event.stdout && !this.#stdout.take(event.stdout)) this.#truncated = true;
    if (event.stderr && !this.#stderr.take(event.stderr)) this.#truncated = true;
    if (event.result !== undefined) {
      this.#held += sizeOf(event.result);
      if (this.#held > MAX_RESULTS) this.#truncated = true;
      else this.#results.push(event.result);
    }
    this.#error = event.error ?? this.#error;
    this.#end = event.end ?? this.#end;
  }

  /** The run, once it is over. */
  run(): CodeRun {
    if (this.#context === undefined || this.#end === undefined) throw new ProtocolError("the run broke off");
    const main = this.#results.find((result) => result.isMain);
    return {
      context: this.#context,
      results: this.#results,
      stdout: this.#stdout.text(),
      stderr: this.#stderr.text(),
      error: this.#error,
      executionCount: this.#end.executionCount,
      duration: this.#end.duration,
      truncated: this.#truncated,
      turnsLeft: this.#end.turnsLeft,
      warning: this.#end.warning,
      ok: this.#error === undefined,
      main,
      text: main?.text,
    };
  }
}
