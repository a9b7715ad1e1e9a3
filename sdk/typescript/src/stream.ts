/** Answers of a call as they come. */

/**
 * What a call tells, one after another: for `for await`. Who leaves the loop closes it, and a call that is closed is
 * given up: its program is killed. `close` does so from outside of the loop, `await using` at the end of a block.
 */
export class Stream<T> implements AsyncIterableIterator<T> {
  readonly #answers: AsyncGenerator<T, void, undefined>;
  readonly #controller: AbortController;

  /** `make` begins when the first answer is asked for; it ends without an error when its signal is aborted. */
  constructor(make: (closed: AbortSignal) => AsyncGenerator<T, void, undefined>) {
    this.#controller = new AbortController();
    this.#answers = make(this.#controller.signal);
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    const answer = await this.#answers.next();
    return answer.done ? { done: true, value: undefined } : answer;
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    await this.close();
    return { done: true, value: undefined };
  }

  /** Gives the call up, also while somebody waits for its next answer: that ends then. */
  async close(): Promise<void> {
    this.#controller.abort();
    await this.#answers.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The same with each answer made into another one. */
  map<U>(change: (answer: T) => U): Stream<U> {
    const from = this;
    return new Stream(async function* (closed) {
      closed.addEventListener("abort", () => void from.close());
      try {
        for await (const answer of from) yield change(answer);
      } finally {
        await from.close();
      }
    });
  }
}
