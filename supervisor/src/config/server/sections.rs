//! The sections of the server's configuration: every key, its type, its default and what it means.
//!
//! The comments here are the text of docs/configuration.md.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::section::section;
use super::values::{EngineName, LogFormat, Mode};
use crate::config::TemplateName;
use crate::network::{PolicySpec, ServiceSpec};

section! {
    /// Where callers connect.
    ListenSection {
        /// The unix socket.
        socket: Option<PathBuf> = None, shown "`/run/rekindle/rekindle.sock` for root, else `rekindle.sock` in the data directory";
        /// Permissions of the socket, as octal text. Others than owner and group are never let in.
        socket_mode: Option<Mode> = None, shown "`\"0600\"`, or `\"0660\"` with `socket_group`";
        /// Group that owns the socket.
        socket_group: Option<String> = None;
        /// Address and port to serve on besides, such as `"0.0.0.0:8443"`.
        /// Needs `tls_cert`, `tls_key` and `auth.tokens`.
        tcp: Option<SocketAddr> = None;
        /// Certificate chain of the server, PEM.
        tls_cert: Option<PathBuf> = None;
        /// Private key of the server, PEM.
        tls_key: Option<PathBuf> = None;
        /// Certificates that sign those of callers, PEM. When set, a caller without one is refused (mTLS).
        client_ca: Option<PathBuf> = None;
        /// Connections at a time from the network, over `tcp`. Before a call on it was admitted, each holds at most
        /// 256 KiB of the supervisor's memory, so this times 256 KiB is what strangers can take.
        max_connections: u32 = 1024;
        /// Of these, from one address; an IPv6 network of 64 bits counts as one. More are closed at once.
        max_connections_per_address: u32 = 128;
        /// Connections at a time on the unix socket. The network cannot take their places.
        max_socket_connections: u32 = 256;
        /// Calls at a time on one connection. Each may have a message of 4 MiB under way, once its caller was
        /// admitted.
        max_streams_per_connection: u32 = 128;
    }
}

section! {
    /// The second way in: HTTP, as the SDKs of E2B speak it ([guide](guides/e2b.md)).
    HttpSection {
        /// Address and port to serve on, such as `"127.0.0.1:3000"`. Needs `auth.tokens`; beyond this host also TLS.
        listen: Option<SocketAddr> = None;
        /// Whether it is served with TLS, with the certificate of `listen.tls_cert`.
        tls: Option<bool> = None, shown "whether `listen.tls_cert` is set";
        /// The domain whose names `<port>-<sandbox>.<domain>` lead here, for clients that reach sandboxes by name.
        domain: Option<String> = None;
        /// The network policy of sandboxes whose clients want the internet, which they do unless they say otherwise.
        /// It counts for tokens that allow it; all others have no network.
        network: Option<String> = None;
        /// What sandboxes may ask of the gateway, such as `["openai/chat"]`: clients of E2B cannot say it. Services that
        /// a token does not allow are left out.
        gateway: Vec<String> = Vec::new();
        /// Whether anybody who knows a sandbox's name may connect to its ports, which is what clients expect unless they
        /// say otherwise. If not, each needs the sandbox's traffic token.
        public_ports: bool = true;
        /// Templates by the names that clients have for them, such as `{ base = "python-node" }`.
        /// `base` and `code-interpreter-v1` are the default template where they are not given.
        aliases: BTreeMap<String, TemplateName> = BTreeMap::new();
    }
}

section! {
    /// What runs the virtual machines.
    EngineSection {
        /// `"auto"`, `"firecracker"` or `"qemu"`.
        kind: EngineName = EngineName::Auto;
        /// The Firecracker program; its jailer is beside it.
        firecracker: Option<PathBuf> = None, shown "found by `REKINDLE_FIRECRACKER`, then what `rekindle setup` fetched, then `PATH`";
        /// Refuse to start when a limit cannot be enforced on this host.
        require_limits: bool = false;
    }
}

