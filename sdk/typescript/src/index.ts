/** Sandboxes for coding agents: a client of the Rekindle supervisor. */

export { Client } from "./client.js";
export type { ClientOptions } from "./client.js";
export type { CodeContext, CodeError, CodeEvent, CodeLanguage, CodeResult, CodeRun } from "./code.js";
export {
  AlreadyExistsError,
  AuthenticationError,
  CapacityError,
  ConnectionFailedError,
  DeadlineError,
  InvalidRequestError,
  NotFoundError,
  OutputLostError,
  PermissionDeniedError,
  ProtocolError,
  RekindleError,
  SandboxEndedError,
  ServerError,
  WrongStateError,
} from "./errors.js";
export { Execution, Result } from "./execution.js";
export type { Event } from "./execution.js";
export type { Fetch } from "./http.js";
export type {
  CallOptions,
  Code,
  CreateOptions,
  DescribeOptions,
  ExecuteOptions,
  FileOptions,
  ListOptions,
  OutputOptions,
  PauseOptions,
  Program,
  RunCodeOptions,
  StartOptions,
  TimeoutOptions,
  WatchOptions,
  WriteOptions,
} from "./options.js";
export type { Port } from "./port.js";
export { Sandbox } from "./sandbox.js";
export { Stream } from "./stream.js";
export type {
  Connection,
  Description,
  DetachedInfo,
  Diagnosis,
  EndReason,
  ExecutionNetwork,
  ExecutionUsage,
  FileEvent,
  FileEventKind,
  FileInfo,
  FileKind,
  FileList,
  Limits,
  Missed,
  NetworkDenial,
  NetworkPolicy,
  OnTimeout,
  Outcome,
  Output,
  SandboxEnd,
  SandboxEvent,
  SandboxEventKind,
  SandboxInfo,
  SandboxPorts,
  SandboxResult,
  SandboxRules,
  SandboxStart,
  SandboxStartStage,
  SandboxState,
  SandboxTurns,
  SandboxUsage,
  StartKind,
  Started,
  Template,
  Timeline,
  TimelineEntry,
  TimelineOutcome,
  TimelineStep,
} from "./types.js";
export { VERSION } from "./version.js";
