/** For Node, Bun and Deno: files of this machine, by their paths. */

import { open, rename, rm, writeFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import { CHUNK } from "./calls.js";
import type { CallOptions, FileOptions, WriteOptions } from "./options.js";
import type { Sandbox } from "./sandbox.js";
import type { FileInfo } from "./types.js";

/** Writes a file of this machine to `path` in the sandbox, whole or not at all. */
export async function uploadPath(
  sandbox: Sandbox,
  local: string,
  path: string,
  options: WriteOptions & CallOptions = {},
): Promise<FileInfo> {
  const file = await open(local, "r");
  try {
    return await sandbox.uploadFile(content(file), path, options);
  } finally {
    await file.close();
  }
}

/** Writes a file of the sandbox to one of this machine, whole or not at all. A directory comes as a tar archive. */
export async function downloadPath(
  sandbox: Sandbox,
  path: string,
  local: string,
  options: FileOptions & CallOptions & { maxBytes?: number } = {},
): Promise<void> {
  const aside = join(dirname(local), `.${basename(local)}.${crypto.randomUUID()}`);
  try {
    await writeFile(aside, sandbox.downloadFile(path, options), { flag: "wx" });
    await rename(aside, local);
  } catch (error) {
    await rm(aside, { force: true });
    throw error;
  }
}

function content(file: FileHandle): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { bytesRead, buffer } = await file.read(new Uint8Array(CHUNK), 0, CHUNK, null);
        if (bytesRead === 0) controller.close();
        else controller.enqueue(buffer.subarray(0, bytesRead));
      },
    },
    { highWaterMark: 0 },
  );
}
