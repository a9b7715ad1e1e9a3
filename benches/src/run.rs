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
use rekindle::vm::BuildStep;

use crate::args::Args;
use crate::baseline::Baseline;
use crate::bed::Bed;
use crate::fingerprint::{self, Fingerprint};
use crate::floor::Floor;
use crate::page_cache;
use crate::progress::Progress;
use crate::ratio;
use crate::record::{Kind, PageCache, Record};
use crate::report::{self, Report};
use crate::scenario::alternatives::Alternative;
use crate::scenario::grpc::Served;
use crate::scenario::transfer::{self, RawChannel};
use crate::scenario::{Scenario, burst, claim, density, first_run, roundtrip, starts, working_set};

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
    let bed = Bed::open(args.engine, &args.template, &|step| progress.say(&building(&step))).await?;
    let mut host = Fingerprint::take(bed.engine().identity());
    progress.note(&format!("{}; template {}", bed.decision, args.template));

    let mut run = Run { args, bed: &bed, record: Record::default(), progress };
    run.starts().await;
    run.claims().await;
    run.first_programs().await;
    run.warm_sandbox().await;
    run.service().await;
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

impl Run<'_> {
    /// Starts of one machine, and what one would pick instead.
    async fn starts(&mut self) {
        let bed = self.bed;
        let floor = match self.args.wants(Scenario::Floor) {
            true => self.or_skip(Scenario::Floor, Floor::learn(bed).await),
            false => None,
        };
        let mut instead = Vec::new();
        for scenario in [Scenario::Bubblewrap, Scenario::Container] {
            if self.args.wants(scenario) {
                let found = Alternative::find(scenario, self.args.tree.as_deref());
                instead.extend(self.or_skip(scenario, found));
            }
        }
        let cold = self.cold_is_possible();
        let working_set = cold && self.args.wants(Scenario::WorkingSet);
        // The first of each finds cold what a host at work has warm.
        for round in 0..=self.args.n {
            let counts = round > 0;
            let mut first = Record::default();
            let record = if counts { &mut self.record } else { &mut first };
            let mut turn = Turn { record, progress: &self.progress, round, rounds: self.args.n };
            if let Some(floor) = &floor {
                let name = "floor";
                turn.take(Scenario::Floor, name, async |record| starts::floor(bed, floor, record).await)
                    .await;
            }
            if self.args.wants(Scenario::ColdBoot) {
                let name = "cold_boot";
                turn.take(Scenario::ColdBoot, name, async |record| starts::cold_boot(bed, record).await)
                    .await;
            }
            if self.args.wants(Scenario::Restore) {
                let states = [(PageCache::Hot, "restore"), (PageCache::Cold, "restore_cold")];
                for (cache, name) in states.into_iter().filter(|(cache, _)| cold || *cache == PageCache::Hot)
                {
                    turn.take(Scenario::Restore, name, async |record| {
                        starts::restore(bed, cache, record).await
                    })
                    .await;
                }
            }
            if self.args.wants(Scenario::RestorePrespawned) {
                let (scenario, name) = (Scenario::RestorePrespawned, "restore_prespawned");
                turn.take(scenario, name, async |record| starts::prespawned(bed, record).await).await;
            }
            if self.args.wants(Scenario::Command) {
                let (scenario, name) = (Scenario::Command, "command_output");
                turn.take(scenario, name, async |record| starts::command(bed, record).await).await;
            }
            if self.args.wants(Scenario::PythonStart) {
                let (scenario, name) = (Scenario::PythonStart, "restore_python");
                turn.take(scenario, name, async |record| starts::python(bed, record).await).await;
            }
            if working_set {
                let (scenario, name) = (Scenario::WorkingSet, "ws_cold_with");
                turn.take(scenario, name, async |record| working_set::sample(bed, record).await).await;
            }
            for alternative in &mut instead {
                let name = format!("{}_output", alternative.scenario);
                turn.take(alternative.scenario, &name, async |record| {
                    starts::host_at_rest().await;
                    alternative.sample(record)
                })
                .await;
            }
        }
    }

    /// Claims of parked machines. A phase of its own: a machine that waits keeps the snapshot in memory, which a
    /// cold restore must not find there.
    async fn claims(&mut self) {
        if !self.args.wants(Scenario::ClaimParked) {
            return;
        }
        let bed = self.bed;
        let parking = claim::parking(bed);
        for round in 1..=self.args.n {
            self.turn(round, self.args.n)
                .take(Scenario::ClaimParked, "claim_parked", async |record| {
                    claim::sample(bed, &parking, record).await
                })
                .await;
        }
        parking.drain().await;
    }

    /// Whether the snapshot's files can be thrown out of the page cache, for those who ask for that.
    fn cold_is_possible(&mut self) -> bool {
        let [restore, set] = [Scenario::Restore, Scenario::WorkingSet].map(|one| self.args.wants(one));
        if !restore && !set {
            return false;
        }
        let Err(error) = page_cache::evict(&self.bed.read_by_restore()) else { return true };
        let reason = format!("the page cache cannot be made cold here: {error:#}");
        self.progress.note(&reason);
        let asked = [(restore, Scenario::Restore), (set, Scenario::WorkingSet)];
        for (_, scenario) in asked.into_iter().filter(|(asked, _)| *asked) {
            self.record.skip(scenario, &*reason);
        }
        false
    }

    /// The first program of fresh clones.
    async fn first_programs(&mut self) {
        let mut runs = vec![&first_run::PYTHON, &first_run::NODE, &first_run::DATA];
        runs.retain(|run| self.args.wants(run.scenario));
        let bed = self.bed;
        let warm = &bed.source.recipe.warm;
        let has_data = ["numpy", "pandas"].iter().all(|name| warm.packages.iter().any(|kept| kept == name));
        // Of an interpreter that is not kept there is nothing to compare.
        for (kept, scenario, what) in [
            (warm.python.is_some(), Scenario::FirstPython, "Python"),
            (warm.node > 0, Scenario::FirstNode, "Node"),
            (has_data, Scenario::PythonData, "Python with numpy and pandas"),
        ] {
            let asked = runs.len();
            runs.retain(|run| kept || run.scenario != scenario);
            if runs.len() < asked {
                let reason = format!("the template keeps no {what} warm; use --template python-node");
                self.record.skip(scenario, reason);
            }
        }
        for round in 1..=self.args.n {
            for run in &runs {
                let name = run.scenario.to_string();
                self.turn(round, self.args.n)
                    .take(run.scenario, &name, async |record| first_run::sample(bed, run, record).await)
                    .await;
            }
        }
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
                for round in 1..=self.args.n {
                    self.turn(round, self.args.n)
                        .take(Scenario::ExecRoundtrip, "exec_roundtrip", async |record| {
                            roundtrip::sample(vm.agent(), record).await
                        })
                        .await;
                }
            }
        }
        if up || down {
            let raw = RawChannel::open(self.bed).await;
            if let Some(mut raw) = self.or_skip(if up { Scenario::Upload } else { Scenario::Download }, raw) {
                let moved = self.transfers(&vm, &mut raw, up, down).await;
                self.or_skip(Scenario::Upload, moved);
                let closed = raw.close().await;
                self.or_skip(Scenario::Upload, closed);
            }
        }
        vm.stop().await;
    }

    /// The service in front of a warm sandbox.
    async fn service(&mut self) {
        if !self.args.wants(Scenario::GrpcRoundtrip) {
            return;
        }
        self.progress.say("a service with a warm sandbox");
        let served = Served::start(self.bed).await;
        let Some(mut served) = self.or_skip(Scenario::GrpcRoundtrip, served) else { return };
        for round in 1..=self.args.n {
            self.turn(round, self.args.n)
                .take(Scenario::GrpcRoundtrip, "grpc_roundtrip", async |record| served.sample(record).await)
                .await;
        }
        let closed = served.close().await;
        self.or_skip(Scenario::GrpcRoundtrip, closed);
    }

    async fn transfers(
        &mut self,
        vm: &rekindle::vm::Vm,
        raw: &mut RawChannel,
        up: bool,
        down: bool,
    ) -> Result<()> {
        let content = transfer::content()?;
        // Also what is downloaded.
        transfer::put(vm.agent(), &content).await?;
        // The same memory each time, as on the raw channel: after the first round it is all there.
        let mut sink = Vec::with_capacity(transfer::SIZE);
        for round in 0..=self.args.n {
            let mut first = Record::default();
            let record = if round > 0 { &mut self.record } else { &mut first };
            let mut turn = Turn { record, progress: &self.progress, round, rounds: self.args.n };
            if up {
                turn.take(Scenario::Upload, "upload", async |record| {
                    transfer::upload(vm.agent(), raw, &content, record).await
                })
                .await;
            }
            if down {
                turn.take(Scenario::Download, "download", async |record| {
                    transfer::download(vm.agent(), raw, &mut sink, record).await
                })
                .await;
            }
        }
        Ok(())
    }

    /// What idle clones have for themselves.
    async fn memory(&mut self) {
        if !self.args.wants(Scenario::Density) {
            return;
        }
        let bed = self.bed;
        let rounds = self.args.n.div_ceil(density::CROWD);
        for round in 1..=rounds {
            self.turn(round, rounds)
                .take(Scenario::Density, "private", async |record| density::sample(bed, record).await)
                .await;
        }
    }

    /// Many starts at once, all numbers taking turns.
    async fn bursts(&mut self) {
        if !self.args.wants(Scenario::Burst) {
            return;
        }
        let bed = self.bed;
        for round in 1..=self.args.n {
            for count in self.args.concurrency.iter().copied().filter(|count| *count > 0) {
                if count >= MANY && round > FEW {
                    continue;
                }
                let name = burst::name(count);
                self.turn(round, self.args.n)
                    .take(Scenario::Burst, &name, async |record| burst::sample(bed, count, record).await)
                    .await;
            }
        }
    }

    fn turn(&mut self, round: usize, rounds: usize) -> Turn<'_> {
        Turn { record: &mut self.record, progress: &self.progress, round, rounds }
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

/// One scenario's turn in one round.
struct Turn<'a> {
    record: &'a mut Record,
    progress: &'a Progress,
    round: usize,
    rounds: usize,
}

impl Turn<'_> {
    async fn take(
        &mut self,
        scenario: Scenario,
        series: &str,
        sample: impl AsyncFnOnce(&mut Record) -> Result<()>,
    ) {
        self.progress.say(&match self.round {
            0 => format!("{series}: warming up"),
            round => format!("{series}: {round} of {}", self.rounds),
        });
        if let Err(error) = sample(self.record).await {
            self.progress.note(&format!("a sample of {series} failed: {error:#}"));
            self.record.fail(Kind::time(scenario, series, ""), format!("{error:#}"));
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
