//! What wins, what is refused and how it is said, and that the reference page is the current one.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::network::{Access, Egress};

fn load(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("rekindle.toml");
    fs::write(&path, file).expect("written");
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let flag = |(key, value): &(&str, &str)| Flag {
        name: "--set".to_owned(),
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    };
    let sources = Sources {
        file: Some(path),
        default_file: None,
        variables: variables.iter().map(text).collect(),
        flags: flags.iter().map(flag).collect(),
    };
    sources.load()
}

fn problems(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<Problem> {
    match load(file, variables, flags) {
        Err(ConfigError::Invalid { problems }) => problems,
        other => panic!("{other:?}"),
    }
}

/// The keys that are complained about.
fn refused(file: &str) -> Vec<String> {
    problems(file, &[], &[]).into_iter().map(|problem| problem.key).collect()
}

#[test]
fn the_defaults_are_the_documented_ones_and_pass_every_check() {
    let config = load("", &[], &[]).expect("right").config;
    assert_eq!(config, ServerConfig::default());
    assert_eq!((config.sandbox.ttl_s, config.sandbox.max_ttl_s), (300, 86_400));
    assert_eq!((config.sandbox.output_limit, config.sandbox.max_output_limit), (4_000, 100_000));
    assert_eq!((config.sandbox.max_upload_bytes, config.sandbox.max_download_bytes), (1 << 30, 8 << 30));
    assert_eq!((config.pool.cpu_overcommit, config.pool.max_queued), (8.0, 256));
    assert_eq!(config.shutdown.drain_s, 30);
    let default = config.default_template(|name| name.as_str() == "minimal");
    assert_eq!(default.as_str(), "minimal", "the one whose image is there");
    let templates: Vec<TemplateName> = config.templates(&default).into_keys().collect();
    assert_eq!(templates, [default], "the default template alone is loaded");
}

const GOLDEN: &str = include_str!("../../../tests/golden/0.1.0/rekindle.toml");

#[test]
fn a_file_of_version_0_1_0_is_read_as_it_was_written() {
    let config = load(GOLDEN, &[], &[]).expect("right").config;
    let file: toml::Table = toml::from_str(GOLDEN).expect("toml");
    let read = toml::Table::try_from(&config).expect("toml");
    let defaults = toml::Table::try_from(ServerConfig::default()).expect("toml");
    for (section, keys) in &file {
        for (key, value) in keys.as_table().expect("a section") {
            assert_eq!(&read[section][key], value, "{section}.{key}");
            let default = defaults.get(section).and_then(|section| section.get(key));
            assert_ne!(default, Some(value), "{section}.{key} shows nothing: it is the default");
        }
    }
}

#[test]
fn a_key_of_a_newer_version_is_refused_by_name() {
    let mut keys = refused(&format!("{GOLDEN}\n[listen.quic]\nport = 1\n[replication]\npeers = []\n"));
    keys.sort();
    assert_eq!(keys, ["listen.quic", "replication"]);
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let file = "[sandbox]\nttl_s = 10\nexecute_timeout_s = 10\npids = 10\n";
    let variables = [("REKINDLE_SANDBOX_TTL_S", "20"), ("REKINDLE_SANDBOX_EXECUTE_TIMEOUT_S", "20")];
    let loaded = load(file, &variables, &[("sandbox.ttl_s", "30")]).expect("right");
    let sandbox = &loaded.config.sandbox;
    assert_eq!((sandbox.ttl_s, sandbox.execute_timeout_s, sandbox.pids), (30, 20, 10));
    assert_eq!(loaded.origin("sandbox.ttl_s"), Origin::Flag("--set".into()));
    assert_eq!(
        loaded.origin("sandbox.execute_timeout_s"),
        Origin::Variable("REKINDLE_SANDBOX_EXECUTE_TIMEOUT_S".into())
    );
    assert!(matches!(loaded.origin("sandbox.pids"), Origin::File(path) if path.ends_with("rekindle.toml")));
    assert_eq!(loaded.origin("sandbox.max_ttl_s"), Origin::Default);
    let row = loaded.rows().into_iter().find(|(key, ..)| key == "sandbox.ttl_s").expect("listed");
    assert_eq!(row.1, "30");
}

#[test]
fn times_and_sizes_are_taken_with_a_unit_wherever_they_are_given() {
    let file =
        "[sandbox]\nttl_s = \"10m\"\nmax_upload_bytes = \"1.5G\"\n[pool]\nmemory_budget_mib = \"8G\"\n";
    let variables = [("REKINDLE_SANDBOX_MAX_TTL_S", "1d"), ("REKINDLE_POOL_DISK_BUDGET_MIB", "1T")];
    let flags = [("sandbox.execute_timeout_s", "1.5m"), ("sandbox.max_download_bytes", "64k")];
    let config = load(file, &variables, &flags).expect("right").config;
    assert_eq!((config.sandbox.ttl_s, config.sandbox.max_ttl_s), (600, 86_400));
    assert_eq!(config.sandbox.execute_timeout_s, 90);
    assert_eq!((config.sandbox.max_upload_bytes, config.sandbox.max_download_bytes), (3 << 29, 64 << 10));
    assert_eq!((config.pool.memory_budget_mib, config.pool.disk_budget_mib), (8_192, 1 << 20));
    // A number alone is in the unit of its key, also as text.
    let config = load(
        "[pool]\nmemory_budget_mib = \"1048576\"\n",
        &[("REKINDLE_POOL_DISK_RESERVE_MIB", "512")],
        &[("sandbox.ttl_s", "0x3c")],
    );
    let config = config.expect("right").config;
    assert_eq!((config.pool.disk_reserve_mib, config.sandbox.ttl_s), (512, 60));
    assert_eq!(config.pool.memory_budget_mib, 1_048_576);

    for (key, wrong, says) in [
        ("sandbox.ttl_s", "10x", "10m"),
        ("sandbox.ttl_s", "0.5s", "whole seconds"),
        ("sandbox.ttl_s", "-1m", "10m"),
        ("sandbox.ttl_s", "NaN", "10m"),
        ("sandbox.ttl_s", "1e300", "10m"),
        ("sandbox.max_upload_bytes", "1.5", "1.5G"),
        ("pool.memory_budget_mib", "1k", "whole MiB"),
        ("sandbox.pids", "1k", "invalid type"),
    ] {
        let problems = problems("", &[], &[(key, wrong)]);
        let [problem] = &problems[..] else { panic!("{key}={wrong}: {problems:?}") };
        assert_eq!(problem.key, key, "{wrong}");
        assert!(problem.message.contains(says), "{key}={wrong}: {problem}");
    }
}

#[test]
fn every_key_can_be_set_by_its_variable() {
    // The value in force, written as text, must be taken back: for keys without one, something that fits.
    let file = load("", &[], &[]).expect("right");
    for (section, key) in ServerConfig::keys() {
        let value = match (section, key.name, file.config.shown(section, key.name).as_str()) {
            (_, "templates", _) => "{ python-node = { parked_low = 0 } }".to_owned(),
            (_, "tcp" | "listen" | "metrics_listen", _) => "127.0.0.1:1".to_owned(),
            (_, "tls", _) => "true".to_owned(),
            (_, "otlp_endpoint", _) => "http://127.0.0.1:4317".to_owned(),
            (_, "socket_mode", _) => "0660".to_owned(),
            ("gateway", "budget", _) => "7".to_owned(),
            (_, "default_template", _) => "minimal".to_owned(),
            (_, _, "none") => "/x".to_owned(),
            (_, _, shown) => shown.trim_matches('"').to_owned(),
        };
        let name = variable(section, key.name);
        let mut config = ServerConfig::default();
        let set = config.set(section, key.name, section::Given::Text(value.clone()));
        assert_eq!(set, Ok(()), "{name}={value}");
        let loaded = load("", &[(&name, &value)], &[]);
        let untaken =
            |problem: &Problem| ["invalid", "no such"].iter().any(|word| problem.message.contains(word));
        let unreadable =
            matches!(&loaded, Err(ConfigError::Invalid { problems }) if problems.iter().any(untaken));
        assert!(!unreadable, "{name}={value}: {loaded:?}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place_and_a_hint() {
    let file = "[sandbox]\nttl = 5\npids = \"many\"\n[polo]\n[engine]\nkind = \"bochs\"\n";
    let problems = problems(file, &[("REKINDLE_SANDBOX_TTL", "5")], &[("sandbox.pid", "1")]);
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        ["REKINDLE_SANDBOX_TTL", "engine.kind", "polo", "sandbox.pid", "sandbox.pids", "sandbox.ttl"]
    );
    let of = |key: &str| problems.iter().find(|problem| problem.key == key).expect("told").to_string();
    assert!(of("sandbox.pids").contains("rekindle.toml: sandbox.pids: "), "{}", of("sandbox.pids"));
    assert!(of("sandbox.pid").contains("did you mean sandbox.pids?"), "{}", of("sandbox.pid"));
    assert!(of("REKINDLE_SANDBOX_TTL").contains("did you mean REKINDLE_SANDBOX_TTL_S?"));
    assert!(problems.iter().all(|problem| !problem.hint.is_empty()));
}

#[test]
fn mistakes_of_every_kind_are_told_together() {
    let file = "[sandbox]\nfoo = 1\npids = \"many\"\nttl_s = 90000\n";
    let mut keys = refused(file);
    keys.sort();
    assert_eq!(keys, ["sandbox.foo", "sandbox.pids", "sandbox.ttl_s"]);
}

#[test]
fn files_that_cannot_be_used_are_told_together() {
    let dir = tempfile::tempdir().expect("a directory");
    let tokens = dir.path().join("tokens.toml");
    fs::write(&tokens, "nonsense").expect("written");
    fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    let file = format!(
        "[listen]\ntcp = \"[::]:8443\"\ntls_cert = \"/nonexistent\"\ntls_key = \"/\"\n[auth]\ntokens = {tokens:?}\n"
    );
    let loaded = load(&file, &[], &[]).expect("right as far as values go");
    let Err(ConfigError::Invalid { problems }) = loaded.check_files() else { panic!("they are no good") };
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["listen.tls_cert", "listen.tls_key", "auth.tokens"]);
    fs::write(&tokens, "").expect("written");
    let fine = load(&format!("[auth]\ntokens = {tokens:?}\n"), &[], &[]).expect("right");
    fine.check_files().expect("an empty tokens file is one");
    let exposed = dir.path().join("key.pem");
    fs::write(&exposed, "secret").expect("written");
    fs::set_permissions(&exposed, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("set");
    let file = format!(
        "[listen]\ntcp = \"[::]:8443\"\ntls_cert = {tokens:?}\ntls_key = {exposed:?}\n[auth]\ntokens = {tokens:?}\n"
    );
    let loaded = load(&file, &[], &[]).expect("right as far as values go");
    let Err(ConfigError::Invalid { problems }) = loaded.check_files() else {
        panic!("everybody has the key")
    };
    assert!(matches!(&problems[..], [one] if one.hint.starts_with("chmod 600")), "{problems:?}");
}

#[test]
fn variables_of_other_things_and_empty_ones_are_left_alone() {
    let variables = [
        ("REKINDLE_DATA", "/x"),
        ("REKINDLE_ENGINE", "qemu"),
        ("REKINDLE_ENGINE_FILE", "/x"),
        ("REKINDLE_POOL_MAX_QUEUED", ""),
    ];
    assert_eq!(load("", &variables, &[]).expect("right").config, ServerConfig::default());
}

#[test]
fn http_needs_tokens_and_beyond_this_host_tls() {
    let tokens = "[auth]\ntokens = \"/t\"\n";
    let tls = "[listen]\ntls_cert = \"/c\"\ntls_key = \"/k\"\n";
    let local = "[http]\nlisten = \"127.0.0.1:3000\"\n";
    let open = "[http]\nlisten = \"0.0.0.0:3000\"\n";
    assert_eq!(refused(local), ["http.listen"], "tokens are missing");
    let plain = load(&format!("{local}{tokens}"), &[], &[]).expect("right").config;
    assert_eq!(plain.http_tls(), None);
    assert_eq!(refused(&format!("{open}{tokens}")), ["http.listen"]);
    let with_tls = load(&format!("{open}{tokens}{tls}"), &[], &[]).expect("right").config;
    assert!(with_tls.http_tls().is_some());
    // A certificate that is there is used, unless it is said that it is not.
    let without = format!("{local}tls = false\n{tokens}{tls}");
    assert_eq!(refused(&without), ["listen.tls_cert"], "nobody uses it");
    assert_eq!(refused(&format!("{open}tls = false\n{tokens}")), ["http.listen"]);
    assert_eq!(refused(&format!("{local}tls = true\n{tokens}")), ["http.tls"]);
    assert_eq!(refused(&format!("{local}domain = \"Not a domain\"\n{tokens}")), ["http.domain"]);
    assert_eq!(refused(&format!("{local}network = \"nothing\"\n{tokens}")), ["http.network"]);
    assert_eq!(refused("[http]\ndomain = \"example.org\"\n"), ["http.listen"]);
}

#[test]
fn tcp_needs_tls_and_tokens() {
    assert_eq!(refused("[listen]\ntcp = \"0.0.0.0:8443\"\n"), ["listen.tcp", "listen.tcp"]);
    let tls = "[listen]\ntcp = \"0.0.0.0:8443\"\ntls_cert = \"/c\"\ntls_key = \"/k\"\n";
    assert_eq!(refused(tls), ["listen.tcp"], "tokens are missing");
    let tokens = "[auth]\ntokens = \"/t\"\n";
    assert_eq!(
        refused(&format!("[listen]\ntcp = \"0.0.0.0:8443\"\ntls_cert = \"/c\"\n{tokens}")),
        ["listen.tcp"]
    );
    load(&format!("{tls}{tokens}"), &[], &[]).expect("right");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (file, key) in [
        ("[listen]\ntls_cert = \"/c\"", "listen.tls_cert"),
        ("[listen]\nclient_ca = \"/c\"", "listen.client_ca"),
        ("[listen]\nsocket_mode = \"0666\"", "listen.socket_mode"),
        ("[listen]\nsocket_mode = 600", "listen.socket_mode"),
        ("[listen]\nsocket_mode = \"+600\"", "listen.socket_mode"),
        ("[listen]\nsocket = \"here.sock\"", "listen.socket"),
        ("[listen]\nmax_connections = 0", "listen.max_connections"),
        ("[listen]\nmax_connections_per_address = 0", "listen.max_connections_per_address"),
        ("[listen]\nmax_socket_connections = 0", "listen.max_socket_connections"),
        ("[listen]\ntcp = \"localhost\"", "listen.tcp"),
        ("[auth]\nsocket_requires_token = true", "auth.socket_requires_token"),
        ("[sandbox]\nttl_s = 90000", "sandbox.ttl_s"),
        ("[sandbox]\nttl_s = -1", "sandbox.ttl_s"),
        ("[sandbox]\nexecute_timeout_s = 0", "sandbox.execute_timeout_s"),
        ("[sandbox]\noutput_limit = 99", "sandbox.output_limit"),
        ("[sandbox]\noutput_limit = 100001", "sandbox.output_limit"),
        ("[sandbox]\npids = 0", "sandbox.pids"),
        ("[sandbox]\ndefault_template = \"../etc\"", "sandbox.default_template"),
        ("[pool]\ncpu_overcommit = nan", "pool.cpu_overcommit"),
        ("[pool]\nmemory_overcommit = 0.0", "pool.memory_overcommit"),
        ("[pool]\nfill_parallel = 0", "pool.fill_parallel"),
        ("[pool.templates.python-node]\nparked_low = 3", "pool.templates"),
        ("[pool.templates.python-node]\nparkt_low = 3", "pool.templates"),
        ("[pool.templates.other]", "sandbox.default_template"),
        ("[telemetry]\nlog = \"rekindle=loud\"", "telemetry.log"),
        ("[telemetry]\nlog_format = \"xml\"", "telemetry.log_format"),
        ("[telemetry]\notlp_endpoint = \"https://x:4317\"", "telemetry.otlp_endpoint"),
        ("listen = 1", "listen"),
        ("[gateway]\nbudget = 0", "gateway.budget"),
        ("[gateway.services.x]\nupstream = \"https://x.example\"\noperations = []", "gateway.services"),
        ("[gateway.services.x]\nupstream = \"http://x.example\"\noperations = []", "gateway.services"),
        ("[gateway.services.x]\nupstream = \"https://x.example\"", "gateway.services"),
        ("[gateway.services.x]\nkey = \"sk-1\"", "gateway.services"),
    ] {
        assert_eq!(refused(file), [key], "{file}");
    }
}

#[test]
fn the_services_of_the_guide_and_of_the_package_can_be_used_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guide = std::fs::read_to_string(root.join("docs/guides/network.md")).expect("the guide");
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let guide = blocks.into_iter().find(|block| block.contains("[gateway]")).expect("an example").to_owned();
    let package = std::fs::read_to_string(root.join("packaging/etc/rekindle.toml")).expect("the file");
    let package: Vec<&str> = package
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .skip_while(|line| !line.starts_with("[gateway"))
        .take_while(|line| !line.starts_with("[telemetry"))
        .collect();
    for (text, path) in [(guide, "the guide"), (package.join("\n"), "the package")] {
        let loaded = load(&text, &[], &[]).unwrap_or_else(|error| panic!("{path}: {error}"));
        let services: Vec<&String> = loaded.config.gateway.services.keys().collect();
        assert_eq!(services, ["anthropic", "openai", "tickets"], "{path}");
    }
}

#[test]
fn the_four_set_ups_of_the_guide_can_be_used_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guide = std::fs::read_to_string(root.join("docs/guides/network.md")).expect("the guide");
    let (_, set_ups) = guide.split_once("## Four set-ups\n").expect("the section");
    let (set_ups, _) = set_ups.split_once("\n## ").expect("the next section");
    let mut found = Vec::new();
    for set_up in set_ups.split("\n### ").skip(1) {
        let (title, text) = set_up.split_once('\n').expect("a title");
        let text = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect(title);
        let config = load(text, &[], &[]).unwrap_or_else(|error| panic!("{title}: {error}")).config;
        assert!(config.auth.tokens.is_some(), "{title}");
        // What the commands below it name is there.
        let network = Egress::new(&config.network.policies, &config.network.hosts).expect(title);
        let words: Vec<&str> = set_up.split_whitespace().collect();
        let named = |option: &str| {
            let pairs = words.windows(2).filter(|pair| pair[0] == option);
            pairs.flat_map(|pair| pair[1].trim_matches('\'').split(',')).collect::<Vec<_>>()
        };
        assert!(!named("--network").is_empty(), "{title}");
        for policy in named("--network") {
            assert!(network.policy(policy).is_some(), "{title}: {policy}");
        }
        for service in named("--gateway").iter().filter_map(|operation| operation.split('/').next()) {
            assert!(config.gateway.services.contains_key(service), "{title}: {service}");
        }
        let modes = config.network.policies.iter().map(|(name, policy)| (name.clone(), policy.mode));
        found.push((title.to_owned(), modes.collect::<Vec<_>>()));
    }
    let expected = [
        ("A coding task", vec![("coding", Access::Allow)]),
        ("A research agent", vec![("research", Access::Full)]),
        ("An evaluation", vec![("evaluation", Access::Replay), ("record", Access::Allow)]),
        ("An autonomous agent", vec![("autonomous", Access::Allow)]),
    ];
    let expected = expected.map(|(title, modes)| {
        (title.to_owned(), modes.into_iter().map(|(name, mode)| (name.to_owned(), mode)).collect::<Vec<_>>())
    });
    assert_eq!(found, expected);
}

