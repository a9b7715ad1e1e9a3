//! docs/configuration.md, written from the sections themselves.

use std::fmt::Write as _;

use super::{Key, ServerConfig, TemplateSection};

const HEAD: &str = "\
# Configuration

<!-- Written by `rekindle config reference`; change the sections in the source instead. -->

`rekindle serve` reads one TOML file: the one `--config` names, else the one `REKINDLE_CONFIG` names, else \
`/etc/rekindle/rekindle.toml` for root and `$XDG_CONFIG_HOME/rekindle/rekindle.toml` (`~/.config/rekindle/rekindle.toml`) \
for anybody else. Without a file the defaults hold.

The later wins: default, file, variable (`REKINDLE_<SECTION>_<KEY>`), flag (`--set section.key=value`). An empty \
variable counts as unset. A key or variable that does not exist is an error, not ignored. `rekindle config check` \
shows what is in force and where each value comes from, or everything that is wrong.

Keys that end in `_s` take seconds, and text with a unit such as `\"90s\"`, `\"10m\"`, `\"2h\"` or `\"1d\"`; those that end in \
`_mib` take MiB and those that end in `_bytes` bytes, and text such as `\"512M\"`, `\"1.5G\"` or `\"2T\"`. In variables and \
flags the quotes are left out: `--set sandbox.ttl_s=10m`. Inside the tables of templates, policies and services they are \
numbers.
";

/// The variable that sets a key.
#[must_use]
pub fn variable(section: &str, key: &str) -> String {
    format!("REKINDLE_{}_{}", section.to_uppercase(), key.to_uppercase())
}

/// The whole page.
#[must_use]
pub fn reference() -> String {
    let defaults = ServerConfig::default();
    let mut page = HEAD.to_owned();
    for (section, about, keys) in ServerConfig::SECTIONS {
        heading(&mut page, section, about);
        page.push_str("| key | default | meaning | variable |\n|---|---|---|---|\n");
        for key in *keys {
            let default = default(key, &defaults.shown(section, key.name));
            let variable = variable(section, key.name);
            line(
                &mut page,
                &[&format!("`{}`", key.name), &default, &key.description(), &format!("`{variable}`")],
            );
        }
        if *section == "pool" {
            heading(&mut page, "pool.templates.<name>", TemplateSection::ABOUT);
            page.push_str("| key | default | meaning |\n|---|---|---|\n");
            let defaults = serde_json::to_value(TemplateSection::default()).unwrap_or_default();
            for key in TemplateSection::KEYS {
                let default = default(key, &defaults[key.name].to_string());
                line(&mut page, &[&format!("`{}`", key.name), &default, &key.description()]);
            }
        }
    }
    page
}

fn heading(page: &mut String, name: &str, about: &[&str]) {
    let about: Vec<&str> = about.iter().map(|line| line.trim()).collect();
    let _ = write!(page, "\n## `[{name}]`\n\n{}\n\n", about.join(" "));
}

fn default(key: &Key, value: &str) -> String {
    match (key.shown, value) {
        (Some(shown), _) => shown.to_owned(),
        (None, "none") => "none".to_owned(),
        (None, value) => format!("`{value}`"),
    }
}

fn line(page: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}
