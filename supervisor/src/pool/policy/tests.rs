//! Whatever happens in whatever order: the budget holds, nobody starves, nothing is counted twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::config::Watermarks;
use super::super::template::Shape;
use super::*;

const TENANTS: [&str; 3] = ["a", "b", "c"];
/// Stands for the operator where a tenant is named by its number.
const OPERATOR: usize = 3;
const HEAD_START: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_millis(200);

fn shape(memory_mib: u64, low: u32, high: u32, prespawned: u32) -> Shape {
    sized(memory_mib, 0, low, high, prespawned)
}

fn sized(memory_mib: u64, disk_mib: u64, low: u32, high: u32, prespawned: u32) -> Shape {
    let (machine, waiting) = (Room { memory_mib, disk_mib }, Room { memory_mib: 10, disk_mib });
    Shape { machine, waiting, parked: Watermarks { low, high }, prespawned }
}

fn asker(tenant: usize) -> Asker<'static> {
    TENANTS.get(tenant).map_or(Asker::Operator, |name| Asker::Tenant(name))
}

/// This much memory and processor to hand out, and 1,000 MiB of disk.
fn config(
    (memory_mib, milli_cpus): (u64, u64),
    max_queued: usize,
    max_queued_per_tenant: usize,
    fill_parallel: usize,
) -> PoolConfig {
    PoolConfig {
        disk_budget_mib: 1_000,
        max_queued,
        max_queued_per_tenant,
        fill_parallel,
        head_start: HEAD_START,
        first_backoff: Duration::from_millis(20),
        longest_backoff: LONGEST_REST,
        ..PoolConfig::new(memory_mib, milli_cpus)
    }
}

/// Machines here know what they are of.
type Pool = Policy<(), (TemplateId, Kind)>;

/// What somebody is told who asks.
fn ask(pool: &mut Pool, ticket: u64, asker: Asker<'_>, template: usize, cpu: u64) -> Result<(), String> {
    pool.ask(ticket, asker, (TemplateId(template), Wanted::Clone), cpu).map_err(|refused| refused.to_string())
}

const QUEUE_FULL: &str = "there is no room for a sandbox and the queue is full";

fn policy(config: PoolConfig, shapes: &[Shape]) -> Pool {
    Policy::new(config, shapes.iter().map(|shape| Template::new((), *shape)).collect())
}

/// Something that happens to a pool. Numbers pick one of what there is.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Ask { tenant: usize, template: usize, cpu: u64 },
    GiveUp(usize),
    Release(usize),
    FillEnds { which: usize, well: bool },
    Gone(usize),
    Dies(usize),
    Later(Duration),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..=OPERATOR, 0..3_usize, 0..3_000_u64)
            .prop_map(|(tenant, template, cpu)| Happening::Ask { tenant, template, cpu }),
        1 => any::<usize>().prop_map(Happening::GiveUp),
        3 => any::<usize>().prop_map(Happening::Release),
        3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(which, well)| Happening::FillEnds { which, well }),
        3 => any::<usize>().prop_map(Happening::Gone),
        1 => (0..3_usize).prop_map(Happening::Dies),
        2 => (0..30_u64).prop_map(|millis| Happening::Later(Duration::from_millis(millis))),
    ]
}

/// The world around a policy: it knows what the policy was told and what it decided.
#[derive(Debug)]
struct World {
    policy: Pool,
    config: PoolConfig,
    now: Instant,
    shapes: Vec<Shape>,
    /// By ticket: tenant and template.
    waiting: BTreeMap<u64, (usize, TemplateId)>,
    /// By tenant: its first claim, and how many grants other tenants had since it was the first.
    passed: BTreeMap<usize, (u64, u32)>,
    granted: Vec<Demand>,
    filling: Vec<(TemplateId, Kind)>,
    leaving: Vec<(TemplateId, Kind)>,
    ready: BTreeMap<(TemplateId, bool), u32>,
    tickets: u64,
    /// The order of grants.
    log: Vec<u64>,
}

