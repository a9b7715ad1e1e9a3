/** What the server tells. Sizes are bytes, times seconds. What an answer does not have is `undefined`. */

import * as w from "./wire.js";
import type { Read } from "./wire.js";

const SANDBOX_STATES = ["running", "paused", "ending", "ended"] as const;
const ON_TIMEOUT = ["destroy", "pause", "pause_until_used", "pause_without_memory"] as const;
const END_REASONS = ["destroyed", "expired", "idle", "out_of_memory", "agent_lost", "vm_lost", "shutdown"] as const;
const START_KINDS = ["parked", "prespawned", "restored"] as const;
const SANDBOX_EVENT_KINDS = [
  "existing", "created", "paused", "resumed", "timeout_changed", "ended", "network_changed",
] as const;
const FILE_KINDS = ["file", "directory", "symlink", "other"] as const;
const FILE_EVENT_KINDS = ["created", "written", "removed", "renamed", "changed"] as const;

/** Where a sandbox is in its life. */
export type SandboxState = (typeof SANDBOX_STATES)[number];
/**
 * What happens to a sandbox whose time to live is over: `pause` is until `resume`, `pause_until_used` also until
 * something is done in it, and `pause_without_memory` keeps its files alone.
 */
export type OnTimeout = (typeof ON_TIMEOUT)[number];
/** Why a sandbox ended. */
export type EndReason = (typeof END_REASONS)[number];
/**
 * Where the machine of a sandbox came from: `parked` had been restored beforehand and was waiting, of `prespawned` the
 * monitor had been started beforehand, `restored` was for this request.
 */
export type StartKind = (typeof START_KINDS)[number];
/** What can happen to a sandbox; `existing` was there when the watch began. */
export type SandboxEventKind = (typeof SANDBOX_EVENT_KINDS)[number];
/** What a path can be. */
export type FileKind = (typeof FILE_KINDS)[number];
/** What can happen to a file. */
export type FileEventKind = (typeof FILE_EVENT_KINDS)[number];

export const limits = w.message("Limits", {
  milliCpus: w.UINT32,
  memoryBytes: w.UINT64,
  pids: w.UINT32,
});
/** What a sandbox may use; 0 means the server's default. */
export interface Limits extends Read<typeof limits> {}

export const sandboxEnd = w.message("SandboxEnd", {
  reason: w.oneOf("SandboxEndReason", END_REASONS),
  message: w.STRING,
  endedAt: w.MAYBE_TIME,
});
/** How a sandbox came to its end. */
export interface SandboxEnd extends Read<typeof sandboxEnd> {}

export const sandboxUsage = w.message("SandboxUsage", {
  executions: w.UINT64,
  cpuTime: w.MAYBE_SECONDS,
  memoryBytes: w.MAYBE_UINT64,
  memoryPeakBytes: w.MAYBE_UINT64,
  bytesIn: w.UINT64,
  bytesOut: w.UINT64,
  runningTime: w.SECONDS,
  /** Connections to the outside, whatever became of them, */
  connections: w.UINT64,
  /** and those that were denied. */
  connectionsDenied: w.UINT64,
  networkBytesUp: w.UINT64,
  networkBytesDown: w.UINT64,
  /** Requests of plain HTTP; those inside TLS cannot be counted. */
  networkRequests: w.UINT64,
  /** Requests that the gateway has let through, and what they cost, in the operator's units. */
  gatewayRequests: w.UINT64,
  gatewayCost: w.UINT64,
});
/** What a sandbox has used. */
export interface SandboxUsage extends Read<typeof sandboxUsage> {}

export const sandboxStartStage = w.message("SandboxStartStage", { name: w.STRING, duration: w.SECONDS });
/** One step of a start. */
export interface SandboxStartStage extends Read<typeof sandboxStartStage> {}

export const sandboxStart = w.message("SandboxStart", {
  kind: w.oneOf("SandboxStartKind", START_KINDS),
  /** How long it waited for room. */
  queued: w.SECONDS,
  stages: w.many(sandboxStartStage),
  /** From the request's arrival to the answer. */
  total: w.SECONDS,
});
/** How a sandbox was started, and where the time went. */
export interface SandboxStart extends Read<typeof sandboxStart> {}

