//! The order of things: phases of scenarios that take turns, round by round, and then the reports.
//!
//! ```text
//! starts (nothing else runs) ──▶ claims ──▶ first programs ──▶ one warm sandbox ──▶ memory ──▶ bursts ──▶ report
//! ```
//!
//! Within a phase the scenarios alternate, so that what the machine does meanwhile hits all of them alike.
//! A sample that fails is recorded as a failure and the run goes on.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use futures::future::LocalBoxFuture;
use rekindle::vm::{BuildStep, Vm};
use tokio::sync::Mutex;

use crate::args::Args;
use crate::baseline::Baseline;
use crate::bed::{self, Bed};
use crate::fingerprint::{self, Fingerprint};
use crate::floor::Floor;
use crate::page_cache;
use crate::progress::Progress;
use crate::ratio;
use crate::record::{Kind, PageCache, Record};
use crate::report::{self, Report};
use crate::scenario::alternatives::Alternative;
use crate::scenario::e2b::Fronted;
use crate::scenario::egress::Networked;
use crate::scenario::grpc::Served;
use crate::scenario::transfer::{self, RawChannel};
use crate::scenario::{Scenario, claim, crowd, first_run, roundtrip, starts, working_set};

/// Most samples of one scenario that starts many machines at once.
const FEW: usize = 10;
/// From how many at once that is.
const MANY: usize = 9;

/// Measures and reports; says whether the baseline, if it was to be checked, was met.
///
/// # Errors
/// When nothing can be measured here, or the reports cannot be written.
pub async fn everything(args: &Args) -> Result<bool> {
    let begun = Instant::now();
    let baseline = args.check.then(|| Baseline::read(&args.baseline)).transpose()?;
    let progress = Progress::new();
    let recipe = bed::recipe_with(&args.template, args.agent_word.as_deref())?;
    let bed = Bed::open(args.engine, recipe, &|step| progress.say(&building(&step))).await?;
    let mut host = Fingerprint::take(bed.engine().identity());
    progress.note(&format!("{}; template {}", bed.decision, args.template));

    let mut run = Run { args, bed: &bed, record: Record::default(), progress };
    run.starts().await;
    run.claims().await;
    run.first_programs().await;
    run.warm_sandbox().await;
    run.service().await;
    run.front().await;
    run.network().await;
    run.memory().await;
    run.bursts().await;
    let Run { record, progress, .. } = run;
    progress.done();

    host.load_at_end = fingerprint::load();
    let report = Report {
        schema: report::SCHEMA,
        tool: concat!("rekindle-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        unix_seconds: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        took_seconds: begun.elapsed().as_secs_f64(),
        host,
        template: args.template.to_string(),
        vcpus: bed.source.recipe.vcpus,
        memory_mib: bed.source.recipe.memory_mib,
        ratios: ratio::compare(&record, bed.kind()),
        record,
    };
    println!("{}", report::table::render(&report));
    report.write(&args.out).with_context(|| format!("cannot write to {}", args.out.display()))?;
    eprintln!("reports: {}/report.{{html,md,json}}", args.out.display());

    let Some(baseline) = baseline else { return Ok(true) };
    let verdicts = baseline.check(&report.host.engine, &report.template, &report.ratios)?;
    println!("\nagainst {}:", args.baseline.display());
    for verdict in &verdicts {
        println!("  {}", verdict.line);
    }
    Ok(verdicts.iter().all(|verdict| verdict.passed))
}

struct Run<'a> {
    args: &'a Args,
    bed: &'a Bed,
    record: Record,
    progress: Progress,
}

/// Takes one sample of a scenario.
trait Sampler {
    fn sample<'a>(&'a mut self, record: &'a mut Record) -> LocalBoxFuture<'a, Result<()>>;
}

impl<F: AsyncFnMut(&mut Record) -> Result<()>> Sampler for F {
    fn sample<'a>(&'a mut self, record: &'a mut Record) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(self(record))
    }
}

/// A scenario in the table of a phase.
struct Row<'a> {
    scenario: Scenario,
    series: String,
    rounds: usize,
    sampler: Box<dyn Sampler + 'a>,
}

fn row<'a>(
    scenario: Scenario,
    series: impl Into<String>,
    sampler: impl AsyncFnMut(&mut Record) -> Result<()> + 'a,
) -> Row<'a> {
    Row { scenario, series: series.into(), rounds: usize::MAX, sampler: Box::new(sampler) }
}

/// Whether there is a round before the first that counts: it finds cold what a host at work has warm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WarmUp {
    No,
    Round,
}