impl World {
    fn new(config: PoolConfig, shapes: Vec<Shape>) -> Self {
        Self {
            policy: policy(config.clone(), &shapes),
            config,
            now: Instant::now(),
            shapes,
            waiting: BTreeMap::new(),
            passed: BTreeMap::new(),
            granted: Vec::new(),
            filling: Vec::new(),
            leaving: Vec::new(),
            ready: BTreeMap::new(),
            tickets: 0,
            log: Vec::new(),
        }
    }

    /// Of one template: parked, prespawned, and of both the ones being made.
    fn counts(&self, template: usize) -> (u32, u32, u32) {
        let Template { parked, prespawned, .. } = &self.policy.templates[template];
        (parked.ready(), prespawned.ready(), parked.filling + prespawned.filling)
    }

    fn ready(&mut self, template: TemplateId, kind: Kind) -> &mut u32 {
        self.ready.entry((template, kind == Kind::Parked)).or_default()
    }

    /// Everything that is being made ends well, until nothing more is made now.
    fn fill(&mut self) {
        self.settle();
        while !self.filling.is_empty() {
            self.happen(Happening::FillEnds { which: 0, well: true });
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Ask { tenant, template, cpu } => {
                self.tickets += 1;
                let template = TemplateId(template);
                if self.policy.ask(self.tickets, asker(tenant), (template, Wanted::Clone), cpu).is_ok() {
                    self.waiting.insert(self.tickets, (tenant, template));
                }
            }
            Happening::GiveUp(which) => {
                let ticket = self.waiting.keys().nth(which % self.waiting.len().max(1)).copied();
                if let Some(ticket) = ticket {
                    assert!(self.policy.give_up(ticket).is_some());
                    assert!(self.policy.give_up(ticket).is_none(), "given up twice");
                    self.waiting.remove(&ticket);
                }
            }
            Happening::Release(which) if !self.granted.is_empty() => {
                let demand = self.granted.swap_remove(which % self.granted.len());
                self.policy.release(demand);
            }
            Happening::FillEnds { which, well } if !self.filling.is_empty() => {
                let (template, kind) = self.filling.swap_remove(which % self.filling.len());
                self.policy.filled(template, kind, well.then_some((template, kind)), self.now);
                *self.ready(template, kind) += u32::from(well);
            }
            Happening::Gone(which) if !self.leaving.is_empty() => {
                let (template, kind) = self.leaving.swap_remove(which % self.leaving.len());
                self.policy.gone(template, kind);
            }
            Happening::Dies(template) => {
                let template = TemplateId(template);
                let died = self.policy.died(template, |_| true, self.now);
                assert_eq!(died, *self.ready(template, Kind::Parked) > 0);
                *self.ready(template, Kind::Parked) -= u32::from(died);
            }
            Happening::Later(passed) => self.now += passed,
            _ => {}
        }
        self.settle();
    }

    fn settle(&mut self) {
        let mut decisions = 0;
        while let Some(decision) = self.policy.next(self.now) {
            decisions += 1;
            assert!(decisions < 1_000, "it never comes to rest: {decision:?}");
            match decision {
                Decision::Grant { ticket, machine, demand } => {
                    let (tenant, asked) =
                        self.waiting.remove(&ticket).expect("only who waits is granted, once");
                    self.count_passed(tenant);
                    if let Some((template, kind)) = machine {
                        assert_eq!(asked, template);
                        let ready = self.ready(template, kind);
                        *ready = ready.checked_sub(1).expect("only what is there is handed out");
                    }
                    self.granted.push(demand);
                    self.log.push(ticket);
                }
                Decision::Evict { template, kind, machine } => {
                    assert_eq!(machine, (template, kind));
                    let ready = self.ready(template, kind);
                    *ready = ready.checked_sub(1).expect("only what is there is evicted");
                    self.leaving.push((template, kind));
                }
                Decision::Fill { template, kind } => self.filling.push((template, kind)),
            }
            self.check();
        }
        self.check();
        let of = |who: usize| self.waiting.values().filter(|(tenant, _)| *tenant == who).count();
        let PoolConfig { max_queued, max_queued_per_tenant, .. } = self.config;
        assert!(self.policy.queued() - of(OPERATOR) <= max_queued, "the queue is bounded");
        assert!(of(OPERATOR) <= max_queued, "the operator's places are bounded");
        assert!(
            (0..OPERATOR).all(|tenant| of(tenant) <= max_queued_per_tenant),
            "a tenant's share is bounded"
        );
    }