section! {
    /// What a sandbox gets when its caller does not say, and the most a caller may ask for.
    SandboxSection {
        /// The template of a caller that names none.
        default_template: Option<TemplateName> = None, shown "`python-node` where it is listed in `pool.templates` or, without a list, its image is there, else `minimal`";
        /// Seconds a sandbox lives.
        ttl_s: u64 = 300;
        /// Most seconds a caller may ask for.
        max_ttl_s: u64 = 86_400;
        /// Seconds without a call after which a sandbox ends; 0 is never.
        idle_timeout_s: u64 = 0;
        /// Seconds a sandbox may be paused, all its pauses together, before it ends; 0 is for ever.
        max_pause_s: u64 = 86_400;
        /// Seconds an execution may take.
        execute_timeout_s: u64 = 60;
        /// Most seconds a caller may ask for.
        max_execute_timeout_s: u64 = 3_600;
        /// Characters of each output stream that a result carries.
        output_limit: u32 = 4_000;
        /// Most characters a caller may ask for.
        max_output_limit: u32 = 100_000;
        /// Largest upload in bytes.
        max_upload_bytes: u64 = 1 << 30, shown "`1073741824` (1 GiB)";
        /// Largest download in bytes.
        max_download_bytes: u64 = 8 << 30, shown "`8589934592` (8 GiB)";
        /// Processes and threads at a time in one sandbox.
        pids: u32 = 512;
        /// Records of ended sandboxes that are kept, so that a caller can ask why one ended.
        ended_kept: usize = 1_000;
        /// Seconds such a record is kept.
        ended_kept_s: u64 = 600;
        /// Calls a sandbox's timeline remembers, the latest ones.
        timeline_entries: usize = 256;
        /// Seconds between two points of the series of what a sandbox uses, which has at most 240 of them; `0` for none.
        usage_interval_s: u64 = 10;
    }
}

section! {
    /// How much of the host sandboxes may use, and how many wait ready.
    PoolSection {
        /// Memory for sandboxes in MiB; 0 is 80 % of the host's.
        memory_budget_mib: u64 = 0;
        /// Processor time for sandboxes in thousandths of a core; 0 is the host's cores times `cpu_overcommit`.
        milli_cpus_budget: u64 = 0;
        /// Disk for sandboxes in MiB, each charged its whole scratch disk; 0 is 90 % of what is free in the run directory at start.
        disk_budget_mib: u64 = 0;
        /// How many times over the disk budget is handed out. Above 1, programs may meet a disk that fails.
        disk_overcommit: f64 = 1.0;
        /// MiB that stay free on the run directory's file system: with less, new sandboxes and uploads are refused.
        disk_reserve_mib: u64 = 1024;
        /// How many times over the processors are handed out.
        cpu_overcommit: f64 = 8.0;
        /// How many times over the memory budget is handed out. Above 1, sandboxes may meet the out-of-memory killer.
        memory_overcommit: f64 = 1.0;
        /// Callers that may wait for room. Who uses the socket without a token has as many places again.
        max_queued: usize = 256;
        /// Callers of one tenant that may wait.
        max_queued_per_tenant: usize = 64;
        /// Seconds a caller waits for room.
        queue_wait_s: u64 = 10;
        /// The most a caller may ask for.
        max_queue_wait_s: u64 = 60;
        /// Machines that are made ready at a time.
        fill_parallel: usize = 2;
        /// The templates that are loaded at start, each a table `[pool.templates.<name>]`.
        templates: BTreeMap<TemplateName, TemplateSection> = BTreeMap::new(), shown "`sandbox.default_template` alone";
    }
}

section! {
    /// How many machines of one template wait ready.
    TemplateSection {
        /// Fewer restored machines than this are topped up.
        parked_low: u32 = 1;
        /// Up to this many.
        parked_high: u32 = 2;
        /// Monitors that wait for a snapshot to restore.
        prespawned: u32 = 1;
    }
}

section! {
    /// Who may call.
    AuthSection {
        /// The tokens file, made by `rekindle token create`.
        tokens: Option<PathBuf> = None;
        /// Ask for a token on the unix socket too; otherwise whoever can open it may do everything.
        socket_requires_token: bool = false;
        /// Calls a second that a tenant may make, with all its tokens; more are refused with `RATE_LIMITED`. 0 is no bound.
        /// Who uses the socket without a token is not bounded.
        max_calls_per_second: u32 = 1_000;
        /// Calls that a tenant may make at once, after a rest.
        max_calls_burst: u32 = 5_000;
    }
}

