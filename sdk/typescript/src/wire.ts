/**
 * The API's messages in JSON, and the frames of its streams. No input or output happens here.
 *
 * What is read of an answer is declared once, in `types.ts` and `code.ts`, with the name and the kind it has in the API's
 * description; `tests/description.test.mjs` holds every declaration against the description a server serves.
 */

import { ProtocolError, errorOf, type RekindleError } from "./errors.js";

export type Json = Record<string, unknown>;

const encoder = new TextEncoder();
// A mark of byte order is content, as any other character.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** How a field is read, and what it must be in the description. */
export interface Kind<T> {
  readonly proto: string;
  readonly read: (value: unknown) => T;
  /** What it is where the answer does not have it. */
  readonly absent: () => T;
  /** Full name of the message or enum; `*` where it has no fixed one. */
  readonly typeName?: string;
  readonly repeated?: boolean;
  /** The values of an enum, as they are told here. */
  readonly values?: readonly string[];
}

type Shape = Record<string, Kind<unknown>>;

/** A message: its fields by their names in JSON, which are theirs here too. */
export interface Message<S extends Shape> {
  readonly message: string;
  readonly shape: S;
}

/** What is read of a message. */
export type Read<M> = M extends Message<infer S>
  ? { readonly [K in keyof S]: S[K] extends Kind<infer T> ? T : never }
  : never;

export function message<const S extends Shape>(name: string, shape: S): Message<S> {
  return { message: `rekindle.v1.${name}`, shape };
}

/** A message as an object. What this version does not know is left out. */
export function decode<S extends Shape>(kind: Message<S>, value: unknown): Read<Message<S>> {
  const from = fieldsOf(value);
  if (from === undefined) throw new ProtocolError(`the server sent no ${kind.message}`);
  const read: Json = {};
  for (const [name, field] of Object.entries(kind.shape)) {
    const got = Object.hasOwn(from, name) ? from[name] : undefined;
    try {
      // Nothing is ever sent as null.
      read[name] = got === undefined || got === null ? field.absent() : field.read(got);
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      throw new ProtocolError(`the server sent a ${kind.message} whose ${name} cannot be read`, { cause: error });
    }
  }
  return read as Read<Message<S>>;
}

function fieldsOf(value: unknown): Json | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

// Kinds.

function asString(value: unknown): string {
  if (typeof value !== "string") throw new TypeError("no text");
  return value;
}

function asBool(value: unknown): boolean {
  if (typeof value !== "boolean") throw new TypeError("no truth value");
  return value;
}

/** 64-bit numbers are texts in JSON. What is more than 2^53 loses its last digits: no size or count is. */
function asNumber(value: unknown): number {
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number !== "number" || !Number.isInteger(number)) throw new TypeError("no number");
  return number;
}

function asSeconds(value: unknown): number {
  const match = /^(-?\d+(?:\.\d+)?)s$/.exec(asString(value));
  if (match === null) throw new TypeError("no duration");
  return Number(match[1]);
}

function asTime(value: unknown): Date {
  // Nanoseconds are more than `Date` has, and than every platform parses.
  const time = new Date(asString(value).replace(/(\.\d{3})\d+/, "$1"));
  if (Number.isNaN(time.getTime())) throw new TypeError("no time");
  return time;
}

function asWords(value: unknown): Record<string, string> {
  const from = fieldsOf(value);
  if (from === undefined) throw new TypeError("no map");
  return Object.fromEntries(Object.entries(from).map(([key, one]) => [key, asString(one)]));
}

function asStrings(value: unknown): string[] {
  if (!Array.isArray(value)) throw new TypeError("no list");
  return value.map(asString);
}

function asReason(value: unknown): string {
  return String(value).replace(/^ERROR_REASON_/, "");
}

function asJson(value: unknown): unknown {
  // Of a guest: what is no JSON is as good as not there.
  try {
    return JSON.parse(asString(value));
  } catch {
    return undefined;
  }
}

const nothing = (): undefined => undefined;
const zero = (): number => 0;
const empty = (): string => "";

function kind<T>(proto: string, read: (value: unknown) => T, absent: () => T, more: Partial<Kind<T>> = {}): Kind<T> {
  return { proto: `TYPE_${proto}`, read, absent, ...more };
}