    /// A tenant was granted a claim: nobody else's first one is passed over without bound. Each other tenant may have
    /// a turn before it, and then it can be overtaken.
    fn count_passed(&mut self, granted: usize) {
        let mut firsts: BTreeMap<usize, u64> = BTreeMap::new();
        for (ticket, (tenant, _)) in &self.waiting {
            firsts.entry(*tenant).or_insert(*ticket);
        }
        firsts.remove(&OPERATOR);
        let before = std::mem::take(&mut self.passed);
        for (tenant, first) in firsts {
            let since =
                before.get(&tenant).filter(|(ticket, _)| *ticket == first).map_or(0, |(_, since)| *since);
            let now = since + u32::from(granted != tenant && granted != OPERATOR);
            let most = MAX_OVERTAKEN + TENANTS.len() as u32 - 1;
            assert!(now <= most, "claim {first} was passed over {now} times");
            self.passed.insert(tenant, (first, now));
        }
    }

    /// Counted here, without the policy's own sums.
    fn check(&self) {
        let cost = |(template, kind): &(TemplateId, Kind)| self.shapes[template.0].cost(*kind);
        let kind = |parked: bool| if parked { Kind::Parked } else { Kind::Prespawned };
        let ready = self
            .ready
            .iter()
            .map(|((template, parked), count)| cost(&(*template, kind(*parked))).times(*count));
        let moving = self.filling.iter().chain(&self.leaving).map(cost);
        let claimed = self.granted.iter().map(|demand| demand.room);
        let used = ready.chain(moving).chain(claimed).fold(Room::default(), |all, one| Room {
            memory_mib: all.memory_mib + one.memory_mib,
            disk_mib: all.disk_mib + one.disk_mib,
        });
        let cpu: u64 = self.granted.iter().map(|demand| demand.milli_cpus).sum();
        let total = self.policy.total;
        assert_eq!(self.policy.used(), used);
        assert!(used.memory_mib <= total.room.memory_mib, "memory is over budget");
        assert!(used.disk_mib <= total.room.disk_mib, "disk is over budget");
        assert_eq!(self.policy.claimed.milli_cpus, cpu);
        assert!(cpu <= total.milli_cpus, "processors are over budget");
        assert_eq!(self.policy.queued(), self.waiting.len());
        assert!(self.filling.len() <= self.config.fill_parallel, "too many refills at once");
        for (at, shape) in self.shapes.iter().enumerate() {
            let template = TemplateId(at);
            let level = |kind: Kind| {
                let ready = self.ready.get(&(template, kind == Kind::Parked)).copied().unwrap_or(0);
                let filling = self.filling.iter().filter(|filling| **filling == (template, kind)).count();
                ready as usize + filling
            };
            let high = shape.parked.high.max(shape.parked.low) as usize;
            assert!(level(Kind::Parked) <= high, "more are parked than the high mark");
            assert!(
                level(Kind::Prespawned) <= shape.prespawned as usize,
                "more monitors wait than asked for"
            );
        }
    }

    /// Everything that is under way comes to its end, again and again.
    fn calm_down(&mut self) {
        for _ in 0..10_000 {
            let quiet = self.granted.is_empty() && self.filling.is_empty() && self.leaving.is_empty();
            if quiet && self.policy.wakes_at(self.now).is_none() {
                return;
            }
            self.happen(Happening::Later(LONGEST_REST));
            self.happen(Happening::FillEnds { which: 0, well: true });
            self.happen(Happening::Gone(0));
            self.happen(Happening::Release(0));
        }
        panic!("it never comes to rest");
    }
}

