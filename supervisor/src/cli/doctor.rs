//! `rekindle doctor`: what was found on this machine, which engine that makes, and what to do about the rest.

use std::fs;

use prometheus_client::metrics::counter::Counter;
use rekindle::config::{Dirs, default_template};
use rekindle::engine::detect::{self, EngineChoice, HostFacts, Programs};
use rekindle::host::advice;
use rekindle::host::cgroup::{CgroupManager, Unenforced};
use rekindle::network::{Egress, Gateway, Worker, WorkerOptions};
use rekindle::store::{Artifacts, Store};
use serde::Serialize;

use super::args::DoctorOptions;
use super::setup;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// Fine.
    Ok,
    /// Works, but not as well as it could.
    Note,
    /// No sandbox runs without it.
    Missing,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Runs the command: code 0 when a sandbox can run here.
pub async fn doctor(options: &DoctorOptions) -> anyhow::Result<u8> {
    let facts = HostFacts::probe(Programs::default());
    let mut findings = vec![kvm(&facts), firecracker(&facts), qemu(&facts)];
    let decision = detect::decide(EngineChoice::Auto, &facts);
    findings.push(match &decision {
        Ok(decision) => ok("engine", format!("{}: {}", decision.engine, decision.reason)),
        Err(error) => split("engine", Verdict::Missing, &error.to_string()),
    });
    findings.push(cgroups());
    findings.push(network().await);
    findings.extend(artifacts()?);
    // What a production host should look like; nothing of it keeps a sandbox from running.
    findings.extend(advice::advise().into_iter().map(|advice| Finding {
        what: advice.topic,
        verdict: if advice.is_fine() { Verdict::Ok } else { Verdict::Note },
        hint: advice.hint.map(str::to_owned),
        found: advice.found,
    }));
    let runnable = !findings.iter().any(|finding| finding.verdict == Verdict::Missing);
    if options.json {
        let report = serde_json::json!({ "can_run": runnable, "findings": findings });
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&findings, runnable);
    }
    Ok(if runnable { 0 } else { super::OWN_FAILURE })
}

fn print(findings: &[Finding], runnable: bool) {
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Missing => "MISSING",
        };
        println!("{:<18} {mark:<8} {}", finding.what, finding.found);
        if let Some(hint) = &finding.hint {
            println!("{:<18} {:<8} hint: {hint}", "", "");
        }
    }
    println!();
    println!("{}", if runnable { "A sandbox can run here." } else { "No sandbox can run here yet." });
}

fn ok(what: &'static str, found: String) -> Finding {
    Finding { what, verdict: Verdict::Ok, found, hint: None }
}

/// Splits a message of ours into the finding and its hint.
fn split(what: &'static str, verdict: Verdict, message: &str) -> Finding {
    let (hints, found): (Vec<&str>, Vec<&str>) = message.lines().partition(|line| line.starts_with("hint: "));
    let hint = hints.first().map(|line| line.trim_start_matches("hint: ").to_owned());
    Finding { what, verdict, found: found.join(" "), hint }
}

fn kvm(facts: &HostFacts) -> Finding {
    let verdict = if facts.kvm.is_usable() { Verdict::Ok } else { Verdict::Note };
    Finding {
        what: "kvm",
        verdict,
        found: facts.kvm.to_string(),
        hint: facts.kvm.hint().filter(|_| verdict == Verdict::Note).map(str::to_owned),
    }
}

fn firecracker(facts: &HostFacts) -> Finding {
    match &facts.firecracker {
        Ok(found) => ok("firecracker", format!("{} at {}", found.version, found.path.display())),
        Err(lack) => split("firecracker", Verdict::Note, lack),
    }
}

fn qemu(facts: &HostFacts) -> Finding {
    match &facts.qemu {
        Ok(found) => ok("qemu", format!("{} at {}", found.version_text, found.path.display())),
        Err(lack) => split("qemu", Verdict::Note, lack),
    }
}

fn cgroups() -> Finding {
    let manager = CgroupManager::detect(None);
    let missing: Vec<String> = manager.unenforced().iter().map(ToString::to_string).collect();
    let version = manager.version().map_or("none".to_owned(), |version| version.to_string());
    if missing.is_empty() {
        return ok("limits", format!("{version}: cpu, memory, pids and io are enforced"));
    }
    Finding {
        what: "limits",
        verdict: Verdict::Note,
        found: format!("{version}; not enforced: {}", missing.join(", ")),
        hint: Some(Unenforced::hint(manager.unenforced()).into()),
    }
}

/// The process that serves connections to the outside: one is started, and asked who it is.
async fn network() -> Finding {
    let options = WorkerOptions::this_program(Counter::default());
    match Worker::start(options, &Egress::default(), &Gateway::default()).await {
        Ok(worker) => {
            let user =
                worker.pid().and_then(user_of).map_or_else(String::new, |user| format!(", as user {user}"));
            ok("network", format!("its worker starts, without capabilities{user}"))
        }
        Err(error) => split("network", Verdict::Note, &error.to_string()),
    }
}

/// Whom a process runs as.
fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().next()?.parse().ok()
}

/// Kernel and images, and the snapshots made of them.
fn artifacts() -> anyhow::Result<Vec<Finding>> {
    let dirs = Dirs::find()?;
    let artifacts = Artifacts::of(&dirs);
    let mut findings = vec![match artifacts.kernel() {
        Ok(kernel) => ok("kernel", kernel.path.display().to_string()),
        Err(error) => split("kernel", Verdict::Missing, &error.to_string()),
    }];
    let mut some_image = false;
    let mut images = Vec::new();
    let names = setup::template_names()?;
    for name in &names {
        let image = setup::recipe_of(name).ok().map(|recipe| artifacts.image(&recipe.image));
        images.push(match image {
            Some(Ok(image)) => {
                some_image = true;
                ok("image", format!("{name}: {}", image.path.display()))
            }
            Some(Err(error)) => split("image", Verdict::Note, &error.to_string()),
            None => Finding {
                what: "image",
                verdict: Verdict::Note,
                found: format!("the recipe of {name} cannot be read"),
                hint: None,
            },
        });
    }
    let usual = default_template(|_| false);
    if !some_image && let Some(at) = names.iter().position(|name| *name == usual) {
        images[at].verdict = Verdict::Missing;
    }
    findings.append(&mut images);
    let snapshots = Store::open(&dirs.data).and_then(|store| store.list());
    findings.push(match snapshots {
        Ok(entries) => ok("snapshots", format!("{} in {}", entries.len(), dirs.data.display())),
        Err(error) => split("snapshots", Verdict::Missing, &error.to_string()),
    });
    Ok(findings)
}