export const sandboxTurns = w.message("SandboxTurns", { max: w.UINT32, left: w.UINT32 });
/** How many executions may be started in a sandbox. */
export interface SandboxTurns extends Read<typeof sandboxTurns> {}

export const sandboxResult = w.message("SandboxResult", { path: w.STRING, exists: w.MAYBE_BOOL });
/** Where the result of a sandbox is to be, and whether it is there: `undefined` when nobody could tell. */
export interface SandboxResult extends Read<typeof sandboxResult> {}

export const sandboxPorts = w.message("SandboxPorts", { url: w.STRING, token: w.STRING });
/** How the ports of a sandbox are reached: `Sandbox.port` puts it together. */
export interface SandboxPorts extends Read<typeof sandboxPorts> {}

export const sandboxInfo = w.message("Sandbox", {
  id: w.STRING,
  template: w.STRING,
  state: w.oneOf("SandboxState", SANDBOX_STATES),
  end: w.maybe(sandboxEnd),
  createdAt: w.MAYBE_TIME,
  expiresAt: w.MAYBE_TIME,
  idleTimeout: w.MAYBE_SECONDS,
  metadata: w.WORDS,
  limits: w.always(limits),
  usage: w.always(sandboxUsage),
  start: w.always(sandboxStart),
  tenant: w.STRING,
  network: w.STRING,
  onTimeout: w.oneOf("OnTimeout", ON_TIMEOUT),
  /** `undefined` when they have no bound. */
  turns: w.maybe(sandboxTurns),
  /** `undefined` when nobody said where it is to be. */
  result: w.maybe(sandboxResult),
  /** What its programs may ask of the gateway, as `service/operation`. */
  gateway: w.STRINGS,
  /** What they may spend there; undefined when it has no bound. */
  gatewayBudget: w.MAYBE_UINT64,
  withoutMemory: w.BOOL,
  /** `undefined` where nobody can, or the caller may not, and in lists. */
  ports: w.maybe(sandboxPorts),
});
/** A sandbox as its tenant sees it. */
export interface SandboxInfo extends Read<typeof sandboxInfo> {}

export const sandboxPage = w.message("ListSandboxesResponse", {
  sandboxes: w.many(sandboxInfo),
  nextPageToken: w.STRING,
});
/** Some sandboxes. */
export interface SandboxPage extends Read<typeof sandboxPage> {}

export const sandboxEvent = w.message("SandboxEvent", {
  kind: w.oneOf("SandboxEventKind", SANDBOX_EVENT_KINDS),
  at: w.MAYBE_TIME,
  /** As it was right after. */
  sandbox: w.always(sandboxInfo),
});
/** Something happened to a sandbox. */
export interface SandboxEvent extends Read<typeof sandboxEvent> {}

export const template = w.message("Template", {
  name: w.STRING,
  description: w.STRING,
  vcpus: w.UINT32,
  memoryBytes: w.UINT64,
  diskBytes: w.UINT64,
  isDefault: w.BOOL,
  /** What is installed in it, such as `pip:numpy 2.4.6`; empty where its image does not tell. */
  packages: w.STRINGS,
  /** The caller may be root in its sandboxes. */
  rootAllowed: w.BOOL,
});
/** What sandboxes can be made from. */
export interface Template extends Read<typeof template> {}

export const networkPolicy = w.message("NetworkPolicy", {
  name: w.STRING,
  /** Every public name and address, on every port. */
  everything: w.BOOL,
  /** What it lets through otherwise, such as `tls pypi.org:443`. */
  rules: w.STRINGS,
});
/** What sandboxes may reach that are created with its name as `network`. */
export interface NetworkPolicy extends Read<typeof networkPolicy> {}

