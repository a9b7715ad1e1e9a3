//! What a server says about its sandboxes, asked anew for every list of tools: what a model is told is what is in force.

use std::time::Duration;

use rekindle_api::Status;
use rekindle_api::client::Client;
use rekindle_api::time::from_duration;
use rekindle_api::v1::{ListTemplatesRequest, ListTemplatesResponse, NetworkPolicy, SandboxRules, Template};

/// What sandboxes are made with where the model does not say.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The template; empty means the server's.
    pub template: String,
    /// The network policy; empty means no network.
    pub network: String,
    /// How long one lives, where the server allows it for so long.
    pub ttl: Duration,
    /// How long it may go without a call; zero means for ever.
    pub idle: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        let (ttl, idle) = (Duration::from_secs(3_600), Duration::from_secs(900));
        Self { template: String::new(), network: String::new(), ttl, idle }
    }
}

/// What a server says.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Its templates.
    pub templates: Vec<Template>,
    /// The network policies that the caller may choose.
    pub networks: Vec<NetworkPolicy>,
    /// Defaults and bounds of sandboxes.
    pub rules: SandboxRules,
}

impl Facts {
    /// Asks the server.
    ///
    /// # Errors
    /// As the server says.
    pub async fn ask(client: &mut Client) -> Result<Self, Status> {
        let told: ListTemplatesResponse =
            client.host.list_templates(ListTemplatesRequest {}).await?.into_inner();
        let ListTemplatesResponse { templates, networks, rules } = told;
        Ok(Self { templates, networks, rules: rules.unwrap_or_default() })
    }

    /// A template by its name; empty means the server's default.
    #[must_use]
    pub fn template(&self, name: &str) -> Option<&Template> {
        let wanted = |one: &&Template| if name.is_empty() { one.is_default } else { one.name == name };
        self.templates.iter().find(wanted)
    }

    /// A network policy by its name; `None` where there is no such policy, and for none.
    #[must_use]
    pub fn network(&self, name: &str) -> Option<&NetworkPolicy> {
        self.networks.iter().find(|policy| policy.name == name)
    }

    /// How long a sandbox lives for which this long was asked: not longer than the server lets it.
    #[must_use]
    pub fn lifetime(&self, wanted: Duration) -> Duration {
        self.rules.max_ttl.and_then(from_duration).map_or(wanted, |most| wanted.min(most))
    }
}
