//! `rekindle run`: one sandbox, one program, its output, nothing left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use prometheus_client::metrics::counter::Counter;
use rekindle::agent::{
    AgentClient, AgentError, EnvVar, Event, ExecuteRequest, Finished, GuestPath, GuestUser, OutputStream,
    SandboxLimits, StdinWriter, TransferPatience, UploadOptions,
};
use rekindle::config::Dirs;
use rekindle::grpc;
use rekindle::network::gateway::TOKEN_VARIABLE;
use rekindle::network::{Gate, GrantRequest, NetworkSummary};
use rekindle::service::{Input, ServiceConfig, check_machine, diagnose, trust_variables, write_authority};
use rekindle::vm::{self, Identity, Lost, ScratchMount, Vm};
use rekindle_api::v1::ExecuteResponse;
use serde::Serialize;

use super::args::RunOptions;
use super::config::ConfigOptions;
use super::execution::{self, End, Execution, Machine, UNREAD, print_live, show_end};
use super::failure;
use super::interrupt::{SIGNAL_BASE, interrupted};
use super::network;
use super::remote::print;
use super::setup::Setup;
use super::stages::{Breakdown, StageClock};

/// Largest file `--get` brings out.
const MAX_GET_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// The number of the only execution.
const EXECUTION: u64 = 1;

/// How the use of a sandbox came to an end.
enum Used {
    /// The program told how it ended.
    Finished(Box<Finished>),
    /// This command was asked to end first, and exits with this code.
    Left(u8),
}

/// What `--json` prints: the execution as `exec` prints it, and what is known of the machine.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    execution: Execution,
    template: &'a str,
    engine: String,
    machine: Machine,
    timings: Breakdown,
}

/// Runs the command.
pub async fn run(options: RunOptions) -> anyhow::Result<u8> {
    let mut stages = StageClock::start();
    let uploads = uploads(&options)?;
    let setup = Setup::open(&options.machine)?;
    let template = options.template.clone().unwrap_or_else(|| setup.default_template());
    // The defaults of a server. Nobody waits for this sandbox but who set its time limit.
    let defaults =
        ServiceConfig { max_execute_timeout: Duration::MAX, ..ServiceConfig::new(template.clone()) };
    let request = request(&options, &defaults)?;
    let source = setup.source(&template)?;
    let milli_cpus = options.cpus.map_or(0, |quota| quota.millis);
    check_machine(&source.recipe, milli_cpus, options.program.memory.unwrap_or(0))?;
    let user = options.program.user.name;
    if user == GuestUser::Root && !source.recipe.root {
        bail!(
            "the template {template} does not allow root in its sandboxes\nhint: leave --user out, or set `root = true` in the template's recipe"
        );
    }
    let (gate, env) = open_gate(&options).await?;
    stages.stage("setup");
    let limits = SandboxLimits {
        memory_bytes: options.program.memory.unwrap_or(0),
        pids: defaults.pids,
        ..SandboxLimits::default()
    };
    let root = source.recipe.root;
    let scratch = if options.cold { ScratchMount::Blank } else { ScratchMount::InPlace };
    let identity = Identity { limits, scratch, root, env, ..Identity::default() };
    // Held while the machine runs: a snapshot in use is not removed.
    let mut snapshot = None;
    let mut plan = source.plan();
    plan.cpu = options.cpus;
    let vm = if options.cold {
        source
            .cold_boot(&setup.host, plan, &identity, None)
            .await
            .context("the sandbox could not be booted")?
    } else {
        let snapshot = snapshot.insert(setup.snapshot(&source).await?);
        stages.stage("snapshot");
        vm::restore_clone(&setup.host, snapshot, &plan, &identity)
            .await
            .context("the sandbox could not be restored")?
    };
    stages.take(vm.timings());
    // It ends with the machine's session.
    tokio::spawn(Arc::clone(&gate).serve(vm.agent().take_streams(), Arc::clone(vm.agent().meter())));
    if let Some(interception) = gate.interception()
        && let Err(error) = write_authority(vm.agent(), interception).await
    {
        vm.stop().await;
        return Err(error).context("the certificates that its programs trust could not be written");
    }
    gate.journal().begin(EXECUTION);
    let agent = vm.agent().as_user(user);
    // A file that cannot be brought out must not cost the program's output.
    let mut fetched = Ok(());
    let ended = tokio::select! {
        ended = async {
            let used = use_sandbox(&agent, request, uploads, &mut stages).await?;
            if matches!(used, Used::Finished(_)) {
                fetched = fetch_all(&agent, &options, &mut stages).await;
            }
            Ok(used)
        } => ended,
        number = interrupted(true) => Ok(Used::Left(SIGNAL_BASE + number)),
    };
    let machine = vm.usage().await.group;
    let (end, response) = match ended {
        Ok(Used::Left(code)) => {
            vm.stop().await;
            return Ok(code);
        }
        Ok(Used::Finished(finished)) => {
            let response = response(&finished, &gate.journal().end(EXECUTION), &source.image.packages);
            (End::of(&response)?, response)
        }
        Err(error) => match lost(&vm, &error).await {
            Some(end) => (end, ExecuteResponse::default()),
            None => {
                vm.stop().await;
                return Err(error);
            }
        },
    };
    vm.stop().await;
    stages.stage("destroy");
    let code = end.code();
    if options.program.json {
        let report = Report {
            execution: Execution::new(response, end),
            template: template.as_str(),
            engine: setup.decision.engine.to_string(),
            machine: machine.into(),
            timings: stages.finish(),
        };
        print::json(&report)?;
    } else {
        show_end(&response, &end, options.program.stream)?;
    }
    fetched.map(|()| code)
}