export const sandboxRules = w.message("SandboxRules", {
  ttl: w.SECONDS,
  maxTtl: w.SECONDS,
  /** `undefined` when a sandbox may go without a call for ever. */
  idleTimeout: w.MAYBE_SECONDS,
  executeTimeout: w.SECONDS,
  maxExecuteTimeout: w.SECONDS,
  outputLimit: w.UINT32,
  maxOutputLimit: w.UINT32,
  maxUploadBytes: w.UINT64,
  maxDownloadBytes: w.UINT64,
});
/** What the operator decided about all sandboxes: what holds when a caller does not say, and the most there may be. */
export interface SandboxRules extends Read<typeof sandboxRules> {}

export const templateList = w.message("ListTemplatesResponse", {
  templates: w.many(template),
  networks: w.many(networkPolicy),
  rules: w.always(sandboxRules),
});
/** The templates of a server, and what holds for sandboxes of every one of them. */
export interface TemplateList extends Read<typeof templateList> {}

export const outcome = w.message("ExecutionOutcome", {
  exitCode: w.MAYBE_UINT32,
  signal: w.MAYBE_UINT32,
  timedOut: w.present("ExecutionTimedOut"),
  outOfMemory: w.present("ExecutionOutOfMemory"),
  cancelled: w.present("ExecutionCancelled"),
});
/** How an execution ended: exactly one of these is set. */
export interface Outcome extends Read<typeof outcome> {}

export const output = w.message("Output", {
  text: w.STRING,
  truncated: w.BOOL,
  totalBytes: w.UINT64,
  totalChars: w.UINT64,
  /** Where in the sandbox the exact bytes are; empty when they are not. */
  spilledPath: w.PATH,
  /** How many of them: fewer than `totalBytes` where the rest is lost. */
  spilledBytes: w.UINT64,
});
/** What was collected of one stream: of a long one head and tail, with a marker between them. */
export interface Output extends Read<typeof output> {}

export const executionUsage = w.message("ExecutionUsage", {
  wallTime: w.SECONDS,
  cpuTime: w.SECONDS,
  memoryPeakBytes: w.MAYBE_UINT64,
});
/** What an execution took. */
export interface ExecutionUsage extends Read<typeof executionUsage> {}

export const diagnosis = w.message("Diagnosis", {
  kind: w.STRING,
  subject: w.STRING,
  /** What to do about it, in one line. */
  hint: w.STRING,
  /** Names of what is installed that may have been meant. */
  near: w.STRINGS,
});
/** What went wrong, with a stable code to branch on in `kind`: docs/guides/diagnoses.md lists them. */
export interface Diagnosis extends Read<typeof diagnosis> {}

export const networkDenial = w.message("NetworkDenial", {
  /** One word, such as `not_allowed` or `private_address`. */
  reason: w.STRING,
  message: w.STRING,
  host: w.STRING,
  port: w.UINT32,
  rule: w.STRING,
});
/** A connection that was not let through. */
export interface NetworkDenial extends Read<typeof networkDenial> {}

export const executionNetwork = w.message("ExecutionNetwork", {
  /** Whatever became of them. */
  connections: w.UINT64,
  /** Those that were denied, at once or later. */
  denied: w.UINT64,
  /** Those that were allowed and that nobody answered. */
  failed: w.UINT64,
  bytesUp: w.UINT64,
  bytesDown: w.UINT64,
  /** The first 16 denials. */
  denials: w.many(networkDenial),
});
/**
 * What an execution did on the network; all is 0 when it did nothing there. Which connections are its own is the sandbox's
 * word.
 */
export interface ExecutionNetwork extends Read<typeof executionNetwork> {}

export const executionResult = w.message("ExecuteResponse", {
  execution: w.STRING,
  outcome: w.always(outcome),
  stdout: w.always(output),
  stderr: w.always(output),
  usage: w.always(executionUsage),
  diagnosis: w.maybe(diagnosis),
  warmInterpreter: w.BOOL,
  replayed: w.BOOL,
  network: w.always(executionNetwork),
  turnsLeft: w.MAYBE_UINT32,
  warning: w.STRING,
});
/** What came of an execution, as it is told. */
export interface ExecutionResult extends Read<typeof executionResult> {}