#[test]
fn what_http_clients_get_of_the_gateway_must_be_there() {
    let service = "[gateway.services.x]\nupstream = \"https://x.example\"\n\
                   operations = [{ name = \"a\", method = \"GET\", path = \"/\" }]\n";
    for (asked, fine) in [("x/a", true), ("x/*", true), ("x/b", false), ("y/a", false), ("x", false)] {
        let loaded = load(&format!("{service}[http]\ngateway = [\"{asked}\"]"), &[], &[]);
        assert_eq!(loaded.is_ok(), fine, "{asked}: {loaded:?}");
    }
}

#[test]
fn templates_are_taken_with_defaults_for_what_is_left_out() {
    let file = "[pool.templates.python-node]\nparked_high = 5\n[pool.templates.minimal]\n";
    let config = load(file, &[], &[]).expect("right").config;
    let templates = config.templates(&config.default_template(|_| false));
    let named: Vec<(&str, u32)> =
        templates.iter().map(|(name, levels)| (name.as_str(), levels.parked_high)).collect();
    assert_eq!(named, [("minimal", 2), ("python-node", 5)]);
}

#[test]
fn the_socket_is_for_its_owner_unless_a_group_is_named() {
    let mode = |file: &str| load(file, &[], &[]).expect("right").config.listen.mode().bits();
    assert_eq!(mode(""), 0o600);
    assert_eq!(mode("[listen]\nsocket_group = \"agents\""), 0o660);
    assert_eq!(mode("[listen]\nsocket_group = \"agents\"\nsocket_mode = \"0600\""), 0o600);
    let listen = ListenSection::default();
    assert_eq!(listen.socket_path(Path::new("/d"), false), PathBuf::from("/d/rekindle.sock"));
    assert_eq!(listen.socket_path(Path::new("/d"), true), PathBuf::from("/run/rekindle/rekindle.sock"));
}

#[test]
fn a_named_file_must_be_there_and_be_toml() {
    let missing = Sources { file: Some("/nonexistent.toml".into()), ..Sources::default() };
    assert!(matches!(missing.load(), Err(ConfigError::Read { .. })));
    let unnamed = Sources { default_file: Some("/nonexistent.toml".into()), ..Sources::default() };
    assert_eq!(unnamed.load().expect("the defaults").file, None);
    assert!(matches!(load("[listen", &[], &[]), Err(ConfigError::Syntax { .. })));
}

#[test]
fn the_reference_page_is_the_current_one() {
    let page = include_str!("../../../../docs/configuration.md");
    assert!(
        page == reference(),
        "docs/configuration.md is out of date; renew it with\n  \
         cargo run -p rekindle -- config reference > docs/configuration.md"
    );
}