const DURATION = { typeName: "google.protobuf.Duration" };
export const STRING = kind("STRING", asString, empty);
export const MAYBE_STRING = kind<string | undefined>("STRING", asString, nothing);
/** A text that is JSON, read. */
export const MAYBE_JSON = kind<unknown>("STRING", asJson, nothing);
export const BOOL = kind("BOOL", asBool, () => false);
export const MAYBE_BOOL = kind<boolean | undefined>("BOOL", asBool, nothing);
export const UINT32 = kind("UINT32", asNumber, zero);
export const UINT64 = kind("UINT64", asNumber, zero);
export const MAYBE_UINT32 = kind<number | undefined>("UINT32", asNumber, nothing);
export const MAYBE_UINT64 = kind<number | undefined>("UINT64", asNumber, nothing);
export const BYTES = kind("BYTES", (value) => unbase64(asString(value)), () => new Uint8Array());
export const MAYBE_BYTES = kind<Uint8Array<ArrayBuffer> | undefined>("BYTES", (value) => unbase64(asString(value)), nothing);
export const PATH = kind("BYTES", (value) => pathOf(unbase64(asString(value))), empty);
export const SECONDS = kind("MESSAGE", asSeconds, zero, DURATION);
export const MAYBE_SECONDS = kind<number | undefined>("MESSAGE", asSeconds, nothing, DURATION);
export const MAYBE_TIME = kind<Date | undefined>("MESSAGE", asTime, nothing, { typeName: "google.protobuf.Timestamp" });
/** Why something failed: a text as errors have it, also where this version does not know it. */
export const REASON = kind<string | undefined>("ENUM", asReason, nothing, { typeName: "rekindle.v1.ErrorReason" });
export const STRINGS = kind<string[]>("STRING", asStrings, () => [], { repeated: true });
/** A map of texts is a repeated message in a description, of a type without a fixed name. */
export const WORDS = kind<Record<string, string>>("MESSAGE", asWords, () => ({}), { typeName: "*", repeated: true });

/** An empty message: it is there or it is not. */
export function present(name: string): Kind<boolean> {
  return kind("MESSAGE", () => true, () => false, { typeName: `rekindle.v1.${name}` });
}

/** An enum, by the end of its values' names in lower case. A value that this version does not know is `undefined`. */
export function oneOf<const V extends string>(name: string, values: readonly V[]): Kind<V | undefined> {
  const prefix = prefixOf(name);
  const read = (value: unknown): V | undefined => values.find((one) => prefix + one.toUpperCase() === value);
  return kind<V | undefined>("ENUM", read, nothing, { typeName: `rekindle.v1.${name}`, values });
}

/** What the names of an enum's values begin with. */
export function prefixOf(name: string): string {
  return `${name.replace(/(?!^)([A-Z])/g, "_$1").toUpperCase()}_`;
}

/** A message that may be absent. */
export function maybe<S extends Shape>(of: Message<S>): Kind<Read<Message<S>> | undefined> {
  return kind<Read<Message<S>> | undefined>("MESSAGE", (value) => decode(of, value), nothing, { typeName: of.message });
}

/** A message; one that is absent reads as an empty one. */
export function always<S extends Shape>(of: Message<S>): Kind<Read<Message<S>>> {
  return kind("MESSAGE", (value) => decode(of, value), () => decode(of, {}), { typeName: of.message });
}

/** Any number of messages. */
export function many<S extends Shape>(of: Message<S>): Kind<Read<Message<S>>[]> {
  const read = (value: unknown): Read<Message<S>>[] => {
    if (!Array.isArray(value)) throw new TypeError("no list");
    return value.map((one) => decode(of, one));
  };
  return kind("MESSAGE", read, () => [], { typeName: of.message, repeated: true });
}

// Bytes and paths.

/** Bytes in JSON. */
export function base64(data: Uint8Array): string {
  const pieces: string[] = [];
  // A multiple of three, and few enough to be arguments.
  const step = 0x6000;
  for (let at = 0; at < data.length; at += step) {
    pieces.push(btoa(String.fromCharCode(...data.subarray(at, at + step))));
  }
  return pieces.join("");
}