export const started = w.message("ExecuteStarted", {
  execution: w.STRING,
  pid: w.UINT32,
  /** Where in the sandbox the exact output is once it is more than 32 KiB; empty where it is not kept. */
  stdoutPath: w.PATH,
  stderrPath: w.PATH,
});
/** A program runs. */
export interface Started extends Read<typeof started> {}

export const missed = w.message("MissedOutput", {
  stdoutBytes: w.UINT64,
  stderrBytes: w.UINT64,
  /** The files in the sandbox that begin with it; empty where it is not kept. */
  stdoutPath: w.PATH,
  stderrPath: w.PATH,
});
/** Output that was printed before its reader came, or faster than it read. */
export interface Missed extends Read<typeof missed> {}

export const executeEvent = w.message("ExecuteEvent", {
  started: w.maybe(started),
  stdout: w.MAYBE_BYTES,
  stderr: w.MAYBE_BYTES,
  finished: w.maybe(executionResult),
  missed: w.maybe(missed),
});
/** What a live execution tells, as it is told. */
export interface ExecuteEvent extends Read<typeof executeEvent> {}

export const detachedInfo = w.message("DetachedExecution", {
  execution: w.STRING,
  pid: w.UINT32,
  subject: w.STRING,
  startedAt: w.MAYBE_TIME,
  duration: w.SECONDS,
  running: w.present("ExecutionRunning"),
  outcome: w.maybe(outcome),
  /** Why it was lost, in the words of `RekindleError.reason`. */
  error: w.REASON,
  stdoutBytes: w.UINT64,
  stderrBytes: w.UINT64,
  takesInput: w.BOOL,
  terminal: w.BOOL,
  /** Where in the sandbox its exact output is once it is more than 32 KiB; empty where it is not kept. */
  stdoutPath: w.PATH,
  stderrPath: w.PATH,
});
/** A detached execution; of `running`, `outcome` and `error` one is set. */
export interface DetachedInfo extends Read<typeof detachedInfo> {}

export const detachedList = w.message("ListExecutionsResponse", { executions: w.many(detachedInfo) });
/** The detached executions of a sandbox. */
export interface DetachedList extends Read<typeof detachedList> {}

export const fileInfo = w.message("FileInfo", {
  path: w.PATH,
  kind: w.oneOf("FileKind", FILE_KINDS),
  size: w.UINT64,
  mode: w.UINT32,
  uid: w.UINT32,
  gid: w.UINT32,
  modifiedAt: w.MAYBE_TIME,
  linkTarget: w.PATH,
  sha256: w.BYTES,
  owner: w.STRING,
  group: w.STRING,
  linkKind: w.oneOf("FileKind", FILE_KINDS),
  metadata: w.WORDS,
});
/** A file. A path that is no UTF-8 has its other bytes as lone surrogates, U+DC80 to U+DCFF. */
export interface FileInfo extends Read<typeof fileInfo> {}

export const fileList = w.message("ListFilesResponse", { entries: w.many(fileInfo), truncated: w.BOOL });
/** What a directory holds. */
export interface FileList extends Read<typeof fileList> {}

export const description = w.message("DescribeFilesResponse", { text: w.STRING, structure: w.MAYBE_JSON });
/** Data in few words: `text` for a person or a model, `structure` for a program. All of it is the sandbox's word. */
export interface Description extends Read<typeof description> {}

export const fileEvent = w.message("FileEvent", {
  path: w.PATH,
  kind: w.oneOf("FileEventKind", FILE_EVENT_KINDS),
  file: w.maybe(fileInfo),
});
/** One change of one file or directory; its path begins at the directory that is watched. */
export interface FileEvent extends Read<typeof fileEvent> {}

export const fileEvents = w.message("WatchFilesResponse", { events: w.many(fileEvent) });
/** Changes, in the order in which they happened. */
export interface FileEvents extends Read<typeof fileEvents> {}

export const downloadEnd = w.message("DownloadFileEnd", {
  file: w.always(fileInfo),
  size: w.UINT64,
  sha256: w.BYTES,
});

