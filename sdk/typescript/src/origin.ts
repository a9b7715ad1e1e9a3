/** The trace and the step that calls are part of, as their headers say it. */

import { variable } from "./config.js";

const PARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$/;
const ID = /^[0-9a-f]{32}$/;
const STEP = /^[!-~]([ -~]{0,62}[!-~])?$/;

/** The header of a trace that is named by a `traceparent`, or by the 32 digits of its id. */
export function traceparent(trace: string): string {
  if (PARENT.test(trace)) return trace;
  if (!ID.test(trace)) {
    throw new TypeError(`${JSON.stringify(trace)} names no trace; use a traceparent, or 32 hexadecimal digits`);
  }
  const span = crypto.getRandomValues(new Uint8Array(8));
  span[7] = 1; // All zero would be none.
  return `00-${trace}-${Array.from(span, (byte) => byte.toString(16).padStart(2, "0")).join("")}-01`;
}

/** The header of a step. */
export function stepName(name: string): string {
  if (!STEP.test(name)) {
    throw new TypeError(`${JSON.stringify(name)} names no step; use 1 to 64 printable ASCII characters`);
  }
  return name;
}

/** The trace of the environment. One that is none is left out, as W3C wants it. */
export function inherited(): string | undefined {
  const parent = variable("TRACEPARENT");
  return parent !== undefined && PARENT.test(parent) ? parent : undefined;
}