section! {
    /// What is told about the service (docs/observability.md).
    TelemetrySection {
        /// What is logged: a level, or directives such as `"info,rekindle::pool=debug"`.
        log: String = "info".to_owned();
        /// `"text"` or `"json"`.
        log_format: LogFormat = LogFormat::Text;
        /// Address that serves `/metrics` and `/healthz`, such as `"127.0.0.1:9464"`. Anyone who reaches it may read them.
        metrics_listen: Option<SocketAddr> = None;
        /// Collector that traces are sent to (OTLP over gRPC), such as `"http://127.0.0.1:4317"`.
        otlp_endpoint: Option<String> = None;
        /// File for the audit lines.
        audit_log: Option<PathBuf> = None, shown "to the log, target `audit`";
        /// File with what each tenant has used. Its sums must survive the host: keep it on a disk.
        usage_ledger: Option<PathBuf> = None, shown "`usage.jsonl` in the data directory";
    }
}

section! {
    /// What sandboxes may reach outside of them. Without a policy a sandbox has no network.
    NetworkSection {
        /// The policies that a caller may name for a sandbox, each a table `[network.policies.<name>]`: `mode` is `"none"`, `"allow"`,
        /// `"full"` or `"replay"`, `presets` names ready rules (`apt`, `crates`, `github`, `npm`, `pypi`), and `allow` lists rules such as
        /// `{ host = "*.example.com", ports = [443], protocol = "tls" }`, where `protocol` is `"tls"`, `"http"` or `"tcp"`;
        /// `budget` may have `bytes_up`, `bytes_down`, `requests` (of rules for http), `connections`,
        /// `connections_at_once` and `bytes_per_second`, the last two of which are 64 and 50,000,000 under `"full"` where it does not
        /// say. `record = "NAME"`, of a policy or of one rule for tls or http, records
        /// into a cassette, and `mode = "replay"` with `cassette = "NAME"` answers from one.
        policies: BTreeMap<String, PolicySpec> = BTreeMap::new(), shown "none";
        /// Names that lead to an address and port of the operator's choice instead of what a resolver says, such as
        /// `{ "pypi.org" = "10.1.2.3:8443" }` for a mirror. The only way to a private address, but for upstreams of the gateway.
        hosts: BTreeMap<String, SocketAddr> = BTreeMap::new(), shown "none";
    }
}

section! {
    /// Services outside that programs in sandboxes call as `http://<service>.gateway.internal`, with a credential that
    /// stays on the host ([guide](guides/network.md#the-gateway)).
    GatewaySection {
        /// The services, each a table `[gateway.services.<name>]`: `upstream` is where it is (`"https://api.example.com"`),
        /// `credential` what it is called with (`{ header = "authorization", value = "Bearer {}", file = "/etc/rekindle/key" }`,
        /// or `env` with the name of a variable instead of `file`), and `operations` what may be asked of it, each
        /// `{ name = "chat", method = "POST", path = "/v1/items/{id}", max_body_bytes = 1048576, cost = 1 }`; besides,
        /// `requests_per_minute` of one sandbox, `timeout_s` (600) and `ca`, a file of certificates to trust instead of the host's.
        services: BTreeMap<String, ServiceSpec> = BTreeMap::new(), shown "none";
        /// The most that one sandbox may spend, in the units of `cost`. A caller may ask for less.
        budget: Option<u64> = None;
    }
}

section! {
    /// How the service ends.
    ShutdownSection {
        /// Seconds that calls under way have to finish.
        drain_s: u64 = 30;
    }
}

impl ListenSection {
    /// Where the socket is: as configured, or the place callers look for it.
    #[must_use]
    pub fn socket_path(&self, data: &Path, root: bool) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| Self::default_socket(data, root))
    }

    /// Where the socket is when nothing says otherwise.
    #[must_use]
    pub fn default_socket(data: &Path, root: bool) -> PathBuf {
        if root { PathBuf::from("/run/rekindle/rekindle.sock") } else { data.join("rekindle.sock") }
    }

    /// The socket's permissions.
    #[must_use]
    pub fn mode(&self) -> Mode {
        let default = if self.socket_group.is_some() { Mode::GROUP } else { Mode::OWNER };
        self.socket_mode.unwrap_or(default)
    }
}
