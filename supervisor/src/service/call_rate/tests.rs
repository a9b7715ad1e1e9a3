//! Calls that are let in, on a clock of the test's own.

use proptest::prelude::*;

use super::*;

fn rate(per_second: u32, burst: u32) -> CallRate {
    CallRate::new(per_second, burst).expect("a bound")
}

fn of(tenant: &str) -> Caller {
    Caller { tenant: tenant.into(), token: Some("t".into()), ..Caller::local() }
}

/// How many of so many calls at one moment are let in.
fn admitted(rates: &CallRates, caller: &Caller, calls: u32, now: Instant) -> u32 {
    (0..calls).map(|_| u32::from(rates.count(caller, now).is_ok())).sum()
}

#[test]
fn a_burst_is_let_in_and_then_as_many_as_the_rate_says() {
    let (rates, start) = (CallRates::new(Some(rate(10, 25))), Instant::now());
    assert_eq!(admitted(&rates, &of("a"), 100, start), 25);
    assert_eq!(admitted(&rates, &of("a"), 100, start + Duration::from_millis(99)), 0);
    assert_eq!(admitted(&rates, &of("a"), 100, start + Duration::from_millis(100)), 1);
    assert_eq!(admitted(&rates, &of("a"), 100, start + Duration::from_millis(1100)), 10);
    assert_eq!(
        admitted(&rates, &of("a"), 100, start + Duration::from_secs(3600)),
        25,
        "rest is not saved up"
    );
}

#[test]
fn who_waits_as_long_as_it_is_told_is_let_in() {
    let (rates, mut now) = (CallRates::new(Some(rate(3, 1))), Instant::now());
    assert_eq!(admitted(&rates, &of("a"), 1, now), 1);
    for _ in 0..10 {
        let Err(ServiceError::CallRate { per_second: 3, retry_after }) = rates.count(&of("a"), now) else {
            panic!("there is nothing left");
        };
        assert!(!retry_after.is_zero() && retry_after <= Duration::from_secs(1), "{retry_after:?}");
        assert_eq!(
            admitted(&rates, &of("a"), 1, now + retry_after - Duration::from_nanos(1)),
            0,
            "not sooner"
        );
        now += retry_after;
        assert_eq!(admitted(&rates, &of("a"), 2, now), 1);
    }
}

#[test]
fn one_tenant_takes_nothing_from_another_and_the_operator_is_not_bounded() {
    let (rates, now) = (CallRates::new(Some(rate(1, 2))), Instant::now());
    assert_eq!(admitted(&rates, &of("loud"), 1000, now), 2);
    assert_eq!(admitted(&rates, &of("quiet"), 2, now), 2);
    assert_eq!(admitted(&rates, &Caller::local(), 1000, now), 1000);
    let other_token = Caller { token: Some("another".into()), ..of("loud") };
    assert_eq!(admitted(&rates, &other_token, 1, now), 0, "a second token is no second tenant");
}

#[test]
fn zero_is_no_bound_and_a_burst_of_none_is_one() {
    assert_eq!(CallRate::new(0, 100), None);
    let (rates, now) = (CallRates::new(None), Instant::now());
    assert_eq!(admitted(&rates, &of("a"), 1000, now), 1000);
    assert_eq!(rate(5, 0).burst.get(), 1);
}

#[test]
fn who_has_rested_is_not_remembered() {
    let (rates, now) = (CallRates::new(Some(rate(1000, 1))), Instant::now());
    for number in 0..10 * MANY {
        let at = now + Duration::from_millis(10 * number as u64);
        assert!(rates.count(&of(&number.to_string()), at).is_ok());
    }
    assert!(rates.buckets.lock().expect("free").len() <= MANY);
}

proptest! {
    #[test]
    fn over_any_time_no_more_are_let_in_than_burst_and_rate_allow(
        per_second in 1u32..2000,
        burst in 1u32..500,
        steps in proptest::collection::vec((0u64..2_000, 0u32..50), 1..100),
    ) {
        let (rates, start) = (CallRates::new(Some(rate(per_second, burst))), Instant::now());
        let (mut now, mut calls) = (start, 0);
        for (millis, tries) in steps {
            now += Duration::from_millis(millis);
            calls += admitted(&rates, &of("a"), tries, now);
            let most = f64::from(burst) + (now - start).as_secs_f64() * f64::from(per_second);
            // An interval is a whole number of nanoseconds.
            prop_assert!(f64::from(calls) <= most * 1.000_01 + 1e-6, "{calls} of {most}");
        }
    }
}
