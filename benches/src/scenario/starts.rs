//! Starts of one machine: the floor, a boot, a restore, and a restore into a monitor that waits.
//!
//! Every sample goes from nothing to an open gate and then to the first output of a program. Three figures
//! come of it: to the agent's first answer, to usable, to the first output. The program is `echo`, which costs
//! next to nothing; [`python`] goes to the first output of what callers send instead.

use std::time::{Duration, Instant};

use anyhow::Result;
use rekindle::agent::{AgentClient, Program};
use rekindle::engine::{RestoreSpec, Stopwatch};
use rekindle::vm::Vm;

use super::{Scenario, first_run};
use crate::bed::{Bed, PATIENCE, gate_request};
use crate::floor::Floor;
use crate::page_cache;
use crate::record::{Kind, PageCache, Record, Sample};

/// The stage after the agent's first answer.
const GATE: &str = "gate";
/// The stage that is the program.
const OUTPUT: &str = "output";

/// How long the host is left alone before a start is measured: what the one before left to be cleared away is
/// gone then, as on a host that is not overrun. Many starts at once are what `burst` measures.
const LEFT_ALONE: Duration = Duration::from_millis(1_500);

/// Leaves the host alone for a while.
pub async fn host_at_rest() {
    tokio::time::sleep(LEFT_ALONE).await;
}

/// One start of the floor.
///
/// # Errors
/// When it fails.
pub async fn floor(bed: &Bed, floor: &Floor, record: &mut Record) -> Result<()> {
    page_cache::warm(&bed.read_by_restore())?;
    host_at_rest().await;
    let (timings, took) = floor.start(bed).await?;
    let sample = Sample::start(&timings, took);
    record.add(answer(Scenario::Floor, "floor", PageCache::Hot), sample.before(GATE));
    record.add(usable(Scenario::Floor, "floor", PageCache::Hot), sample);
    Ok(())
}

/// One boot.
///
/// # Errors
/// When it fails.
pub async fn cold_boot(bed: &Bed, record: &mut Record) -> Result<()> {
    page_cache::warm(&[bed.source.kernel.path.clone(), bed.source.image.path.clone()])?;
    host_at_rest().await;
    let begun = Instant::now();
    let vm = bed.cold_boot().await?;
    finish(&vm, begun, Scenario::ColdBoot, "cold_boot", PageCache::Hot, record).await?;
    vm.stop().await;
    Ok(())
}

/// One restore.
///
/// # Errors
/// When it fails.
pub async fn restore(bed: &Bed, cache: PageCache, record: &mut Record) -> Result<()> {
    let name = match cache {
        PageCache::Cold => {
            page_cache::evict(&bed.read_by_restore())?;
            "restore_cold"
        }
        PageCache::Hot | PageCache::Any => {
            page_cache::warm(&bed.read_by_restore())?;
            "restore"
        }
    };
    host_at_rest().await;
    let begun = Instant::now();
    let vm = bed.clone().await?;
    finish(&vm, begun, Scenario::Restore, name, cache, record).await?;
    vm.stop().await;
    Ok(())
}

/// One restore into a monitor that was started before.
///
/// # Errors
/// When it fails.
pub async fn prespawned(bed: &Bed, record: &mut Record) -> Result<()> {
    page_cache::warm(&bed.read_by_restore())?;
    let ground = bed.ground()?;
    let spec = RestoreSpec { hardware: ground.hardware.clone(), home: ground.home()?, snapshot: bed.files() };
    let prepared = bed.engine().prespawn(spec).await?;

    host_at_rest().await;
    let begun = Instant::now();
    let mut started = prepared.load().await?;
    // The stages of the preparation were taken before anybody waited.
    let since = started.timings.stages.iter().position(|stage| stage.name == "load").unwrap_or_default();
    started.timings.stages.drain(..since);
    let mut watch = Stopwatch::start();
    let stream = started.machine.dial().await?;
    watch.stage("dial");
    let agent = AgentClient::connect(stream, PATIENCE).await?;
    watch.stage("hello");
    agent.restore(gate_request()?, PATIENCE).await?;
    watch.stage(GATE);
    let took = begun.elapsed();
    started.timings.extend(&watch.finish());
    let sample = Sample::start(&started.timings, took);
    let output = first_output(&agent).await?;
    add(&sample, output, Scenario::RestorePrespawned, "restore_prespawned", PageCache::Hot, record);
    drop(agent);
    started.machine.kill().await;
    ground.close().await
}

/// One boot and one restore, each to the first output of a line of Python sent as `code`. A machine that booted
/// has to start the interpreter; a clone finds one in its snapshot.
///
/// # Errors
/// When one of them fails.
pub async fn python(bed: &Bed, record: &mut Record) -> Result<()> {
    let mut files = bed.read_by_restore();
    files.push(bed.source.kernel.path.clone());
    page_cache::warm(&files)?;
    for name in ["cold_boot_python", "restore_python"] {
        host_at_rest().await;
        let begun = Instant::now();
        let vm = if name == "restore_python" { bed.clone().await } else { bed.cold_boot().await }?;
        let sample = Sample::start(vm.timings(), begun.elapsed());
        let output = first_run::PYTHON.execute(vm.agent(), first_run::PYTHON.code()).await;
        vm.stop().await;
        let kind = Kind::time(Scenario::PythonStart, name, "to the first output of Python, as `code`");
        record.add(kind.with_cache(PageCache::Hot), sample.and(OUTPUT, output?));
    }
    Ok(())
}

/// Runs the first program and adds what there is to add.
async fn finish(
    vm: &Vm,
    begun: Instant,
    scenario: Scenario,
    name: &str,
    cache: PageCache,
    record: &mut Record,
) -> Result<()> {
    let sample = Sample::start(vm.timings(), begun.elapsed());
    let output = first_output(vm.agent()).await?;
    add(&sample, output, scenario, name, cache, record);
    Ok(())
}

/// Adds a start and its first program.
pub fn add(
    sample: &Sample,
    output: Duration,
    scenario: Scenario,
    name: &str,
    cache: PageCache,
    record: &mut Record,
) {
    record.add(answer(scenario, name, cache), sample.before(GATE));
    record.add(usable(scenario, name, cache), sample.clone());
    let kind = Kind::time(scenario, &format!("{name}_output"), "to the first output of `echo`");
    record.add(kind.with_cache(cache), sample.and(OUTPUT, output));
}

fn answer(scenario: Scenario, name: &str, cache: PageCache) -> Kind {
    Kind::time(scenario, name, "to the agent's first answer").with_cache(cache)
}

fn usable(scenario: Scenario, name: &str, cache: PageCache) -> Kind {
    Kind::time(scenario, &format!("{name}_usable"), "to an open gate").with_cache(cache)
}

/// The first program of a machine, as small as one can be.
///
/// # Errors
/// When it does not end well.
pub async fn first_output(agent: &AgentClient) -> Result<Duration> {
    Ok(first_run::execute(agent, Program::Shell("echo ready".into()), "ready\n").await?.0)
}
