//! What an operator decides about sandboxes, as the service uses it. Made by `serve` from the configuration file.

use std::sync::Arc;
use std::time::Duration;

use super::call_rate::CallRate;
use crate::config::TemplateName;
use crate::network::{Egress, Gateway};
use crate::telemetry::Audit;

/// Defaults and bounds of sandboxes and executions.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// What `Create` uses when no template is named.
    pub default_template: TemplateName,
    /// How long a sandbox lives.
    pub ttl: Duration,
    /// How long one may be made to live.
    pub max_ttl: Duration,
    /// How long one may go without a call; `None` for ever.
    pub idle_timeout: Option<Duration>,
    /// How long one may be paused, all its pauses together; `None` for ever.
    pub max_pause: Option<Duration>,
    /// Wall-clock limit of an execution.
    pub execute_timeout: Duration,
    /// The most it may be.
    pub max_execute_timeout: Duration,
    /// Characters of each stream in a result.
    pub output_limit: u32,
    /// The most they may be.
    pub max_output_limit: u32,
    /// Largest file that may be uploaded.
    pub max_upload_bytes: u64,
    /// Largest file that may be downloaded.
    pub max_download_bytes: u64,
    /// Processes and threads of a sandbox.
    pub pids: u32,
    /// How long a request waits for room.
    pub queue_wait: Duration,
    /// The longest it may ask to.
    pub max_queue_wait: Duration,
    /// Records of ended sandboxes that are kept.
    pub ended_kept: usize,
    /// For how long.
    pub ended_kept_for: Duration,
    /// Calls a sandbox's timeline remembers.
    pub timeline_entries: usize,
    /// How often what a sandbox uses is noted; `None` never.
    pub usage_interval: Option<Duration>,
    /// Calls that a tenant may make; `None` without a bound.
    pub call_rate: Option<CallRate>,
    /// The network policies sandboxes may have.
    pub network: Egress,
    /// The services that they may be let use.
    pub gateway: Gateway,
    /// Where their connections are recorded.
    pub audit: Arc<Audit>,
}

impl ServiceConfig {
    /// The defaults the configuration reference documents, for a template.
    #[must_use]
    pub fn new(default_template: TemplateName) -> Self {
        Self {
            default_template,
            ttl: Duration::from_secs(300),
            max_ttl: Duration::from_secs(86_400),
            idle_timeout: None,
            max_pause: Some(Duration::from_secs(86_400)),
            execute_timeout: Duration::from_secs(60),
            max_execute_timeout: Duration::from_secs(3600),
            output_limit: 4_000,
            max_output_limit: 100_000,
            max_upload_bytes: 1 << 30,
            max_download_bytes: 8 << 30,
            pids: 512,
            queue_wait: Duration::from_secs(10),
            max_queue_wait: Duration::from_secs(60),
            ended_kept: 1_000,
            ended_kept_for: Duration::from_secs(600),
            timeline_entries: 256,
            usage_interval: Some(Duration::from_secs(10)),
            call_rate: CallRate::new(1_000, 5_000),
            network: Egress::default(),
            gateway: Gateway::default(),
            audit: Arc::new(Audit::to_log()),
        }
    }
}