fn world() -> impl Strategy<Value = World> {
    let shapes = prop::collection::vec(
        (10..400_u64, 0..1_200_u64, 0..3_u32, 0..4_u32, 0..3_u32)
            .prop_map(|(memory, disk, low, high, prespawned)| sized(memory, disk, low, high, prespawned)),
        3,
    );
    (100..1_000_u64, 500..4_000_u64, shapes, 0..6_usize, 1..4_usize, 1..4_usize).prop_map(
        |(memory, cpu, shapes, queue, share, parallel)| {
            World::new(config((memory, cpu), queue, share, parallel), shapes)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happens_the_budget_holds_and_in_the_end_nobody_waits(
        mut world in world(),
        happenings in prop::collection::vec(happening(), 0..120),
    ) {
        world.settle();
        for happening in happenings {
            world.happen(happening);
        }
        world.calm_down();
        prop_assert!(world.waiting.is_empty(), "starved: {:?}", world.waiting);
        prop_assert_eq!(world.policy.claimed.milli_cpus, 0);
    }

    #[test]
    fn within_one_tenant_the_first_comes_first(
        mut world in world(),
        asks in prop::collection::vec((0..3_usize, 0..3_usize, 0..3_000_u64), 1..20),
    ) {
        let mut order: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (tenant, template, cpu) in asks {
            let before = world.tickets;
            let granted = world.log.len();
            world.happen(Happening::Ask { tenant, template, cpu });
            let taken = world.waiting.contains_key(&(before + 1)) || world.log.len() > granted;
            if taken {
                order.entry(tenant).or_default().push(before + 1);
            }
        }
        world.calm_down();
        for tickets in order.values() {
            let granted: Vec<u64> =
                world.log.iter().copied().filter(|ticket| tickets.contains(ticket)).collect();
            prop_assert_eq!(&granted, tickets);
        }
    }
}

proptest! {
    /// With room for everyone but one, and many who come and go.
    #[test]
    fn a_claim_that_cannot_be_met_is_passed_over_a_bounded_number_of_times(
        who in prop::collection::vec((0..3_usize, 0..2_usize, prop::bool::weighted(0.6)), 60..200),
    ) {
        let shapes = vec![shape(20, 0, 0, 0), shape(90, 0, 0, 0)];
        let mut world = World::new(config((100, 900_000), 20, 4, 1), shapes);
        for (tenant, template, release) in who {
            world.happen(Happening::Ask { tenant, template, cpu: 1 });
            if release {
                // The one that was granted first stays for ever.
                let last = world.granted.len().saturating_sub(1);
                if last > 0 {
                    world.happen(Happening::Release(last));
                }
            }
        }
        world.calm_down();
        prop_assert!(world.waiting.is_empty(), "starved: {:?}", world.waiting);
    }
}

#[test]
fn a_claim_that_cannot_be_met_does_not_keep_others_waiting_until_it_was_overtaken_too_often() {
    let shapes = vec![shape(20, 0, 0, 0), shape(90, 0, 0, 0)];
    let mut world = World::new(config((100, 9_000), 50, 50, 1), shapes);
    let small = |tenant| Happening::Ask { tenant, template: 0, cpu: 1 };
    world.happen(small(0));
    world.happen(Happening::Ask { tenant: 1, template: 1, cpu: 1 });
    for ticket in 3..3 + u64::from(MAX_OVERTAKEN) {
        world.happen(small(2));
        assert_eq!(world.log.last(), Some(&ticket), "there is room for a small one");
        world.happen(Happening::Release(1));
    }
    world.happen(small(2));
    world.happen(small(0));
    assert_eq!(world.waiting.len(), 3, "what is free is kept for the large one now");
    world.happen(small(OPERATOR));
    assert_eq!(world.waiting.len(), 3, "the operator does not wait behind it");
    world.happen(Happening::Release(1));
    world.happen(Happening::Release(0));
    assert_eq!(world.log.last(), Some(&2), "and it is met before those that came later");
}

#[test]
fn a_claim_whose_room_is_being_made_is_not_overtaken() {
    let shapes = vec![shape(20, 0, 0, 0), shape(40, 2, 2, 0), shape(60, 0, 0, 0)];
    let mut world = World::new(config((100, 9_000), 5, 5, 2), shapes);
    world.fill();
    world.happen(Happening::Ask { tenant: 0, template: 2, cpu: 1 });
    assert_eq!(world.leaving.len(), 1);
    world.happen(Happening::Ask { tenant: 1, template: 0, cpu: 1 });
    assert!(world.log.is_empty(), "20 are free, and spoken for");
    world.happen(Happening::Gone(0));
    assert_eq!(world.log[0], 1);
}

#[test]
fn one_tenant_cannot_fill_the_queue_and_all_of_them_cannot_keep_the_operator_out() {
    let mut policy = policy(config((10, 10), 3, 2, 1), &[shape(10, 0, 0, 0)]);
    let now = Instant::now();
    assert_eq!(ask(&mut policy, 1, Asker::Tenant("a"), 0, 1), Ok(()));
    assert!(matches!(policy.next(now), Some(Decision::Grant { ticket: 1, .. })));
    let mut ask = |ticket, asker| ask(&mut policy, ticket, asker, 0, 1);
    assert_eq!(ask(2, Asker::Tenant("a")), Ok(()));
    assert_eq!(ask(3, Asker::Tenant("a")), Ok(()));
    assert_eq!(
        ask(4, Asker::Tenant("a")),
        Err("there is no room for a sandbox and 2 requests of the tenant wait already".into())
    );
    assert_eq!(ask(5, Asker::Tenant("b")), Ok(()));
    assert_eq!(ask(6, Asker::Tenant("c")), Err(QUEUE_FULL.into()));
    for ticket in 7..10 {
        assert_eq!(ask(ticket, Asker::Operator), Ok(()));
    }
    assert_eq!(ask(10, Asker::Operator), Err(QUEUE_FULL.into()));
}

#[test]
fn below_the_low_mark_it_is_filled_to_the_high_one_and_between_them_left_alone() {
    let mut world = World::new(config((1_000, 9_000), 5, 5, 9), vec![shape(10, 2, 4, 0)]);
    world.settle();
    assert_eq!(world.filling.len(), 4);
    world.fill();
    let ask = Happening::Ask { tenant: 0, template: 0, cpu: 1 };
    world.happen(ask);
    world.happen(ask);
    assert_eq!(world.counts(0), (2, 0, 0), "two are enough");
    world.happen(ask);
    assert_eq!(world.counts(0), (1, 0, 3), "one is not");
}

#[test]
fn parked_machines_of_others_give_way_and_only_as_many_as_needed() {
    let mut world = World::new(config((100, 9_000), 5, 5, 9), vec![shape(20, 3, 3, 0), shape(70, 0, 0, 0)]);
    world.fill();
    world.happen(Happening::Ask { tenant: 0, template: 1, cpu: 1 });
    assert_eq!(world.leaving.len(), 2, "40 are free, 30 more are needed");
    assert!(world.log.is_empty(), "what leaves is not gone yet");
    world.happen(Happening::Gone(0));
    world.happen(Happening::Gone(0));
    assert_eq!(world.log, [1]);
    assert_eq!(world.counts(0), (1, 0, 0), "there is no room to fill it up again");
}

#[test]
fn what_can_never_be_met_is_refused_and_says_what_is_missing() {
    let shapes = vec![shape(101, 0, 0, 0), shape(60, 0, 0, 0)];
    let mut policy = policy(config((100, 2_000), 1, 1, 1), &shapes);
    let (a, b, now) = (Asker::Tenant("a"), Asker::Tenant("b"), Instant::now());
    assert_eq!(
        ask(&mut policy, 1, a, 0, 1),
        Err("the sandbox needs 101 MiB of memory, of which there are 100 in all".into())
    );
    assert_eq!(
        ask(&mut policy, 2, a, 1, 2_001),
        Err("the sandbox needs 2001 thousandths of a processor, of which there are 2000 in all".into())
    );
    assert_eq!(ask(&mut policy, 3, a, 1, 1_500), Ok(()));
    assert!(matches!(policy.next(now), Some(Decision::Grant { ticket: 3, .. })));
    assert_eq!(ask(&mut policy, 4, a, 1, 1_000), Ok(()));
    assert_eq!(policy.next(now), None);
    assert_eq!(ask(&mut policy, 5, b, 1, 1), Err(QUEUE_FULL.into()));
    assert_eq!(policy.give_up(4), Some(Shortage::Cpu));
    assert_eq!(ask(&mut policy, 6, b, 1, 1), Ok(()));
    assert_eq!(policy.give_up(6), Some(Shortage::Memory));
}

#[test]
fn disk_is_handed_out_once_and_who_has_none_is_told() {
    let shapes = vec![sized(10, 400, 0, 0, 0), sized(10, 1_001, 0, 0, 0), sized(10, 300, 0, 1, 1)];
    let mut world = World::new(config((1_000, 9_000), 5, 5, 1), shapes);
    let too_large = "the sandbox needs 1001 MiB of disk, of which there are 1000 in all".to_owned();
    assert_eq!(ask(&mut world.policy, 99, Asker::Operator, 1, 1), Err(too_large));
    world.settle();
    world.happen(Happening::FillEnds { which: 0, well: true });
    assert_eq!(world.policy.used().disk_mib, 300, "a waiting monitor has its disk already");
    let ask = Happening::Ask { tenant: 0, template: 0, cpu: 1 };
    world.happen(ask);
    world.happen(ask);
    assert_eq!(world.leaving, [(TemplateId(2), Kind::Prespawned)], "what was made ahead gives way");
    world.happen(Happening::Gone(0));
    assert_eq!(world.log, [1, 2]);
    world.happen(ask);
    assert_eq!(world.policy.give_up(3), Some(Shortage::Disk));
}

#[test]
fn a_claimed_machine_has_a_head_start_unless_the_next_caller_would_find_nothing() {
    let shapes = vec![shape(10, 2, 2, 0), shape(10, 1, 1, 0)];
    let mut world = World::new(config((1_000, 9_000), 5, 5, 9), shapes);
    world.fill();
    let ask = |template| Happening::Ask { tenant: 0, template, cpu: 1 };
    world.happen(ask(0));
    assert_eq!(world.counts(0), (1, 0, 0), "one waits for the next caller, so its successor can wait");
    assert_eq!(world.policy.wakes_at(world.now), Some(world.now + HEAD_START));
    world.happen(Happening::Later(HEAD_START));
    assert_eq!(world.counts(0), (1, 0, 1));
    assert_eq!(world.policy.wakes_at(world.now), None);
    world.happen(Happening::Later(HEAD_START * 100));
    world.happen(ask(1));
    assert_eq!(world.counts(1), (0, 0, 1), "none waits, so one is made at once");
    world.fill();
    world.happen(Happening::Later(HEAD_START * 100));
    world.happen(ask(0));
    world.happen(ask(1));
    assert_eq!([world.counts(0), world.counts(1)], [(1, 0, 1), (0, 0, 1)], "claims come in a row");
}

#[test]
fn a_template_rests_after_a_failure_and_only_that_one() {
    let shapes = vec![shape(10, 1, 1, 0), shape(10, 1, 1, 0)];
    let mut world = World::new(config((1_000, 9_000), 5, 5, 9), shapes);
    world.settle();
    world.happen(Happening::FillEnds { which: 0, well: false });
    assert_eq!([world.counts(0), world.counts(1)], [(0, 0, 0), (0, 0, 1)]);
    let rested = world.policy.wakes_at(world.now).expect("it is looked at again");
    world.happen(Happening::Later(rested - world.now));
    assert_eq!(world.counts(0), (0, 0, 1));
    world.fill();
    world.happen(Happening::Dies(0));
    assert_eq!(world.counts(0), (0, 0, 0), "one that keeps dying must not keep the host busy");
    assert!(world.policy.wakes_at(world.now).is_some());
    assert_eq!(world.policy.templates[0].start_failures, 2);
}

#[test]
fn a_closed_pool_lets_go_of_everything_and_makes_nothing() {
    let mut world = World::new(config((1_000, 9_000), 5, 5, 3), vec![shape(10, 2, 2, 2)]);
    world.settle();
    world.happen(Happening::FillEnds { which: 0, well: true });
    world.happen(Happening::FillEnds { which: 0, well: false });
    assert_eq!(world.policy.close(), [0_u64; 0]);
    world.settle();
    assert_eq!(world.leaving.len(), 1);
    world.happen(Happening::FillEnds { which: 0, well: true });
    assert_eq!((world.leaving.len(), world.filling.len()), (2, 1), "what comes late leaves as well");
    assert!(matches!(
        world.policy.ask(1, Asker::Operator, (TemplateId(0), Wanted::Clone), 1),
        Err(ClaimError::ShuttingDown)
    ));
    assert_eq!(world.policy.wakes_at(world.now), None, "nobody waits for the end of a rest");
}
