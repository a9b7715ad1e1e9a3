//! What is counted, and when it is counted no more.

use super::*;

fn unread(held: &Held) -> usize {
    held.lock().unread
}

fn let_go(held: &Held) {
    held.begin();
    held.settled();
}

#[test]
fn what_is_read_counts_no_more_and_a_body_keeps_its_allocation_to_its_last_byte() {
    let held = Held::default();
    held.opened(2);
    for bytes in [10, 1, 100] {
        assert!(held.came(2, bytes));
    }
    assert_eq!(unread(&held), 111 + 3 * BODY);
    for (read, left) in
        [(9, 102 + 3 * BODY), (1, 101 + 2 * BODY), (2, 99 + BODY), (98, 1 + BODY), (1, 0), (1, 0)]
    {
        held.read(2, read);
        assert_eq!(unread(&held), left, "after {read} more");
    }
}

#[test]
fn what_was_dropped_counts_until_the_multiplexer_has_let_it_go() {
    let held = Held::default();
    held.opened(2);
    assert!(held.came(2, 1000));
    held.begin();
    held.dropped(2);
    // More of it may come, and is kept as before.
    assert!(held.came(2, 1000));
    held.settled();
    assert_eq!(unread(&held), 2 * (1000 + BODY), "it may have been dropped after the multiplexer looked");
    let_go(&held);
    assert_eq!(unread(&held), 0);
    held.read(2, 1000);
    assert_eq!(unread(&held), 0);
}

#[test]
fn bytes_and_bodies_of_all_streams_are_bounded_together() {
    for bytes in [1, 64 * 1024] {
        let held = Held::default();
        let fits = MAX_UNREAD_BYTES / (bytes + BODY);
        for stream in 1..=8 {
            held.opened(2 * stream);
        }
        for at in 0..fits {
            assert!(held.came(2 * (at % 8) as u32 + 2, bytes), "{at} of {fits} bodies of {bytes}");
        }
        assert!(!held.came(2, bytes), "one more than there is room for");
    }
    assert!(!Held::default().came(2, usize::MAX), "a length that is only claimed counts as well");
}

#[test]
fn writers_wait_while_too_much_waits_and_are_woken_when_it_goes_or_nobody_is_there() {
    let (held, cx) = (Held::default(), Context::from_waker(Waker::noop()));
    for stream in [2, 4] {
        assert!(held.poll_room(stream, &cx).is_ready());
        held.queued(MAX_QUEUED_BYTES / 2);
    }
    assert!(held.poll_room(2, &cx).is_pending());
    assert!(held.poll_room(4, &cx).is_pending());
    held.dropped(4);
    assert_eq!(held.lock().waiting.len(), 1);
    held.sent(1);
    assert!(held.lock().waiting.is_empty() && held.poll_room(2, &cx).is_ready());
    held.queued(1);
    assert!(held.poll_room(2, &cx).is_pending());
    held.over();
    assert!(held.lock().waiting.is_empty() && held.poll_room(2, &cx).is_ready());
}
