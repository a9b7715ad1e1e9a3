//! Whatever happens in whatever order: the budget holds, nobody starves, nothing is counted twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::config::Watermarks;
use super::*;

const TENANTS: [&str; 3] = ["a", "b", "c"];
/// Stands for the operator where a tenant is named by its number.
const OPERATOR: usize = 3;

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

fn bounds(max_queued: usize, max_queued_per_tenant: usize, fill_parallel: usize) -> Bounds {
    Bounds { max_queued, max_queued_per_tenant, fill_parallel }
}

fn all(memory_mib: u64, cpu_millis: u64) -> Demand {
    Demand { room: Room { memory_mib, disk_mib: 1_000 }, cpu_millis }
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
    BackOff { template: usize, backing_off: bool },
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
        1 => (0..3_usize, any::<bool>())
            .prop_map(|(template, backing_off)| Happening::BackOff { template, backing_off }),
    ]
}

/// The world around a policy: it knows what the policy was told and what it decided.
#[derive(Debug)]
struct World {
    policy: Policy,
    bounds: Bounds,
    shapes: Vec<Shape>,
    /// By ticket: tenant and template.
    waiting: BTreeMap<u64, (usize, usize)>,
    /// By tenant: its first claim, and how many grants other tenants had since it was the first.
    passed: BTreeMap<usize, (u64, u32)>,
    granted: Vec<Demand>,
    filling: Vec<(usize, Kind)>,
    leaving: Vec<(usize, Kind)>,
    ready: BTreeMap<(usize, bool), u32>,
    tickets: u64,
    /// The order of grants.
    log: Vec<u64>,
}