export function unbase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const data = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) data[at] = binary.charCodeAt(at);
  return data;
}

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

/** A path is bytes; each that is no UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF, and goes back as it came. */
export function pathOf(data: Uint8Array): string {
  try {
    return decoder.decode(data);
  } catch {
    let text = "";
    for (let at = 0; at < data.length; ) {
      const first = data[at] ?? 0;
      const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
      try {
        text += decoder.decode(data.subarray(at, at + length));
        at += length;
      } catch {
        text += String.fromCharCode(0xdc00 + first);
        at += 1;
      }
    }
    return text;
  }
}

/** A path in JSON. */
export function path64(path: string): string {
  const bytes: number[] = [];
  for (const character of path) {
    const code = character.codePointAt(0) ?? 0;
    if (code >= 0xdc80 && code <= 0xdcff) bytes.push(code - 0xdc00);
    else bytes.push(...encoder.encode(character));
  }
  return base64(Uint8Array.from(bytes));
}

/** Pieces in one. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

// Requests.

/** A duration in JSON. */
export function span(seconds: number): string {
  if (!Number.isFinite(seconds)) throw new RangeError(`${seconds} is no number of seconds`);
  return `${seconds.toFixed(9).replace(/\.?0+$/, "")}s`;
}

/** A message of those fields that say anything. */
export function fields(values: Json): Json {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => says(value)));
}

function says(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === 0 || value === false) return false;
  return !(typeof value === "object" && Object.keys(value).length === 0);
}

// Frames.

/** The last frame of a stream. */
const END = 2;
/** Largest message that is read of a stream. The server sends less than 1 MiB at a time. */
const MAX_MESSAGE = 64 << 20;

/** A message of a stream. */
export function frame(value: Json): Uint8Array<ArrayBuffer> {
  const body = encoder.encode(JSON.stringify(value));
  const framed = new Uint8Array(5 + body.length);
  new DataView(framed.buffer).setUint32(1, body.length);
  framed.set(body, 5);
  return framed;
}

/** A message in JSON. */
export function parse(body: Uint8Array): Json {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(body));
  } catch (error) {
    throw new ProtocolError("the server sent what is no JSON", { cause: error });
  }
  const message = fieldsOf(value);
  if (message === undefined) throw new ProtocolError("the server sent what is no message");
  return message;
}

/** Takes the frames of an answer apart. It has ended only where its last frame says so. */
export class Frames {
  #buffer = new Uint8Array(16 << 10);
  #from = 0;
  #to = 0;
  #ended = false;
  #failed: RekindleError | undefined;

  /** The messages that are whole with this much more of the answer. */
  feed(data: Uint8Array): Json[] {
    this.#append(data);
    const messages: Json[] = [];
    while (this.#to - this.#from >= 5) {
      const flags = this.#buffer[this.#from];
      const length = new DataView(this.#buffer.buffer).getUint32(this.#from + 1);
      if (length > MAX_MESSAGE || (flags !== 0 && flags !== END) || this.#ended) {
        throw new ProtocolError("the server sent what is no frame");
      }
      const end = this.#from + 5 + length;
      if (end > this.#to) break;
      const value = parse(this.#buffer.subarray(this.#from + 5, end));
      this.#from = end;
      if (flags === END) {
        this.#ended = true;
        if ("error" in value) this.#failed = errorOf(value["error"]);
      } else {
        messages.push(value);
      }
    }
    return messages;
  }

  #append(data: Uint8Array): void {
    const held = this.#to - this.#from;
    if (this.#to + data.length > this.#buffer.length) {
      const room = held + data.length;
      const larger = room > this.#buffer.length ? new Uint8Array(room * 2) : this.#buffer;
      larger.set(this.#buffer.subarray(this.#from, this.#to));
      this.#buffer = larger;
      this.#from = 0;
      this.#to = held;
    }
    this.#buffer.set(data, this.#to);
    this.#to += data.length;
  }

  /** Whether the stream has ended; throws what it has ended with. */
  check(): boolean {
    if (this.#failed !== undefined) throw this.#failed;
    return this.#ended;
  }

  /** There is no more to come. */
  end(): void {
    if (!this.check()) throw new ProtocolError("the connection was lost before the stream had ended");
  }
}
