//! The configuration of `rekindle serve`: one TOML file, a struct per section.
//!
//! `load` puts it together (default, file, variable, flag: the later wins), `check` says what makes no sense,
//! `reference` writes docs/configuration.md. Called by the command line; nothing here starts anything.

mod check;
mod error;
mod files;
mod load;
mod reference;
mod section;
mod sections;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::template::{TemplateName, default_template};

pub use self::error::{ConfigError, Problem};
pub use self::load::{Flag, Loaded, Origin, Sources};
pub use self::reference::{reference, variable};
pub use self::section::Key;
pub use self::sections::{
    AuthSection, EngineSection, GatewaySection, HttpSection, ListenSection, NetworkSection, PoolSection,
    SandboxSection, ShutdownSection, TelemetrySection, TemplateSection,
};
pub use self::values::{EngineName, LogFormat, Mode};

/// Everything that can be configured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ServerConfig {
    /// Where callers connect.
    pub listen: ListenSection,
    /// The second way in, for the SDKs of E2B.
    pub http: HttpSection,
    /// What runs the virtual machines.
    pub engine: EngineSection,
    /// What a sandbox gets.
    pub sandbox: SandboxSection,
    /// How much of the host sandboxes may use.
    pub pool: PoolSection,
    /// What sandboxes may reach.
    pub network: NetworkSection,
    /// What they may call with a credential of the host's.
    pub gateway: GatewaySection,
    /// Who may call.
    pub auth: AuthSection,
    /// What is told about the service.
    pub telemetry: TelemetrySection,
    /// How the service ends.
    pub shutdown: ShutdownSection,
}

/// A section as the table sees it: its name, what it is for, its keys.
type SectionEntry = (&'static str, &'static [&'static str], &'static [Key]);

impl ServerConfig {
    /// The sections in the order of the reference.
    const SECTIONS: &'static [SectionEntry] = &[
        ("listen", ListenSection::ABOUT, ListenSection::KEYS),
        ("http", HttpSection::ABOUT, HttpSection::KEYS),
        ("engine", EngineSection::ABOUT, EngineSection::KEYS),
        ("sandbox", SandboxSection::ABOUT, SandboxSection::KEYS),
        ("pool", PoolSection::ABOUT, PoolSection::KEYS),
        ("network", NetworkSection::ABOUT, NetworkSection::KEYS),
        ("gateway", GatewaySection::ABOUT, GatewaySection::KEYS),
        ("auth", AuthSection::ABOUT, AuthSection::KEYS),
        ("telemetry", TelemetrySection::ABOUT, TelemetrySection::KEYS),
        ("shutdown", ShutdownSection::ABOUT, ShutdownSection::KEYS),
    ];

    /// Every section with each of its keys.
    fn keys() -> impl Iterator<Item = (&'static str, &'static Key)> {
        Self::SECTIONS.iter().flat_map(|(section, _, keys)| keys.iter().map(move |key| (*section, key)))
    }

    fn set(&mut self, section: &str, key: &str, given: section::Given) -> Result<(), String> {
        match section {
            "listen" => self.listen.set(key, given),
            "http" => self.http.set(key, given),
            "engine" => self.engine.set(key, given),
            "sandbox" => self.sandbox.set(key, given),
            "pool" => self.pool.set(key, given),
            "network" => self.network.set(key, given),
            "gateway" => self.gateway.set(key, given),
            "auth" => self.auth.set(key, given),
            "telemetry" => self.telemetry.set(key, given),
            "shutdown" => self.shutdown.set(key, given),
            other => Err(format!("there is no section {other}")),
        }
    }

    /// The value of a key as it would be written in the file; `none` for one that is not set.
    fn shown(&self, section: &str, key: &str) -> String {
        let all = serde_json::to_value(self).unwrap_or_default();
        match &all[section][key] {
            serde_json::Value::Null => "none".to_owned(),
            value => value.to_string(),
        }
    }

    /// The certificate and key HTTP is served with; `None` without TLS.
    #[must_use]
    pub fn http_tls(&self) -> Option<(&Path, &Path)> {
        let files = self.listen.tls_cert.as_deref().zip(self.listen.tls_key.as_deref());
        files.filter(|_| self.http.tls != Some(false))
    }

    /// The template of a caller that names none: as configured, else one of our own that is listed, or, without
    /// a list, one whose image is there.
    #[must_use]
    pub fn default_template(&self, has_image: impl Fn(&TemplateName) -> bool) -> TemplateName {
        let listed = &self.pool.templates;
        let there = |name: &TemplateName| {
            if listed.is_empty() { has_image(name) } else { listed.contains_key(name) }
        };
        self.sandbox.default_template.clone().unwrap_or_else(|| default_template(there))
    }

    /// The templates that are loaded at start: those listed, or the default one alone.
    #[must_use]
    pub fn templates(&self, default: &TemplateName) -> BTreeMap<TemplateName, TemplateSection> {
        if self.pool.templates.is_empty() {
            return [(default.clone(), TemplateSection::default())].into();
        }
        self.pool.templates.clone()
    }
}