export const downloadPart = w.message("DownloadFileResponse", { chunk: w.BYTES, end: w.maybe(downloadEnd) });
/** A piece of a download, or its end. */
export interface DownloadPart extends Read<typeof downloadPart> {}

export const timelineOutcome = w.message("TimelineOutcome", {
  /** It did what it was asked for. */
  done: w.present("TimelineDone"),
  /** The program ended so. */
  execution: w.maybe(outcome),
  /** It failed, in the words of `RekindleError.reason`. */
  error: w.REASON,
  /** The sandbox ended under it. */
  end: w.oneOf("SandboxEndReason", END_REASONS),
  /** Its caller went away. */
  cancelled: w.present("TimelineCancelled"),
});
/** What came of a call: exactly one of these is set. */
export interface TimelineOutcome extends Read<typeof timelineOutcome> {}

export const timelineEntry = w.message("TimelineEntry", {
  call: w.STRING,
  execution: w.STRING,
  subject: w.STRING,
  startedAt: w.MAYBE_TIME,
  duration: w.SECONDS,
  outcome: w.always(timelineOutcome),
  cpuTime: w.MAYBE_SECONDS,
  memoryPeakBytes: w.MAYBE_UINT64,
  bytesIn: w.UINT64,
  bytesOut: w.UINT64,
  connections: w.UINT64,
  connectionsDenied: w.UINT64,
  sandbox: w.STRING,
  /** The trace that it is part of, */
  trace: w.STRING,
  /** the caller's span of it, */
  span: w.STRING,
  /** and the step. */
  step: w.STRING,
  networkUp: w.UINT64,
  networkDown: w.UINT64,
  gatewayCost: w.UINT64,
});
/** One call in the past of a sandbox. */
export interface TimelineEntry extends Read<typeof timelineEntry> {}

export const timelineStep = w.message("TimelineStep", {
  step: w.STRING,
  calls: w.UINT64,
  executions: w.UINT64,
  failures: w.UINT64,
  duration: w.SECONDS,
  cpuTime: w.SECONDS,
  bytesIn: w.UINT64,
  bytesOut: w.UINT64,
  connections: w.UINT64,
  connectionsDenied: w.UINT64,
  networkUp: w.UINT64,
  networkDown: w.UINT64,
  gatewayCost: w.UINT64,
});
/** What the calls of one step of a trace add up to; `step` is empty for those of none. */
export interface TimelineStep extends Read<typeof timelineStep> {}

export const timeline = w.message("SandboxTimelineResponse", {
  entries: w.many(timelineEntry),
  dropped: w.UINT64,
  /** Of a trace, in the order of their first calls. */
  steps: w.many(timelineStep),
});
/** What happened in a sandbox, or in a trace, oldest first. */
export interface Timeline extends Read<typeof timeline> {}

export const connectionOpen = w.message("ConnectionOpen", { rule: w.STRING });
export const connectionClosed = w.message("ConnectionClosed", { rule: w.STRING, denial: w.maybe(networkDenial) });
export const connectionFailed = w.message("ConnectionFailed", { message: w.STRING });

export const connection = w.message("Connection", {
  number: w.UINT64,
  execution: w.STRING,
  host: w.STRING,
  port: w.UINT32,
  policy: w.STRING,
  startedAt: w.MAYBE_TIME,
  duration: w.SECONDS,
  bytesUp: w.UINT64,
  bytesDown: w.UINT64,
  open: w.maybe(connectionOpen),
  /** It has ended; `denial` says why it was cut off, if it was. */
  closed: w.maybe(connectionClosed),
  denied: w.maybe(networkDenial),
  /** It was allowed, and nobody answered. */
  failed: w.maybe(connectionFailed),
  /** The trace and the step that the call of its execution is part of. */
  trace: w.STRING,
  step: w.STRING,
});
/** A connection of a program to the outside; of `open`, `closed`, `denied` and `failed` one is set. */
export interface Connection extends Read<typeof connection> {}