impl Run<'_> {
    /// Takes samples of those rows that were asked for, in turns.
    async fn phase(&mut self, warm_up: WarmUp, rounds: usize, mut rows: Vec<Row<'_>>) {
        rows.retain(|row| self.args.wants(row.scenario));
        for round in usize::from(warm_up == WarmUp::No)..=rounds {
            for Row { scenario, series, sampler, .. } in rows.iter_mut().filter(|row| round <= row.rounds) {
                let mut first = Record::default();
                let record = if round > 0 { &mut self.record } else { &mut first };
                self.progress.say(&match round {
                    0 => format!("{series}: warming up"),
                    round => format!("{series}: {round} of {rounds}"),
                });
                if let Err(error) = sampler.sample(record).await {
                    self.progress.note(&format!("a sample of {series} failed: {error:#}"));
                    record.fail(Kind::time(*scenario, series, ""), format!("{error:#}"));
                }
            }
        }
    }

    /// Starts of one machine, and what one would pick instead.
    async fn starts(&mut self) {
        let bed = self.bed;
        let floor = match self.args.wants(Scenario::Floor) {
            true => self.or_skip(Scenario::Floor, Floor::learn(bed).await),
            false => None,
        };
        let mut rows = Vec::new();
        if let Some(floor) = &floor {
            rows.push(row(Scenario::Floor, "floor", async |record| starts::floor(bed, floor, record).await));
        }
        rows.push(row(Scenario::ColdBoot, "cold_boot", async |record| starts::cold_boot(bed, record).await));
        rows.push(row(Scenario::Restore, "restore", async |record| {
            starts::restore(bed, PageCache::Hot, record).await
        }));
        let cold = self.cold_is_possible();
        if cold {
            rows.push(row(Scenario::Restore, "restore_cold", async |record| {
                starts::restore(bed, PageCache::Cold, record).await
            }));
        }
        rows.push(row(Scenario::RestorePrespawned, "restore_prespawned", async |record| {
            starts::prespawned(bed, record).await
        }));
        rows.push(row(Scenario::PythonStart, "restore_python", async |record| {
            starts::python(bed, record).await
        }));
        if cold {
            rows.push(row(Scenario::WorkingSet, "ws_cold_with", async |record| {
                working_set::sample(bed, record).await
            }));
        }
        for scenario in [Scenario::Bubblewrap, Scenario::Container] {
            if self.args.wants(scenario) {
                let found = Alternative::find(scenario, self.args.tree.as_deref());
                rows.extend(self.or_skip(scenario, found).map(|mut alternative| {
                    row(scenario, format!("{scenario}_output"), async move |record| {
                        starts::host_at_rest().await;
                        alternative.sample(record)
                    })
                }));
            }
        }
        self.phase(WarmUp::Round, self.args.n, rows).await;
    }

    /// Claims of parked machines. A phase of its own: a machine that waits keeps the snapshot in memory, which a
    /// cold restore must not find there.
    async fn claims(&mut self) {
        if !self.args.wants(Scenario::ClaimParked) {
            return;
        }
        let (bed, parking) = (self.bed, claim::parking(self.bed));
        let sample = async |record: &mut Record| claim::sample(bed, &parking, record).await;
        self.phase(WarmUp::No, self.args.n, vec![row(Scenario::ClaimParked, "claim_parked", sample)]).await;
        parking.drain().await;
    }

    /// Whether the snapshot's files can be thrown out of the page cache, for those who ask for that.
    fn cold_is_possible(&mut self) -> bool {
        let mut asked = vec![Scenario::Restore, Scenario::WorkingSet];
        asked.retain(|scenario| self.args.wants(*scenario));
        if asked.is_empty() {
            return false;
        }
        let Err(error) = page_cache::evict(&self.bed.read_by_restore()) else { return true };
        let reason = format!("the page cache cannot be made cold here: {error:#}");
        self.progress.note(&reason);
        asked.into_iter().for_each(|scenario| self.record.skip(scenario, &*reason));
        false
    }

    /// The first program of fresh clones.
    async fn first_programs(&mut self) {
        let bed = self.bed;
        let warm = &bed.source.recipe.warm;
        let has_data = ["numpy", "pandas"].iter().all(|name| warm.packages.iter().any(|kept| kept == name));
        let mut rows = Vec::new();
        for (run, kept, what) in [
            (&first_run::PYTHON, warm.python.is_some(), "Python"),
            (&first_run::NODE, warm.node > 0, "Node"),
            (&first_run::DATA, has_data, "Python with numpy and pandas"),
        ] {
            if kept {
                let sample = async move |record: &mut Record| first_run::sample(bed, run, record).await;
                rows.push(row(run.scenario, run.scenario.to_string(), sample));
            } else if self.args.wants(run.scenario) {
                // Of an interpreter that is not kept there is nothing to compare.
                let reason = format!("the template keeps no {what} warm; use --template python-node");
                self.record.skip(run.scenario, reason);
            }
        }
        self.phase(WarmUp::No, self.args.n, rows).await;
    }

    /// One sandbox that is used again and again, and a raw channel beside it.
    async fn warm_sandbox(&mut self) {
        let [calls, up, down] =
            [Scenario::ExecRoundtrip, Scenario::Upload, Scenario::Download].map(|one| self.args.wants(one));
        if !(calls || up || down) {
            return;
        }
        self.progress.say("a warm sandbox");
        let vm = self.bed.clone().await;
        let Some(vm) = self.or_skip(Scenario::ExecRoundtrip, vm) else { return };
        if calls {
            let ready = roundtrip::warm_up(vm.agent()).await;
            if self.or_skip(Scenario::ExecRoundtrip, ready).is_some() {
                let sample = async |record: &mut Record| roundtrip::sample(vm.agent(), record).await;
                let rows = vec![row(Scenario::ExecRoundtrip, "exec_roundtrip", sample)];
                self.phase(WarmUp::No, self.args.n, rows).await;
            }
        }
        if up || down {
            let moved = self.transfers(&vm).await;
            self.or_skip(if up { Scenario::Upload } else { Scenario::Download }, moved);
        }
        vm.stop().await;
    }

    async fn transfers(&mut self, vm: &Vm) -> Result<()> {
        let raw = Mutex::new(RawChannel::open(self.bed).await?);
        let content = transfer::content()?;
        // Also what is downloaded.
        transfer::put(vm.agent(), &content).await?;
        // The same memory each time, as on the raw channel: after the first round it is all there.
        let mut sink = Vec::with_capacity(transfer::SIZE);
        let rows = vec![
            row(Scenario::Upload, "upload", async |record| {
                transfer::upload(vm.agent(), &mut *raw.lock().await, &content, record).await
            }),
            row(Scenario::Download, "download", async |record| {
                transfer::download(vm.agent(), &mut *raw.lock().await, &mut sink, record).await
            }),
        ];
        self.phase(WarmUp::Round, self.args.n, rows).await;
        raw.into_inner().close().await
    }

    /// E2B's API in front of a warm sandbox.
    async fn front(&mut self) {
        if !self.args.wants(Scenario::E2bRoundtrip) {
            return;
        }
        self.progress.say("a service with both its faces and a warm sandbox");
        let fronted = Fronted::start(self.bed).await;
        let Some(mut fronted) = self.or_skip(Scenario::E2bRoundtrip, fronted) else { return };
        let sample = async |record: &mut Record| fronted.sample(record).await;
        self.phase(WarmUp::No, self.args.n, vec![row(Scenario::E2bRoundtrip, "e2b_roundtrip", sample)]).await;
        let closed = fronted.close().await;
        self.or_skip(Scenario::E2bRoundtrip, closed);
    }

    /// The service in front of a warm sandbox.
    async fn service(&mut self) {
        if !self.args.wants(Scenario::GrpcRoundtrip) {
            return;
        }
        self.progress.say("a service with a warm sandbox");
        let served = Served::start(self.bed).await;
        let Some(mut served) = self.or_skip(Scenario::GrpcRoundtrip, served) else { return };
        let sample = async |record: &mut Record| served.sample(record).await;
        self.phase(WarmUp::No, self.args.n, vec![row(Scenario::GrpcRoundtrip, "grpc_roundtrip", sample)])
            .await;
        let closed = served.close().await;
        self.or_skip(Scenario::GrpcRoundtrip, closed);
    }

    /// A sandbox with a network, and one without.
    async fn network(&mut self) {
        if !self.args.wants(Scenario::Egress) {
            return;
        }
        self.progress.say("two warm sandboxes, one with a network");
        let networked = Networked::start(self.bed).await;
        let Some(mut networked) = self.or_skip(Scenario::Egress, networked) else { return };
        let sample = async |record: &mut Record| networked.sample(record).await;
        self.phase(WarmUp::Round, self.args.n, vec![row(Scenario::Egress, "egress_in", sample)]).await;
        let closed = networked.close().await;
        self.or_skip(Scenario::Egress, closed);
    }

    /// What idle clones have for themselves.
    async fn memory(&mut self) {
        let bed = self.bed;
        let sample = async |record: &mut Record| crowd::density(bed, record).await;
        let rows = vec![row(Scenario::Density, "private", sample)];
        self.phase(WarmUp::No, self.args.n.div_ceil(crowd::CROWD), rows).await;
    }

    /// Many starts at once, all numbers taking turns.
    async fn bursts(&mut self) {
        let bed = self.bed;
        let counts = self.args.concurrency.iter().copied().filter(|count| *count > 0);
        let rows = counts.map(|count| {
            let sample = async move |record: &mut Record| crowd::burst(bed, count, record).await;
            let rounds = if count >= MANY { FEW } else { usize::MAX };
            Row { rounds, ..row(Scenario::Burst, crowd::name(count), sample) }
        });
        self.phase(WarmUp::No, self.args.n, rows.collect()).await;
    }

    /// What could be made ready, or a scenario that is left out.
    fn or_skip<T>(&mut self, scenario: Scenario, made: Result<T>) -> Option<T> {
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                self.progress.note(&format!("{scenario} is left out: {error:#}"));
                self.record.skip(scenario, format!("{error:#}"));
                None
            }
        }
    }
}

/// What a template's build is doing.
fn building(step: &BuildStep) -> String {
    match step {
        BuildStep::Boot => "building the template: booting".to_owned(),
        BuildStep::Warmup { number, total } => format!("building the template: warm-up {number} of {total}"),
        BuildStep::Ready => "building the template: the readiness check".to_owned(),
        BuildStep::Warm => "building the template: warm interpreters".to_owned(),
        BuildStep::Freeze => "building the template: freezing".to_owned(),
        BuildStep::Publish => "building the template: hashing".to_owned(),
        BuildStep::WorkingSet => "building the template: a first clone".to_owned(),
    }
}
