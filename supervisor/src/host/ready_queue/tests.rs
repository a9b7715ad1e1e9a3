//! A stock is filled ahead, shared out once, and its failures reach those who wait.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rekindle_test_support::wait::block_until;

use super::{KEPT, ReadyQueue};

/// Waits for the maker to have made so many.
fn until(made: &AtomicU32, count: u32) {
    block_until("so many were made", || made.load(Ordering::SeqCst) >= count);
}

#[test]
fn it_is_filled_ahead_each_is_given_once_and_closing_ends_it() {
    let stock = Arc::new(ReadyQueue::new());
    let made = Arc::new(AtomicU32::new(0));
    let maker = thread::spawn({
        let (stock, made) = (stock.clone(), made.clone());
        move || stock.fill(|| Ok(made.fetch_add(1, Ordering::SeqCst)))
    });
    until(&made, u32::try_from(KEPT).expect("small"));
    let mut taken = Vec::new();
    while taken.len() < KEPT {
        taken.extend(stock.take());
    }
    taken.extend(stock.take());
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), KEPT + 1, "{taken:?}");
    stock.close();
    maker.join().expect("it ends");
    assert!(stock.lock().things.is_empty());
}

#[test]
fn who_waits_hears_why_there_is_none_and_asking_again_tries_again() {
    let stock = Arc::new(ReadyQueue::<u32>::new());
    let tries = Arc::new(AtomicU32::new(0));
    let maker = thread::spawn({
        let (stock, tries) = (stock.clone(), tries.clone());
        move || {
            stock.fill(|| match tries.fetch_add(1, Ordering::SeqCst) {
                // The first is nobody's: it was to be made ahead.
                0..3 => Err(io::ErrorKind::StorageFull.into()),
                number => Ok(number),
            });
        }
    });
    until(&tries, 1);
    let second = thread::spawn({
        let stock = stock.clone();
        move || stock.take()
    });
    for told in [stock.take(), second.join().expect("it ends")] {
        assert_eq!(told.expect_err("it is told").kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(stock.take().expect("made"), 3);
    stock.close();
    maker.join().expect("it ends");
}

#[test]
fn on_demand_none_is_made_before_somebody_waits_for_it() {
    let stock = Arc::new(ReadyQueue::new().on_demand());
    assert!(!stock.lacks_one(&stock.lock()), "nobody waits yet");
    stock.lock().waiting = 1;
    assert!(stock.lacks_one(&stock.lock()));
    stock.lock().things.push(7);
    assert!(!stock.lacks_one(&stock.lock()), "one is enough");
    stock.lock().waiting = 0;
    assert_eq!(stock.take().expect("there is one"), 7);

    let maker = thread::spawn({
        let stock = stock.clone();
        move || stock.fill(|| Ok(8))
    });
    assert_eq!(stock.take().expect("made for whoever waits"), 8);
    stock.close();
    maker.join().expect("it ends");
}