/// The policy and the grants that were asked for, of the configuration that a server on this machine would have, with
/// what a program finds of them in its environment.
async fn open_gate(options: &RunOptions) -> anyhow::Result<(Arc<Gate>, Vec<EnvVar>)> {
    let (egress, gateway) = match (&options.network, &options.gateway[..]) {
        (None, []) => network::none(),
        _ => {
            let config = ConfigOptions { config: options.config.clone(), ..ConfigOptions::default() };
            let mut config = config.load()?.config;
            // Keys are nobody's business who does not ask for them.
            if options.gateway.is_empty() {
                config.gateway.services.clear();
            }
            network::open(&config, &Dirs::find()?.data, Counter::default()).await?
        }
    };
    let asked = GrantRequest { operations: &options.gateway, budget: None };
    let granted =
        gateway.grant(asked, |_| true).context("hint: see [gateway.services] in the configuration")?;
    let (grants, token) = granted.unzip();
    let token =
        token.map(|token| EnvVar { name: TOKEN_VARIABLE.into(), value: token.reveal().to_owned().into() });
    let name = options.network.as_deref().unwrap_or_default();
    let policy = egress.policy(name).with_context(|| {
        format!(
            "there is no network policy {name:?}\nhint: add [network.policies.{name}] to the configuration"
        )
    })?;
    egress.require(&policy)?;
    let mut env: Vec<EnvVar> = token.into_iter().collect();
    if policy.intercepts() {
        trust_variables(&mut env);
    }
    Ok((Arc::new(egress.gate(policy, None).with_grants(grants)), env))
}

/// Everything between restore and destroy.
async fn use_sandbox(
    agent: &AgentClient,
    request: ExecuteRequest,
    uploads: Vec<(PathBuf, GuestPath, u32)>,
    stages: &mut StageClock,
) -> anyhow::Result<Used> {
    for (local, guest, mode) in &uploads {
        let file =
            tokio::fs::File::open(local).await.with_context(|| format!("cannot open {}", local.display()))?;
        let facts = file.metadata().await.ok().filter(std::fs::Metadata::is_file);
        let size = facts.map(|facts| facts.len());
        let options = UploadOptions { mode: *mode, size, ..UploadOptions::default() };
        agent
            .upload(guest, options, file, TransferPatience::default())
            .await
            .with_context(|| format!("{} could not be copied to {guest}", local.display()))?;
    }
    if !uploads.is_empty() {
        stages.stage("put");
    }
    let mut execution = agent.execute(request).await.map_err(failure::not_started)?;
    if let Some(stdin) = execution.take_stdin() {
        tokio::spawn(forward_stdin(stdin));
    }
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    loop {
        let read = match execution.next().await? {
            Some(Event::Output { stream: OutputStream::Stdout, data }) => {
                print_live(&mut stdout, &data).await?
            }
            Some(Event::Output { stream: OutputStream::Stderr, data }) => {
                print_live(&mut stderr, &data).await?
            }
            Some(Event::Finished(finished)) => {
                stages.stage("execute");
                return Ok(Used::Finished(finished));
            }
            None => bail!("the agent ended the execution without a result"),
        };
        if !read {
            return Ok(Used::Left(UNREAD));
        }
    }
}

