//! Clocks that run, stand still and start anew.

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);

#[test]
fn the_time_to_live_counts_from_the_start_and_whatever_happens() {
    let t = Instant::now();
    let mut life = Lifetime::start(t, 10 * S, None, None);
    life.begin();
    assert_eq!(life.due(), Some((t + 10 * S, Due::Ttl)));
    life.finish(t + 5 * S);
    assert_eq!(life.due(), Some((t + 10 * S, Due::Ttl)));
    assert_eq!(life.left(t + 4 * S), 6 * S);
}

#[test]
fn idle_counts_only_while_nothing_is_under_way() {
    let t = Instant::now();
    let mut life = Lifetime::start(t, 100 * S, Some(5 * S), None);
    assert_eq!(life.due(), Some((t + 5 * S, Due::Idle)));
    life.begin();
    life.begin();
    life.finish(t + 20 * S);
    assert_eq!(life.due(), Some((t + 100 * S, Due::Ttl)), "one call is still under way");
    life.finish(t + 30 * S);
    assert_eq!(life.due(), Some((t + 35 * S, Due::Idle)));
}

#[test]
fn a_pause_stops_both_clocks() {
    let t = Instant::now();
    let mut life = Lifetime::start(t, 10 * S, Some(5 * S), None);
    life.pause(t + 2 * S);
    assert_eq!(life.due(), None);
    assert_eq!(life.left(t + 1000 * S), 8 * S);
    life.resume(t + 1000 * S);
    assert_eq!(life.due(), Some((t + 1003 * S, Due::Idle)), "two of five seconds were idle before the pause");
    assert_eq!(life.ran(t + 1001 * S), 3 * S);
}

#[test]
fn a_new_time_to_live_counts_from_now_on_even_when_paused() {
    let t = Instant::now();
    let mut life = Lifetime::start(t, 10 * S, None, None);
    life.set_ttl(t + 9 * S, 20 * S);
    assert_eq!(life.due(), Some((t + 29 * S, Due::Ttl)));
    life.pause(t + 10 * S);
    life.set_ttl(t + 50 * S, 3 * S);
    assert_eq!(life.due(), None);
    life.resume(t + 60 * S);
    assert_eq!(life.due(), Some((t + 63 * S, Due::Ttl)));
    assert_eq!(life.ran(t + 60 * S), 10 * S);
}

#[test]
fn all_pauses_together_are_bounded() {
    let t = Instant::now();
    let mut life = Lifetime::start(t, 100 * S, None, Some(10 * S));
    life.pause(t + S);
    assert_eq!(life.due(), Some((t + 11 * S, Due::Pause)));
    life.pause(t + 2 * S);
    assert_eq!(life.due(), Some((t + 11 * S, Due::Pause)), "a second pause changes nothing");
    life.set_ttl(t + 2 * S, 50 * S);
    assert_eq!(life.due(), Some((t + 11 * S, Due::Pause)), "nor does a new time to live");
    life.resume(t + 5 * S);
    assert_eq!(life.due(), Some((t + 55 * S, Due::Ttl)));
    life.pause(t + 20 * S);
    assert_eq!(life.due(), Some((t + 26 * S, Due::Pause)), "four of ten seconds are used up");
    life.resume(t + 30 * S);
    life.pause(t + 31 * S);
    assert_eq!(life.due(), Some((t + 31 * S, Due::Pause)), "nothing is left");
    let mut endless = Lifetime::start(t, 100 * S, None, Some(Duration::MAX));
    endless.pause(t);
    assert_eq!(endless.due(), None, "and no overflow");
}

#[test]
fn a_program_that_is_left_running_is_no_idleness_and_no_call() {
    let t = Instant::now();
    let mut life = Lifetime::start(t, 100 * S, Some(10 * S), None);
    life.begin();
    life.detach();
    assert_eq!((life.under_way(), life.due()), (0, Some((t + 100 * S, Due::Ttl))));
    life.begin();
    life.finish(t + 5 * S);
    assert_eq!(life.due(), Some((t + 100 * S, Due::Ttl)), "another call's end changes nothing");
    life.pause(t + 6 * S);
    life.resume(t + 16 * S);
    assert_eq!(life.due(), Some((t + 110 * S, Due::Ttl)), "nor does a pause");
    life.finish_detached(t + 20 * S);
    assert_eq!(life.due(), Some((t + 30 * S, Due::Idle)));
}

#[test]
fn an_end_that_is_put_off_comes_with_the_last_call() {
    let start = Instant::now();
    let mut life = Lifetime::start(start, 10 * S, None, None);
    life.begin();
    life.begin();
    life.postpone(start + 10 * S, 100 * S);
    assert_eq!(life.due(), Some((start + 110 * S, Due::Ttl)));
    life.finish(start + 20 * S);
    assert_eq!(life.due(), Some((start + 110 * S, Due::Ttl)), "one is still under way");
    life.finish(start + 30 * S);
    assert!(life.due().is_some_and(|(at, due)| at <= start + 30 * S && due == Due::Ttl));
    assert_eq!(life.granted(), 10 * S, "it was not given that time");
    life.set_ttl(start + 30 * S, 20 * S);
    assert_eq!((life.due(), life.granted()), (Some((start + 50 * S, Due::Ttl)), 20 * S));
}

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Finish,
    Pause,
    Resume,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    (0..1000u64, prop_oneof![Just(Step::Begin), Just(Step::Finish), Just(Step::Pause), Just(Step::Resume)])
}

proptest! {
    /// Time run and time left always add up to the time to live, however calls and pauses are mixed.
    #[test]
    fn no_time_is_lost_or_won(steps in proptest::collection::vec(step(), 0..50)) {
        let start = Instant::now();
        let ttl = Duration::from_secs(3600);
        let max_pause = Duration::from_secs(7200);
        let mut life = Lifetime::start(start, ttl, Some(10 * S), Some(max_pause));
        let mut now = start;
        let mut paused = false;
        let mut ran = Duration::ZERO;
        let mut stood = Duration::ZERO;
        for (millis, step) in steps {
            let passed = Duration::from_millis(millis);
            now += passed;
            if paused {
                stood += passed;
            } else {
                ran += passed;
            }
            match step {
                Step::Begin if !paused => life.begin(),
                Step::Finish if life.under_way() > 0 => life.finish(now),
                Step::Pause if !paused && life.under_way() == 0 => { life.pause(now); paused = true; }
                Step::Resume if paused => { life.resume(now); paused = false; }
                _ => {}
            }
            prop_assert_eq!(life.ran(now), ran);
            prop_assert_eq!(life.left(now) + ran, ttl);
            let due = life.due().expect("nothing is for ever");
            prop_assert_eq!(due.1 == Due::Pause, paused);
            if paused {
                prop_assert_eq!(due.0 - now, max_pause - stood);
            }
        }
    }
}
