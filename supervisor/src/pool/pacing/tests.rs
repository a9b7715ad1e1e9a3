//! Rests and head starts, on a clock that is an argument.

use std::time::Duration;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn config() -> PoolConfig {
    PoolConfig {
        head_start: 10 * MS,
        first_backoff: 20 * MS,
        longest_backoff: 200 * MS,
        ..PoolConfig::new(0, 0)
    }
}

#[test]
fn a_template_rests_twice_as_long_after_every_failure_up_to_a_bound() {
    let (mut backoff, mut now) = (Backoff::default(), Instant::now());
    for rest in [20, 40, 80, 160, 200, 200] {
        backoff.failed(now, &config());
        assert!(backoff.rests(now + (rest - 1) * MS));
        now += rest * MS;
        assert!(!backoff.rests(now), "{rest} ms are enough");
    }
    backoff.succeeded();
    backoff.failed(now, &config());
    assert_eq!(backoff.until, Some(now + 20 * MS), "a success forgets the failures before it");
    for _ in 0..100 {
        now += 200 * MS;
        backoff.failed(now, &config());
    }
    assert_eq!(backoff.until, Some(now + 200 * MS), "however often");
}

#[test]
fn failures_during_a_rest_do_not_prolong_it_but_the_next_one() {
    let (mut backoff, now) = (Backoff::default(), Instant::now());
    for _ in 0..3 {
        backoff.failed(now, &config());
    }
    assert_eq!(backoff.until, Some(now + 20 * MS));
    let later = now + 20 * MS;
    backoff.failed(later, &config());
    assert_eq!(backoff.until, Some(later + 160 * MS));
}

#[test]
fn a_machine_that_died_makes_its_template_rest_without_doubling() {
    let (mut backoff, mut now) = (Backoff::default(), Instant::now());
    for _ in 0..3 {
        backoff.died(now, &config());
        assert_eq!(backoff.until, Some(now + 20 * MS));
        now += 20 * MS;
    }
}

#[test]
fn only_a_claim_that_comes_alone_has_a_head_start() {
    let (mut head_start, now) = (HeadStart::default(), Instant::now());
    assert!(!head_start.runs(now));
    head_start.claimed(now, &config());
    assert!(head_start.runs(now + 9 * MS) && !head_start.runs(now + 10 * MS));
    head_start.claimed(now + 5 * MS, &config());
    assert!(!head_start.runs(now + 5 * MS), "the next one is needed soon");
    head_start.claimed(now + 55 * MS, &config());
    assert!(!head_start.runs(now + 55 * MS), "five head starts later is still in a row");
    head_start.claimed(now + 106 * MS, &config());
    assert!(head_start.runs(now + 106 * MS));
}
