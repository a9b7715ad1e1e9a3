/** Why a call failed. A program that ends with an exit code other than zero is a result and none of these. */

/** What an error knows besides its message. */
export interface ErrorFields {
  code?: string;
  reason?: string;
  retryable?: boolean;
  retryAfter?: number | undefined;
  hint?: string;
  endReason?: string;
  cause?: unknown;
}

/** Whatever goes wrong. */
export class RekindleError extends Error {
  /** gRPC's word in lower case, such as `resource_exhausted`; empty where the server said nothing. */
  readonly code: string;
  /** The server's own word, such as `HOST_FULL`: what a program branches by. Empty where the server said nothing. */
  readonly reason: string;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  /** When, in seconds. */
  readonly retryAfter: number | undefined;
  /** What a person can do about it. */
  readonly hint: string;
  /** How the sandbox ended, such as `expired`, when that is why. */
  readonly endReason: string;

  constructor(message: string, fields: ErrorFields = {}) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = new.target.name;
    this.code = fields.code ?? "";
    this.reason = fields.reason ?? "";
    this.retryable = fields.retryable ?? false;
    this.retryAfter = fields.retryAfter;
    this.hint = fields.hint ?? "";
    this.endReason = fields.endReason ?? "";
  }

  override toString(): string {
    const hint = this.hint ? `\nhint: ${this.hint}` : "";
    return this.reason ? `${this.reason}: ${this.message}${hint}` : `${this.message}${hint}`;
  }
}

/** There is no valid token. */
export class AuthenticationError extends RekindleError {}

/** The token, or the sandbox's user, may not do this. */
export class PermissionDeniedError extends RekindleError {}

/** The request makes no sense, or asks for more than there may be. */
export class InvalidRequestError extends RekindleError {}

/** There is no such sandbox, template, path, program or execution. */
export class NotFoundError extends RekindleError {}

/** The path exists, or the key was used for another request. */
export class AlreadyExistsError extends RekindleError {}

/** It cannot be done as things are: the sandbox is paused, a path is of the wrong kind, a program cannot be started. */
export class WrongStateError extends RekindleError {}

/** The sandbox has ended, or was lost under the call; create a new one. */
export class SandboxEndedError extends RekindleError {}

/** There is no room, or it was asked for too much too often. */
export class CapacityError extends RekindleError {}

/** The deadline of the call was over. */
export class DeadlineError extends RekindleError {}

/** The server failed, or is going away. */
export class ServerError extends RekindleError {}

/** The server cannot be reached, or the connection was lost. Nobody knows whether the call was carried out. */
export class ConnectionFailedError extends RekindleError {}

/**
 * A program printed more than its sandbox kept: `keptBytes` of `totalBytes`, the first ones. They are what
 * `fullStdout({ partial: true })` returns.
 */
export class OutputLostError extends RekindleError {
  constructor(
    readonly keptBytes: number,
    readonly totalBytes: number,
  ) {
    const what = keptBytes > 0 ? `its first ${keptBytes} bytes were kept` : "only its shortened text was kept";
    super(`${totalBytes - keptBytes} of ${totalBytes} bytes of the output are lost: ${what}`, {
      hint: "{ partial: true } returns what there is; a program that prints this much had better write to a file",
    });
  }
}

/** The other side does not speak this API, or broke off. */
export class ProtocolError extends ConnectionFailedError {}

type ErrorClass = new (message: string, fields?: ErrorFields) => RekindleError;

/** The class of every reason there is. */
export const REASONS: ReadonlyMap<string, ErrorClass> = new Map<string, ErrorClass>([
  ["INVALID_REQUEST", InvalidRequestError],
  ["LIMIT_EXCEEDED", InvalidRequestError],
  ["UNKNOWN_TEMPLATE", NotFoundError],
  ["UNKNOWN_SANDBOX", NotFoundError],
  ["SANDBOX_ENDED", SandboxEndedError],
  ["SANDBOX_PAUSED", WrongStateError],
  ["AGENT_LOST", SandboxEndedError],
  ["VM_LOST", SandboxEndedError],
  ["OUT_OF_MEMORY", SandboxEndedError],
  ["START_FAILED", ServerError],
  ["HOST_FULL", CapacityError],
  ["QUEUE_FULL", CapacityError],
  ["QUOTA_EXCEEDED", CapacityError],
  ["BUSY", CapacityError],
  ["UNAUTHENTICATED", AuthenticationError],
  ["MISSING_SCOPE", PermissionDeniedError],
  ["KEY_REUSED", AlreadyExistsError],
  ["NOT_FOUND", NotFoundError],
  ["PERMISSION_DENIED", PermissionDeniedError],
  ["ALREADY_EXISTS", AlreadyExistsError],
  ["WRONG_FILE_KIND", WrongStateError],
  ["NO_SPACE", CapacityError],
  ["CORRUPTED", ServerError],
  ["SPAWN_FAILED", WrongStateError],
  ["SHUTTING_DOWN", ServerError],
  ["WATCH_LAGGED", CapacityError],
  ["INTERNAL", ServerError],
  ["DEADLINE", DeadlineError],
  ["HOST_DISK_FULL", CapacityError],
  ["UNKNOWN_METHOD", ServerError],
  ["RATE_LIMITED", CapacityError],
  ["NETWORK_FORBIDDEN", PermissionDeniedError],
  ["ROOT_FORBIDDEN", PermissionDeniedError],
  ["TURNS_SPENT", CapacityError],
]);

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The error for one that Connect has in JSON. */
export function errorOf(error: unknown): RekindleError {
  if (!isFields(error)) return new ProtocolError("the server sent an error that is none");
  const details = new Map<string, Fields>();
  for (const one of Array.isArray(error["details"]) ? (error["details"] as unknown[]) : []) {
    if (isFields(one) && isFields(one["debug"])) details.set(text(one["type"]), one["debug"]);
  }
  const own = details.get("rekindle.v1.ErrorDetail") ?? {};
  const reason = text(details.get("google.rpc.ErrorInfo")?.["reason"]);
  const delay = Number.parseFloat(text(details.get("google.rpc.RetryInfo")?.["retryDelay"]));
  const end = isFields(own["end"]) ? text(own["end"]["reason"]) : "";
  const Class = REASONS.get(reason) ?? RekindleError;
  return new Class(text(error["message"]) || "the server gave no reason", {
    code: text(error["code"]),
    reason,
    retryable: own["retryable"] === true,
    retryAfter: Number.isFinite(delay) ? delay : undefined,
    hint: text(own["hint"]),
    endReason: end.replace(/^SANDBOX_END_REASON_/, "").toLowerCase(),
  });
}