/// Copies out what was asked for, everything that can be even when something cannot.
async fn fetch_all(agent: &AgentClient, options: &RunOptions, stages: &mut StageClock) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    for (guest, local) in &options.get {
        outcome = outcome.and(fetch(agent, guest, local).await);
    }
    if !options.get.is_empty() {
        stages.stage("get");
    }
    outcome
}

/// Copies one file out: beside its place first, so that a failure leaves what was there.
async fn fetch(agent: &AgentClient, guest: &GuestPath, local: &Path) -> anyhow::Result<()> {
    let dir = local.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let aside =
        tempfile::NamedTempFile::new_in(dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    let file = tokio::fs::File::from_std(aside.reopen()?);
    agent
        .download(guest, MAX_GET_BYTES, file, TransferPatience::default())
        .await
        .with_context(|| format!("{guest} could not be copied to {}", local.display()))?;
    aside.persist(local).with_context(|| format!("cannot write {}", local.display()))?;
    Ok(())
}

/// The answer a server would give.
fn response(finished: &Finished, network: &NetworkSummary, packages: &[String]) -> ExecuteResponse {
    let diagnosis = diagnose(finished, network, packages);
    let mut response = grpc::execute_response(String::new(), finished, network, diagnosis.as_ref());
    // What was spilled is gone with the machine.
    for output in [&mut response.stdout, &mut response.stderr].into_iter().flatten() {
        output.spilled_path.clear();
        output.spilled_bytes = 0;
    }
    response
}

/// Hands our own standard input on.
async fn forward_stdin(mut stdin: StdinWriter) {
    let mut pieces = execution::pieces();
    while let Some(piece) = pieces.recv().await {
        if stdin.send(piece).await.is_err() {
            return;
        }
    }
    stdin.eof();
}

/// An end that only the host can see, if the failure is one.
async fn lost(vm: &Vm, error: &anyhow::Error) -> Option<End> {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<AgentError>())?;
    Some(match vm.blame(cause).await? {
        Lost::Agent => End::AgentLost { message: cause.to_string() },
        Lost::Vm(death) => End::VmLost { message: death.to_string() },
    })
}

/// What the agent is asked for, as a server with these defaults would ask it.
fn request(options: &RunOptions, defaults: &ServiceConfig) -> anyhow::Result<ExecuteRequest> {
    let mut asked = execution::request(&options.program);
    if let Some(file) = &options.file {
        asked.program = Some(execution::command(vec![interpreter(file)?.to_owned(), file_name(file)?]));
    }
    let input = if execution::is_for_the_program() { Input::Live } else { Input::None };
    let request = grpc::execute_spec(asked)?.request(defaults, &input, None, options.program.stream)?;
    Ok(ExecuteRequest { label: EXECUTION, ..request })
}

fn interpreter(file: &Path) -> anyhow::Result<&'static str> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("py") => Ok("python3"),
        Some("js" | "mjs" | "cjs") => Ok("node"),
        Some("sh") => Ok("bash"),
        _ => bail!(
            "{} has no extension that names a language\nhint: use .py, .js, .mjs, .cjs or .sh, or --put it and run it with `-- PROGRAM ARG…`",
            file.display()
        ),
    }
}

fn file_name(file: &Path) -> anyhow::Result<String> {
    let name = file.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{} is no file name", file.display()))
}

/// Everything that is copied in, checked before a machine is started for it.
fn uploads(options: &RunOptions) -> anyhow::Result<Vec<(PathBuf, GuestPath, u32)>> {
    let mut all: Vec<(PathBuf, GuestPath)> = options.put.clone();
    if let Some(file) = &options.file {
        all.push((file.clone(), GuestPath::new(file_name(file)?.into_bytes())?));
    }
    let mode = |local: &Path| -> anyhow::Result<u32> {
        use std::os::unix::fs::PermissionsExt;
        let metadata =
            std::fs::metadata(local).with_context(|| format!("cannot read {}", local.display()))?;
        if !metadata.is_file() {
            bail!("{} is not a file\nhint: only single files can be copied in", local.display());
        }
        Ok(metadata.permissions().mode() & 0o777)
    };
    all.into_iter().map(|(local, guest)| mode(&local).map(|mode| (local, guest, mode))).collect()
}
