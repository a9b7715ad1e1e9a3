/** The little of Node that `node.ts` and `local.ts` use, so that the package is built with the compiler alone. */

declare module "node:fs/promises" {
  export interface FileHandle {
    read(
      buffer: Uint8Array<ArrayBuffer>,
      offset: number,
      length: number,
      position: null,
    ): Promise<{ bytesRead: number; buffer: Uint8Array<ArrayBuffer> }>;
    close(): Promise<void>;
  }
  export function open(path: string, flags: string): Promise<FileHandle>;
  export function writeFile(path: string, data: AsyncIterable<Uint8Array>, options: { flag: string }): Promise<void>;
  export function rename(from: string, to: string): Promise<void>;
  export function rm(path: string, options: { force: boolean }): Promise<void>;
}

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
  export function basename(path: string): string;
  export function dirname(path: string): string;
  export function join(...parts: string[]): string;
}
