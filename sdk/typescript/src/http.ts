/** What this package has of `fetch`: how long it waits, how it is given up, and what its failures are here. */

import { late } from "./calls.js";
import { ConnectionFailedError, RekindleError } from "./errors.js";

/** How much longer than the deadline to wait for the server to say that it is over, in seconds. */
const GRACE = 5;
/** Longest wait that a timer can be set to, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Something that makes requests as `fetch` does. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Holds a call to its deadline and to its caller's signal. */
export class Watch {
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #given: AbortSignal | undefined;
  readonly #deadline: number | undefined;
  #late = false;
  readonly #abort = (): void => this.#controller.abort();

  constructor(deadline: number | undefined, given: AbortSignal | undefined) {
    given?.throwIfAborted();
    this.#deadline = deadline;
    this.#given = given;
    given?.addEventListener("abort", this.#abort);
    if (deadline !== undefined) {
      const wait = Math.min((Math.max(deadline, 0) + GRACE) * 1000, LONGEST_TIMER);
      this.#timer = setTimeout(() => {
        this.#late = true;
        this.#abort();
      }, wait);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Gives up. */
  abort(): void {
    this.#abort();
  }

  /** What a failure of `fetch` means. */
  failure(error: unknown): unknown {
    if (this.#given?.aborted) return this.#given.reason;
    if (this.#late) return late(this.#deadline ?? 0);
    if (error instanceof RekindleError) return error;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const said = cause instanceof Error ? cause.message || cause.name : String(cause);
    return new ConnectionFailedError(`the server cannot be reached, or the connection was lost: ${said}`, { cause: error });
  }

  /** Nothing is waited for any more. */
  done(): void {
    clearTimeout(this.#timer);
    this.#given?.removeEventListener("abort", this.#abort);
  }
}

/** Waits some seconds, or throws the signal's reason when it is aborted. */
export async function pause(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

interface Dispatcher {
  dispatch(options: object, handler: unknown): unknown;
}

/**
 * What `fetch` is told so that it does not give up by itself: programs may say nothing for as long as they like. Node's
 * does after five minutes unless its dispatcher says otherwise, and Bun's too.
 */
export function patience(): object {
  const runtime = globalThis as { Bun?: unknown; [name: symbol]: unknown };
  if (runtime.Bun !== undefined) return { timeout: false };
  // Node has it once anything of `fetch` was used.
  new Headers();
  const current = (): Dispatcher | undefined => runtime[Symbol.for("undici.globalDispatcher.1")] as Dispatcher | undefined;
  if (current() === undefined) return {};
  return {
    dispatcher: {
      // Whichever is in force then, such as one for a proxy.
      dispatch: (options: object, handler: unknown) =>
        current()?.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler),
    },
  };
}

/** Whether `fetch` sends a body while it is made; else it has to be whole before. */
export function streamsBodies(): boolean {
  let asked = false;
  try {
    const init = {
      body: new ReadableStream(),
      method: "POST",
      get duplex() {
        asked = true;
        return "half";
      },
    };
    // Where a stream is not known as a body it is sent as text.
    return !new Request("http://localhost", init).headers.has("content-type") && asked;
  } catch {
    return false;
  }
}
