/** The little of Node that `node.ts` uses, so that the package is built with the compiler alone. */

declare module "node:http" {
  export interface IncomingMessage extends AsyncIterable<Uint8Array> {
    readonly statusCode?: number;
    readonly headersDistinct: Record<string, string[] | undefined>;
    destroy(error?: Error): void;
  }
  export interface ClientRequest {
    on(event: "response", listener: (answer: IncomingMessage) => void): this;
    on(event: "error", listener: (error: Error) => void): this;
    once(event: "drain" | "close", listener: () => void): this;
    readonly destroyed: boolean;
    write(data: Uint8Array): boolean;
    end(data?: Uint8Array): void;
    destroy(error?: Error): void;
  }
  export class Agent {
    constructor(options: { keepAlive?: boolean });
  }
  export function request(options: {
    agent: Agent;
    headers: Record<string, string>;
    method: string;
    path: string;
    socketPath: string;
  }): ClientRequest;
}

declare module "node:os" {
  export function homedir(): string;
}

declare module "node:path" {
  export function join(...parts: string[]): string;
}
