//! What makes no sense together, although each value alone could be read. Pure: no file is looked at.

use std::path::Path;

use super::{Problem, ServerConfig};
use crate::network::{Egress, Gateway, InvalidNetwork};

/// Least and most of the overcommit factors.
const OVERCOMMIT: std::ops::RangeInclusive<f64> = 0.1..=1000.0;
/// Least characters of output: the marker of what was cut has to fit.
const MIN_OUTPUT: u32 = 100;

/// Whether a text can be the end of host names.
fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= 180 && text.split('.').all(label)
}

impl ServerConfig {
    /// Everything that is wrong; `origin` names where a key's value comes from.
    pub(super) fn check(&self, origin: impl Fn(&str) -> String) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut no = |key: &str, message: String, hint: &str| {
            problems.push(Problem {
                origin: origin(key),
                key: key.to_owned(),
                message,
                hint: hint.to_owned(),
            });
        };
        self.check_listen(&mut no);
        self.check_http(&mut no);
        self.check_sandbox(&mut no);
        self.check_pool(&mut no);
        self.check_network(&mut no);
        self.check_gateway(&mut no);
        self.check_telemetry(&mut no);
        self.check_paths(&mut no);
        problems
    }

    fn check_listen(&self, no: &mut impl FnMut(&str, String, &str)) {
        let listen = &self.listen;
        let tls = listen.tls_cert.is_some() && listen.tls_key.is_some();
        if listen.tcp.is_some() && !tls {
            no(
                "listen.tcp",
                "is served only with TLS".to_owned(),
                "set listen.tls_cert and listen.tls_key, or use the unix socket alone",
            );
        }
        if listen.tcp.is_some() && self.auth.tokens.is_none() {
            no(
                "listen.tcp",
                "is served only to callers with a token".to_owned(),
                "make a tokens file with `rekindle token create` and set auth.tokens to it",
            );
        }
        let with_http = self.http.listen.is_some() && self.http.tls != Some(false);
        if listen.tcp.is_none() && !with_http && (listen.tls_cert.is_some() || listen.tls_key.is_some()) {
            no(
                "listen.tls_cert",
                "has no use without listen.tcp or http.listen".to_owned(),
                "set one of them, or leave it out",
            );
        }
        if listen.client_ca.is_some() && listen.tcp.is_none() && !with_http {
            no(
                "listen.client_ca",
                "has no use without listen.tcp or http.listen".to_owned(),
                "set one of them, or leave it out",
            );
        }
        if listen.mode().bits() & 0o007 != 0 {
            no(
                "listen.socket_mode",
                "lets everybody on this host in".to_owned(),
                "use \"0660\" with listen.socket_group",
            );
        }
        if self.auth.socket_requires_token && self.auth.tokens.is_none() {
            no(
                "auth.socket_requires_token",
                "nobody could call without a tokens file".to_owned(),
                "make one with `rekindle token create` and set auth.tokens to it",
            );
        }
        for (key, value) in [
            ("listen.max_connections", listen.max_connections),
            ("listen.max_connections_per_address", listen.max_connections_per_address),
            ("listen.max_socket_connections", listen.max_socket_connections),
            ("listen.max_streams_per_connection", listen.max_streams_per_connection),
        ] {
            if value == 0 {
                no(key, "is 0: nobody could call".to_owned(), "leave it out for the default");
            }
        }
    }

    fn check_http(&self, no: &mut impl FnMut(&str, String, &str)) {
        let http = &self.http;
        if let Some(domain) = &http.domain
            && !is_domain(domain)
        {
            no("http.domain", format!("{domain:?} is not a domain"), "use one such as sandboxes.example.org");
        }
        let Some(address) = http.listen else {
            if http.tls.is_some() || http.domain.is_some() || !http.aliases.is_empty() {
                no("http.listen", "is not set, so nothing else of [http] counts".to_owned(), "set it");
            }
            return;
        };
        if self.auth.tokens.is_none() {
            no(
                "http.listen",
                "is served only to callers with a token".to_owned(),
                "make a tokens file with `rekindle token create` and set auth.tokens to it",
            );
        }
        if let Some(name) = &http.network
            && Egress::new(&self.network.policies, &self.network.hosts)
                .is_ok_and(|egress| egress.policy(name).is_none())
        {
            no("http.network", format!("there is no policy {name:?}"), "name one of [network.policies]");
        }
        let tls = self.http_tls().is_some();
        if http.tls == Some(true) && !tls {
            no("http.tls", "there is no certificate".to_owned(), "set listen.tls_cert and listen.tls_key");
        }
        if !tls && !address.ip().is_loopback() {
            no(
                "http.listen",
                "is served beyond this host only with TLS".to_owned(),
                "set listen.tls_cert and listen.tls_key, or listen on 127.0.0.1 or [::1]",
            );
        }
    }

    fn check_network(&self, no: &mut impl FnMut(&str, String, &str)) {
        if let Err(error) = Egress::new(&self.network.policies, &self.network.hosts) {
            let key = match error {
                InvalidNetwork::Policy { .. } => "network.policies",
                InvalidNetwork::Host { .. } => "network.hosts",
            };
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            let message = format!("{error}{}", source.unwrap_or_default());
            no(key, message, "docs/guides/network.md has policies to start from");
        }
    }

    fn check_gateway(&self, no: &mut impl FnMut(&str, String, &str)) {
        if let Err(error) = Gateway::check(&self.gateway.services) {
            let message = format!("{error}: {}", error.source);
            no("gateway.services", message, "docs/guides/network.md has services to start from");
        }
        let declared = |asked: &str| {
            let (service, operation) = asked.split_once('/')?;
            let operations = &self.gateway.services.get(service)?.operations;
            (operation == "*" || operations.iter().any(|known| known.name == operation)).then_some(())
        };
        if let Some(asked) = self.http.gateway.iter().find(|asked| declared(asked).is_none()) {
            let hint = "name operations of [gateway.services], such as openai/chat or openai/*";
            no("http.gateway", format!("there is no operation {asked:?}"), hint);
        }
        if self.gateway.budget == Some(0) {
            no("gateway.budget", "is 0: nothing could be spent".to_owned(), "leave it out for no bound");
        }
    }

    fn check_sandbox(&self, no: &mut impl FnMut(&str, String, &str)) {
        let sandbox = &self.sandbox;
        for (key, value, most) in [
            ("ttl_s", sandbox.ttl_s, sandbox.max_ttl_s),
            ("execute_timeout_s", sandbox.execute_timeout_s, sandbox.max_execute_timeout_s),
            ("output_limit", sandbox.output_limit.into(), sandbox.max_output_limit.into()),
        ] {
            if value > most {
                no(
                    &format!("sandbox.{key}"),
                    format!("is {value}, more than sandbox.max_{key}, which is {most}"),
                    "lower the one or raise the other",
                );
            }
            if value == 0 {
                no(&format!("sandbox.{key}"), "is 0".to_owned(), "leave it out for the default");
            }
        }
        if (1..MIN_OUTPUT).contains(&sandbox.output_limit) {
            no(
                "sandbox.output_limit",
                format!("is {}", sandbox.output_limit),
                "at least 100 is needed to show where output was cut",
            );
        }
        if sandbox.pids == 0 {
            no("sandbox.pids", "is 0: nothing could run".to_owned(), "leave it out for the default");
        }
    }

    fn check_pool(&self, no: &mut impl FnMut(&str, String, &str)) {
        let pool = &self.pool;
        for (key, factor) in [
            ("pool.cpu_overcommit", pool.cpu_overcommit),
            ("pool.memory_overcommit", pool.memory_overcommit),
            ("pool.disk_overcommit", pool.disk_overcommit),
        ] {
            if !OVERCOMMIT.contains(&factor) {
                no(key, format!("is {factor}"), "use a number from 0.1 to 1000; 1.0 hands out what is there");
            }
        }
        if pool.fill_parallel == 0 {
            no("pool.fill_parallel", "is 0: no machine would be made ready".to_owned(), "use 1 or more");
        }
        if pool.max_queued_per_tenant == 0 {
            no("pool.max_queued_per_tenant", "is 0: no tenant could wait".to_owned(), "use 1 or more");
        }
        if pool.queue_wait_s > pool.max_queue_wait_s {
            no(
                "pool.queue_wait_s",
                format!(
                    "is {}, more than pool.max_queue_wait_s, which is {}",
                    pool.queue_wait_s, pool.max_queue_wait_s
                ),
                "lower the one or raise the other",
            );
        }
        for (name, template) in &pool.templates {
            if template.parked_low > template.parked_high {
                no(
                    "pool.templates",
                    format!(
                        "{name}: parked_low is {}, more than parked_high, which is {}",
                        template.parked_low, template.parked_high
                    ),
                    "a default counts too: set both",
                );
            }
        }
        let default = self.default_template(|_| true);
        if !pool.templates.is_empty() && !pool.templates.contains_key(&default) {
            no(
                "sandbox.default_template",
                format!("{default} is not among pool.templates, so it is not loaded"),
                "list it, or name one that is listed",
            );
        }
    }

    fn check_telemetry(&self, no: &mut impl FnMut(&str, String, &str)) {
        let telemetry = &self.telemetry;
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&telemetry.log) {
            no("telemetry.log", error.to_string(), "use a level such as info, or info,rekindle::pool=debug");
        }
        if let Some(endpoint) = &telemetry.otlp_endpoint
            && endpoint.strip_prefix("http://").is_none_or(str::is_empty)
        {
            no(
                "telemetry.otlp_endpoint",
                format!("{endpoint:?} is not an http:// address"),
                "use a collector on this host, such as http://127.0.0.1:4317, and let it speak TLS",
            );
        }
    }

    /// A relative path would depend on where the service was started.
    fn check_paths(&self, no: &mut impl FnMut(&str, String, &str)) {
        for (key, path) in self.paths() {
            if !path.is_absolute() {
                no(key, format!("{} is not an absolute path", path.display()), "begin it with /");
            }
        }
    }

    fn paths(&self) -> Vec<(&'static str, &Path)> {
        let all = [
            ("listen.socket", &self.listen.socket),
            ("listen.tls_cert", &self.listen.tls_cert),
            ("listen.tls_key", &self.listen.tls_key),
            ("listen.client_ca", &self.listen.client_ca),
            ("engine.firecracker", &self.engine.firecracker),
            ("auth.tokens", &self.auth.tokens),
            ("telemetry.audit_log", &self.telemetry.audit_log),
            ("telemetry.usage_ledger", &self.telemetry.usage_ledger),
        ];
        all.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?))).collect()
    }
}