impl World {
    fn new(total: Demand, shapes: Vec<Shape>, bounds: Bounds) -> Self {
        Self {
            policy: Policy::new(total, shapes.clone(), bounds),
            bounds,
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

    fn ready(&mut self, template: usize, kind: Kind) -> &mut u32 {
        self.ready.entry((template, kind == Kind::Parked)).or_default()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Ask { tenant, template, cpu } => {
                self.tickets += 1;
                if self.policy.ask(self.tickets, asker(tenant), template, cpu).is_ok() {
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
                self.policy.filled(template, kind, well);
                *self.ready(template, kind) += u32::from(well);
            }
            Happening::Gone(which) if !self.leaving.is_empty() => {
                let (template, kind) = self.leaving.swap_remove(which % self.leaving.len());
                self.policy.gone(template, kind);
            }
            Happening::Dies(template) if *self.ready(template, Kind::Parked) > 0 => {
                self.policy.died(template);
                *self.ready(template, Kind::Parked) -= 1;
            }
            Happening::BackOff { template, backing_off } => self.policy.back_off(template, backing_off),
            _ => {}
        }
        self.settle();
    }

    fn settle(&mut self) {
        let mut decisions = 0;
        while let Some(decision) = self.policy.next() {
            decisions += 1;
            assert!(decisions < 1_000, "it never comes to rest: {decision:?}");
            match decision {
                Decision::Grant { ticket, template, from, demand } => {
                    let (tenant, asked) =
                        self.waiting.remove(&ticket).expect("only who waits is granted, once");
                    self.count_passed(tenant);
                    assert_eq!(asked, template);
                    if let Some(kind) = from {
                        let ready = self.ready(template, kind);
                        *ready = ready.checked_sub(1).expect("only what is there is handed out");
                    }
                    self.granted.push(demand);
                    self.log.push(ticket);
                }
                Decision::Evict { template, kind } => {
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
        let Bounds { max_queued, max_queued_per_tenant, .. } = self.bounds;
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
        let cost = |(template, kind): &(usize, Kind)| self.shapes[*template].cost(*kind);
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
        let cpu: u64 = self.granted.iter().map(|demand| demand.cpu_millis).sum();
        let total = self.policy.total();
        assert_eq!(self.policy.used(), used);
        assert!(used.memory_mib <= total.room.memory_mib, "memory is over budget");
        assert!(used.disk_mib <= total.room.disk_mib, "disk is over budget");
        assert_eq!(self.policy.used_millis(), cpu);
        assert!(cpu <= total.cpu_millis, "processors are over budget");
        assert_eq!(self.policy.queued(), self.waiting.len());
        assert!(self.filling.len() <= self.bounds.fill_parallel, "too many refills at once");
        for (template, shape) in self.shapes.iter().enumerate() {
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
            if quiet {
                return;
            }
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
            World::new(all(memory, cpu), shapes, bounds(queue, share, parallel))
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
        for template in 0..3 {
            world.happen(Happening::BackOff { template, backing_off: false });
        }
        world.calm_down();
        prop_assert!(world.waiting.is_empty(), "starved: {:?}", world.waiting);
        prop_assert_eq!(world.policy.used_millis(), 0);
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
        let mut world = World::new(all(100, 900_000), shapes, bounds(20, 4, 1));
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
    let mut world = World::new(all(100, 9_000), shapes, bounds(50, 50, 1));
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
    let mut world = World::new(all(100, 9_000), shapes, bounds(5, 5, 2));
    world.settle();
    while !world.filling.is_empty() {
        world.happen(Happening::FillEnds { which: 0, well: true });
    }
    world.happen(Happening::Ask { tenant: 0, template: 2, cpu: 1 });
    assert_eq!(world.leaving.len(), 1);
    world.happen(Happening::Ask { tenant: 1, template: 0, cpu: 1 });
    assert!(world.log.is_empty(), "20 are free, and spoken for");
    world.happen(Happening::Gone(0));
    assert_eq!(world.log[0], 1);
}

#[test]
fn one_tenant_cannot_fill_the_queue_and_all_of_them_cannot_keep_the_operator_out() {
    let mut policy = Policy::new(all(10, 10), vec![shape(10, 0, 0, 0)], bounds(3, 2, 1));
    assert_eq!(policy.ask(1, Asker::Tenant("a"), 0, 1), Ok(()));
    assert!(matches!(policy.next(), Some(Decision::Grant { ticket: 1, .. })));
    let mut ask = |ticket, asker| policy.ask(ticket, asker, 0, 1);
    assert_eq!(ask(2, Asker::Tenant("a")), Ok(()));
    assert_eq!(ask(3, Asker::Tenant("a")), Ok(()));
    assert_eq!(ask(4, Asker::Tenant("a")), Err(Refused::ShareFull { most: 2 }));
    assert_eq!(ask(5, Asker::Tenant("b")), Ok(()));
    assert_eq!(ask(6, Asker::Tenant("c")), Err(Refused::QueueFull));
    for ticket in 7..10 {
        assert_eq!(ask(ticket, Asker::Operator), Ok(()));
    }
    assert_eq!(ask(10, Asker::Operator), Err(Refused::QueueFull));
}

#[test]
fn below_the_low_mark_it_is_filled_to_the_high_one_and_between_them_left_alone() {
    let mut world = World::new(all(1_000, 9_000), vec![shape(10, 2, 4, 0)], bounds(5, 5, 9));
    world.settle();
    assert_eq!(world.filling.len(), 4);
    while !world.filling.is_empty() {
        world.happen(Happening::FillEnds { which: 0, well: true });
    }
    let ask = Happening::Ask { tenant: 0, template: 0, cpu: 1 };
    world.happen(ask);
    world.happen(ask);
    assert_eq!(world.policy.counts(0), (2, 0, 0), "two are enough");
    world.happen(ask);
    assert_eq!(world.policy.counts(0), (1, 0, 3), "one is not");
}

#[test]
fn parked_machines_of_others_give_way_and_only_as_many_as_needed() {
    let mut world =
        World::new(all(100, 9_000), vec![shape(20, 3, 3, 0), shape(70, 0, 0, 0)], bounds(5, 5, 9));
    world.settle();
    while !world.filling.is_empty() {
        world.happen(Happening::FillEnds { which: 0, well: true });
    }
    world.happen(Happening::Ask { tenant: 0, template: 1, cpu: 1 });
    assert_eq!(world.leaving.len(), 2, "40 are free, 30 more are needed");
    assert!(world.log.is_empty(), "what leaves is not gone yet");
    world.happen(Happening::Gone(0));
    world.happen(Happening::Gone(0));
    assert_eq!(world.log, [1]);
    assert_eq!(world.policy.counts(0), (1, 0, 0), "there is no room to fill it up again");
}

#[test]
fn what_can_never_be_met_is_refused_and_says_what_is_missing() {
    let shapes = vec![shape(101, 0, 0, 0), shape(60, 0, 0, 0)];
    let mut policy = Policy::new(all(100, 2_000), shapes, bounds(1, 1, 1));
    let (a, b) = (Asker::Tenant("a"), Asker::Tenant("b"));
    let too_large = |resource, asked, total| Err(Refused::TooLarge { resource, asked, total });
    assert_eq!(policy.ask(1, a, 0, 1), too_large(Resource::Memory, 101, 100));
    assert_eq!(policy.ask(2, a, 1, 2_001), too_large(Resource::Cpu, 2_001, 2_000));
    assert_eq!(policy.ask(3, a, 1, 1_500), Ok(()));
    assert!(matches!(policy.next(), Some(Decision::Grant { ticket: 3, .. })));
    assert_eq!(policy.ask(4, a, 1, 1_000), Ok(()));
    assert_eq!(policy.next(), None);
    assert_eq!(policy.ask(5, b, 1, 1), Err(Refused::QueueFull));
    assert_eq!(policy.give_up(4), Some(Shortage::Cpu));
    assert_eq!(policy.ask(6, b, 1, 1), Ok(()));
    assert_eq!(policy.give_up(6), Some(Shortage::Memory));
}

#[test]
fn disk_is_handed_out_once_and_who_has_none_is_told() {
    let shapes = vec![sized(10, 400, 0, 0, 0), sized(10, 1_001, 0, 0, 0), sized(10, 300, 0, 1, 1)];
    let mut world = World::new(all(1_000, 9_000), shapes, bounds(5, 5, 1));
    let too_large = Refused::TooLarge { resource: Resource::Disk, asked: 1_001, total: 1_000 };
    assert_eq!(world.policy.ask(99, Asker::Operator, 1, 1), Err(too_large));
    world.settle();
    world.happen(Happening::FillEnds { which: 0, well: true });
    assert_eq!(world.policy.used().disk_mib, 300, "a waiting monitor has its disk already");
    let ask = Happening::Ask { tenant: 0, template: 0, cpu: 1 };
    world.happen(ask);
    world.happen(ask);
    assert_eq!(world.leaving, [(2, Kind::Prespawned)], "what was made ahead gives way");
    world.happen(Happening::Gone(0));
    assert_eq!(world.log, [1, 2]);
    world.happen(ask);
    assert_eq!(world.policy.give_up(3), Some(Shortage::Disk));
}
