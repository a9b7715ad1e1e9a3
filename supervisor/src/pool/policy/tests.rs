//! Whatever happens in whatever order: the budget holds, nobody starves, nothing is counted twice.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const TENANTS: [&str; 3] = ["a", "b", "c"];

fn shape(memory_mib: u64, low: u32, high: u32, prespawned: u32) -> Shape {
    Shape { memory_mib, waiting_mib: 10, parked: Watermarks { low, high }, prespawned }
}

fn all(memory_mib: u64, cpu_millis: u64) -> Demand {
    Demand { memory_mib, cpu_millis }
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
    Rest { template: usize, resting: bool },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..3_usize, 0..3_usize, 0..3_000_u64)
            .prop_map(|(tenant, template, cpu)| Happening::Ask { tenant, template, cpu }),
        1 => any::<usize>().prop_map(Happening::GiveUp),
        3 => any::<usize>().prop_map(Happening::Release),
        3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(which, well)| Happening::FillEnds { which, well }),
        3 => any::<usize>().prop_map(Happening::Gone),
        1 => (0..3_usize).prop_map(Happening::Dies),
        1 => (0..3_usize, any::<bool>())
            .prop_map(|(template, resting)| Happening::Rest { template, resting }),
    ]
}

/// The world around a policy: it knows what the policy was told and what it decided.
#[derive(Debug)]
struct World {
    policy: Policy,
    max_queued: usize,
    parallel: usize,
    shapes: Vec<Shape>,
    /// By ticket: tenant and template.
    waiting: BTreeMap<u64, (usize, usize)>,
    granted: Vec<Demand>,
    filling: Vec<(usize, Kind)>,
    leaving: Vec<(usize, Kind)>,
    ready: BTreeMap<(usize, bool), u32>,
    tickets: u64,
    /// The order of grants.
    log: Vec<u64>,
}

impl World {
    fn new(total: Demand, shapes: Vec<Shape>, max_queued: usize, parallel: usize) -> Self {
        Self {
            policy: Policy::new(total, shapes.clone(), max_queued, parallel),
            max_queued,
            parallel,
            shapes,
            waiting: BTreeMap::new(),
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
                if self.policy.ask(self.tickets, TENANTS[tenant], template, cpu).is_ok() {
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
            Happening::Rest { template, resting } => self.policy.rest(template, resting),
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
                    let (_, asked) = self.waiting.remove(&ticket).expect("only who waits is granted, once");
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
        assert!(self.policy.queued() <= self.max_queued, "the queue is bounded");
    }

    /// Counted here, without the policy's own sums.
    fn check(&self) {
        let cost = |(template, kind): &(usize, Kind)| self.shapes[*template].cost(*kind);
        let kind = |parked: bool| if parked { Kind::Parked } else { Kind::Prespawned };
        let ready: u64 = self
            .ready
            .iter()
            .map(|((template, parked), count)| u64::from(*count) * cost(&(*template, kind(*parked))))
            .sum();
        let moving: u64 = self.filling.iter().chain(&self.leaving).map(cost).sum();
        let claimed: u64 = self.granted.iter().map(|demand| demand.memory_mib).sum();
        let cpu: u64 = self.granted.iter().map(|demand| demand.cpu_millis).sum();
        let total = self.policy.total();
        assert_eq!(self.policy.used_mib(), ready + moving + claimed);
        assert!(ready + moving + claimed <= total.memory_mib, "memory is over budget");
        assert_eq!(self.policy.used_millis(), cpu);
        assert!(cpu <= total.cpu_millis, "processors are over budget");
        assert_eq!(self.policy.queued(), self.waiting.len());
        assert!(self.filling.len() <= self.parallel, "too many refills at once");
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
        (10..400_u64, 0..3_u32, 0..4_u32, 0..3_u32)
            .prop_map(|(memory, low, high, prespawned)| shape(memory, low, high, prespawned)),
        3,
    );
    (100..1_000_u64, 500..4_000_u64, shapes, 0..6_usize, 1..4_usize).prop_map(
        |(memory, cpu, shapes, queue, parallel)| World::new(all(memory, cpu), shapes, queue, parallel),
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
            world.happen(Happening::Rest { template, resting: false });
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

#[test]
fn a_big_request_at_the_front_is_not_overtaken_by_small_ones() {
    let mut world = World::new(all(100, 9_000), vec![shape(20, 0, 0, 0), shape(90, 0, 0, 0)], 50, 1);
    let small = |tenant| Happening::Ask { tenant, template: 0, cpu: 1 };
    world.happen(small(0));
    world.happen(Happening::Ask { tenant: 1, template: 1, cpu: 1 });
    for _ in 0..10 {
        world.happen(small(2));
    }
    assert_eq!(world.log, [1], "there is room for small ones, but it is not their turn");
    world.happen(Happening::Release(0));
    assert_eq!(world.log, [1, 2]);
}

#[test]
fn below_the_low_mark_it_is_filled_to_the_high_one_and_between_them_left_alone() {
    let mut world = World::new(all(1_000, 9_000), vec![shape(10, 2, 4, 0)], 5, 9);
    world.settle();
    assert_eq!(world.filling.len(), 4);
    while !world.filling.is_empty() {
        world.happen(Happening::FillEnds { which: 0, well: true });
    }
    let ask = Happening::Ask { tenant: 0, template: 0, cpu: 1 };
    world.happen(ask);
    world.happen(ask);
    assert_eq!(world.policy.stock(0), (2, 0, 0), "two are enough");
    world.happen(ask);
    assert_eq!(world.policy.stock(0), (1, 0, 3), "one is not");
}

#[test]
fn parked_machines_of_others_give_way_and_only_as_many_as_needed() {
    let mut world = World::new(all(100, 9_000), vec![shape(20, 3, 3, 0), shape(70, 0, 0, 0)], 5, 9);
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
    assert_eq!(world.policy.stock(0), (1, 0, 0), "there is no room to fill it up again");
}

#[test]
fn what_can_never_be_met_is_refused_and_says_what_is_missing() {
    let mut policy = Policy::new(all(100, 2_000), vec![shape(101, 0, 0, 0), shape(60, 0, 0, 0)], 1, 1);
    let too_large = |resource, asked, total| Err(Refused::TooLarge { resource, asked, total });
    assert_eq!(policy.ask(1, "a", 0, 1), too_large(Resource::Memory, 101, 100));
    assert_eq!(policy.ask(2, "a", 1, 2_001), too_large(Resource::Cpu, 2_001, 2_000));
    assert_eq!(policy.ask(3, "a", 1, 1_500), Ok(()));
    assert!(matches!(policy.next(), Some(Decision::Grant { ticket: 3, .. })));
    assert_eq!(policy.ask(4, "a", 1, 1_000), Ok(()));
    assert_eq!(policy.next(), None);
    assert_eq!(policy.ask(5, "b", 1, 1), Err(Refused::QueueFull));
    assert_eq!(policy.give_up(4), Some(Shortage::Cpu));
    assert_eq!(policy.ask(6, "b", 1, 1), Ok(()));
    assert_eq!(policy.give_up(6), Some(Shortage::Memory));
}
