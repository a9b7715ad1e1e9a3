//! `rekindle template`: list, build, verify and remove snapshots.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, bail};
use rekindle::config::{Dirs, TemplateName};
use rekindle::store::{Entry, Store};
use serde_json::json;

use super::args::{MachineOptions, TemplateCommand};
use super::remote;
use super::setup::{self, Setup};

/// Runs one of the commands.
pub async fn template(command: TemplateCommand) -> anyhow::Result<u8> {
    match command {
        TemplateCommand::Ls { json, server } if server.server.is_some() => {
            remote::template_ls::template_ls(remote::connect(&server).await?, json).await
        }
        TemplateCommand::Ls { json, .. } => ls(json),
        TemplateCommand::Build { template, machine, force } => build(&template, &machine, force).await,
        TemplateCommand::Verify { template } => verify(template.as_ref()),
        TemplateCommand::Rm { template: Some(template), .. } => rm(&template),
        TemplateCommand::Rm { template: None, machine, .. } => rm_unused(&machine),
    }
}

fn ls(as_json: bool) -> anyhow::Result<u8> {
    let store = open_store()?;
    let entries = store.list()?;
    let names = setup::template_names()?;
    if as_json {
        let snapshots: Vec<_> = entries.iter().map(entry_json).collect();
        println!("{}", serde_json::to_string_pretty(&json!({ "templates": names, "snapshots": snapshots }))?);
        return Ok(0);
    }
    println!("{:<16} {:<12} {:<34} {:>9}  {:<8}", "TEMPLATE", "ENGINE", "SNAPSHOT", "ON DISK", "AGE");
    for name in &names {
        let mut own = entries.iter().filter(|entry| entry.template == *name).peekable();
        if own.peek().is_none() {
            println!("{name:<16} {:<12} not built yet: {}", "-", setup::recipe_of(name)?.description);
        }
        for entry in own {
            print_entry(entry);
        }
    }
    for entry in entries.iter().filter(|entry| !names.contains(&entry.template)) {
        print_entry(entry);
    }
    Ok(0)
}

fn print_entry(entry: &Entry) {
    let digest = entry.dir.file_name().unwrap_or_default().to_string_lossy();
    match &entry.manifest {
        Ok(manifest) => println!(
            "{:<16} {:<12} {:<34} {:>5} MiB  {}",
            entry.template,
            manifest.inputs.origin.engine,
            digest,
            entry.disk_bytes / (1024 * 1024),
            age(manifest.created)
        ),
        Err(error) => println!("{:<16} {:<12} {digest:<34} damaged: {error}", entry.template, "?"),
    }
}

fn entry_json(entry: &Entry) -> serde_json::Value {
    json!({
        "template": entry.template,
        "path": entry.dir,
        "disk_bytes": entry.disk_bytes,
        "manifest": entry.manifest.as_ref().ok(),
        "damaged": entry.manifest.as_ref().err().map(ToString::to_string),
    })
}

fn age(created: u64) -> String {
    let seconds = UNIX_EPOCH
        .checked_add(Duration::from_secs(created))
        .and_then(|at| at.elapsed().ok())
        .unwrap_or_default()
        .as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

async fn build(name: &TemplateName, machine: &MachineOptions, force: bool) -> anyhow::Result<u8> {
    let setup = Setup::open(machine)?;
    let source = setup.source(name)?;
    let fitting = setup.store.load(name, &source.inputs(&setup.host));
    let snapshot = match fitting {
        Ok(snapshot) if !force => {
            eprintln!("template {name}: a snapshot that fits is there already");
            snapshot
        }
        _ => setup.build(&source, force).await?.0,
    };
    println!("{}", snapshot.dir().display());
    Ok(0)
}

fn verify(name: Option<&TemplateName>) -> anyhow::Result<u8> {
    let store = open_store()?;
    let entries = entries_of(&store, name)?;
    if entries.is_empty() {
        bail!("there is no snapshot to verify\nhint: run `rekindle template build`");
    }
    let mut damaged = 0;
    for entry in entries {
        let digest = entry.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match store.verify(&entry) {
            Ok(()) => println!("{} {digest}: every byte is as it was", entry.template),
            Err(error) => {
                damaged += 1;
                println!("{} {digest}: {error}", entry.template);
            }
        }
    }
    if damaged > 0 { Ok(super::OWN_FAILURE) } else { Ok(0) }
}

fn rm(name: &TemplateName) -> anyhow::Result<u8> {
    let store = open_store()?;
    let entries = entries_of(&store, Some(name))?;
    if entries.is_empty() {
        bail!("there is no snapshot of template {name}");
    }
    for entry in entries {
        store.remove(&entry).with_context(|| format!("template {name} was not removed"))?;
        println!("removed {}", entry.dir.display());
    }
    Ok(0)
}

fn rm_unused(machine: &MachineOptions) -> anyhow::Result<u8> {
    let setup = Setup::open(machine)?;
    let mut wanted = Vec::new();
    for name in setup::template_names()? {
        // A template whose image is not built has no snapshot anyone could use.
        if let Ok(source) = setup.source(&name) {
            wanted.push(source.inputs(&setup.host));
        }
    }
    let collected = setup.store.collect(Duration::ZERO, |manifest| wanted.contains(&manifest.inputs))?;
    for dir in &collected.removed {
        println!("removed {}", dir.display());
    }
    eprintln!("{} MiB freed, {} in use", collected.freed_bytes / (1024 * 1024), collected.in_use);
    Ok(0)
}

fn entries_of(store: &Store, name: Option<&TemplateName>) -> anyhow::Result<Vec<Entry>> {
    let all = store.list()?;
    Ok(all.into_iter().filter(|entry| name.is_none_or(|name| entry.template == *name)).collect())
}

fn open_store() -> anyhow::Result<Store> {
    let data = Dirs::find()?.data;
    let store = Store::open(&data)?;
    // Every command cleans up after those that were killed, not only the ones that start machines.
    store.reclaim()?;
    rekindle::vm::reclaim(&data).context("what killed commands left could not be looked at")?;
    Ok(store)
}
