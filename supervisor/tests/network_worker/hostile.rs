//! Guests that take and hold all they can: what they cost is bounded, in the supervisor and in the worker, and nobody
//! else notices.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rekindle::network::{Egress, Gate};
use rekindle_test_support::echo::echo;
use rekindle_test_support::wait::{until, until_answer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::raw::{RawGuest, WINDOW};
use crate::{Place, say};

/// Streams that an agent has open at most.
const STREAMS: u32 = 128;
/// What a guest with so many streams may cost the supervisor; SPECIFICATION has it.
const SUPERVISOR: u64 = 64 << 20;
/// What it may cost the worker.
const WORKER: u64 = 64 << 20;
/// Connections of one guest that are served at once.
const SERVED: usize = 256;

/// Memory is measured for the whole process: one of these tests at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A server that never reads and sends without end, to however many; bytes that it has sent.
async fn torrent() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server");
    let address = listener.local_addr().expect("an address");
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                while let Ok(sent) = client.write(&[b'y'; 16 * 1024]).await {
                    counted.fetch_add(sent, Relaxed);
                }
            });
        }
    });
    (address, sent)
}

/// A worker with a sandbox that does nothing wrong, and bytes that the server `torrent.example.com` has sent.
async fn place() -> (Place, Arc<AtomicUsize>) {
    let (address, sent) = torrent().await;
    let rule = |host: &str| format!("{{ host = \"{host}.example.com\", ports = [7], protocol = \"tcp\" }}");
    let policies = format!("[test]\nmode = \"allow\"\nallow = [{}, {}]\n", rule("echo"), rule("torrent"));
    let hosts =
        [("echo.example.com".to_owned(), echo().await), ("torrent.example.com".to_owned(), address)].into();
    let egress = Egress::new(&toml::from_str(&policies).expect("policies"), &hosts).expect("a network");
    (Place::of(egress, "test").await, sent)
}

/// The network of one more sandbox.
fn gate(place: &Place) -> Arc<Gate> {
    Arc::new(place.egress.gate(place.egress.policy("test").expect("the policy"), None))
}

/// Others are served as ever.
async fn others_go_on(place: &Place) {
    let mut stream = place.connect().await;
    assert_eq!(say(&mut stream, "hello").await, "hello");
    assert_eq!(place.restarts.get(), 0);
}

fn resident(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kib: u64 = line.split_whitespace().next().expect("a number").parse().expect("a number");
    kib << 10
}

/// Memory of the supervisor, which this process is, and of the worker.
fn memory(place: &Place) -> (u64, u64) {
    (resident("self"), resident(&place.pid().to_string()))
}

/// Both are within what a guest may cost.
fn assert_bounded(place: &Place, before: (u64, u64)) {
    let after = memory(place);
    let (supervisor, worker) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    println!("{} MiB more in the supervisor, {} MiB in the worker", supervisor >> 20, worker >> 20);
    assert!(supervisor < SUPERVISOR, "{} MiB more in the supervisor", supervisor >> 20);
    assert!(worker < WORKER, "{} MiB more in the worker", worker >> 20);
}

/// Waits until a number stays as it is: where everything is full, nothing happens any more, and nobody tells.
async fn until_still(number: impl Fn() -> usize) {
    let (mut before, mut looks) = (number(), 0);
    until("it all stands still", || {
        let now = number();
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
        looks > 30
    })
    .await;
}

#[tokio::test]
async fn a_guest_that_asks_for_much_and_takes_none_of_it_costs_little_and_nobody_else_waits() {
    let _alone = ALONE.lock().await;
    let (place, sent) = place().await;
    others_go_on(&place).await;
    let gate = gate(&place);
    let mut guest = RawGuest::new(&gate).await;
    let before = memory(&place);
    for number in 1..=STREAMS {
        // It says that it takes everything, sends all it may, and reads nothing at all.
        assert!(guest.connect(2 * number, "torrent.example.com", 1 << 30).await);
        guest.fill(2 * number).await;
    }
    until("all are let through", || gate.summary().connections == u64::from(STREAMS)).await;
    until_still(|| sent.load(Relaxed)).await;
    assert_bounded(&place, before);
    others_go_on(&place).await;
}

#[tokio::test]
async fn a_guest_that_says_much_to_servers_that_take_none_of_it_costs_little_and_nobody_else_waits() {
    let _alone = ALONE.lock().await;
    let (place, _) = place().await;
    others_go_on(&place).await;
    let gate = gate(&place);
    let mut guest = RawGuest::new(&gate).await;
    guest.listen();
    let before = memory(&place);
    for number in 1..=STREAMS {
        assert!(guest.connect(2 * number, "torrent.example.com", 0).await);
    }
    let mut said = 0;
    let mut quiet = 0;
    while quiet < 30 {
        let mut more = 0;
        for number in 1..=STREAMS {
            more += guest.fill(2 * number).await;
        }
        quiet = if more == 0 { quiet + 1 } else { 0 };
        said += more;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(said > STREAMS as usize * WINDOW, "{said} bytes");
    assert_bounded(&place, before);
    others_go_on(&place).await;
}

#[tokio::test]
async fn a_guest_with_ten_thousand_connections_has_its_places_and_leaves_the_others_theirs() {
    const BATCH: u32 = 100;
    let _alone = ALONE.lock().await;
    let (place, _) = place().await;
    let gate = gate(&place);
    let mut guest = RawGuest::new(&gate).await;
    guest.listen();
    let before = memory(&place);
    for batch in 0..10_000 / BATCH {
        let numbers = batch * BATCH + 1..=(batch + 1) * BATCH;
        for number in numbers.clone() {
            assert!(guest.connect(2 * number, "echo.example.com", 0).await, "the session is over");
        }
        // Each is told something: that it is let through, or that there is no place.
        until("all are told", || {
            let told = guest.told();
            let answered = told.values().filter(|told| told.bytes > 0).count();
            assert!(answered <= SERVED, "{answered} are served at once");
            numbers.clone().all(|number| told[&(2 * number)].bytes > 0 || told[&(2 * number)].reset)
        })
        .await;
        if batch % 10 == 0 {
            others_go_on(&place).await;
        }
    }
    let served = guest.told().values().filter(|told| !told.reset).count();
    assert_eq!(served, SERVED);
    assert_eq!(gate.summary().connections, SERVED as u64);
    let descriptors = fs::read_dir(format!("/proc/{}/fd", place.pid())).expect("its files").count();
    assert!(descriptors < 2 * SERVED + 50, "the worker has {descriptors} descriptors");
    assert_bounded(&place, before);
    // All of them at once, as fast as they go: that session may end of it.
    let mut flood = RawGuest::new(&gate).await;
    for number in 1..=10_000 {
        if !flood.connect(2 * number, "echo.example.com", 0).await {
            break;
        }
    }
    others_go_on(&place).await;
    drop((guest, flood));
    let next = until_answer("its places are free again", async || {
        let mut guest = RawGuest::new(&gate).await;
        guest.listen();
        guest.connect(2, "echo.example.com", 0).await;
        until("it is told", || guest.told()[&2].bytes > 0 || guest.told()[&2].reset).await;
        let reset = guest.told()[&2].reset;
        (!reset).then_some(guest)
    });
    drop(next.await);
    assert_eq!(place.restarts.get(), 0);
}
