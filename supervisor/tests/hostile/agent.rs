//! Agents that lie, flood, stall and vanish, against the real service: whatever they say, each call has a typed end
//! in its time, nothing is left of the sandbox, memory stays within a bound, and the next sandbox works.
//!
//! `REKINDLE_HOSTILE=10000` makes the conversations ten thousand; `REKINDLE_HOSTILE_SEED` begins elsewhere.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use rekindle::agent::{GuestPath, MkdirOptions, TerminalSize, UploadOptions, UserPath};
use rekindle::service::{Input, LiveEvent, ServiceError};
use rekindle_test_support::random::{Random, times};
use tokio::time::timeout;

use crate::place::{Place, TTL, alive, alone, descriptors, resident, shell};

/// Conversations in `cargo test`.
const CONVERSATIONS: u64 = 300;
/// Of one supervisor; then another one takes over, so that a test of many hours does not remember all its guests.
const OF_ONE: u64 = 50;
/// Every so many supervisors one keeps a machine parked, whose agent may mean harm before it has a caller.
const PARKING: u64 = 3;
/// No call takes longer, by its own clock: starts and executions have shorter deadlines than transfers.
const LONGEST: Duration = Duration::from_secs(45 * 60);
/// How much more memory this process has at the end of any conversation than after the first supervisor's.
const MEMORY: u64 = 96 << 20;
/// No text about a failure is longer.
const LONGEST_TEXT: usize = 16 * 1024;

#[test]
fn whatever_a_hostile_agent_says_every_call_ends_typed_and_nothing_is_left() {
    alone(async || {
        let (first, count) = (times("REKINDLE_HOSTILE_SEED", 0), times("REKINDLE_HOSTILE", CONVERSATIONS));
        let mut tally = BTreeMap::new();
        // As they are after the first supervisor, which has brought everything up that is kept.
        let (mut memory, mut files, mut most) = (None, None, 0);
        let mut seed = first;
        while seed < first + count {
            let parked = u32::from((seed - first) / OF_ONE % PARKING == PARKING - 1);
            let place = Place::new(parked, 0).await;
            for _ in 0..OF_ONE.min(first + count - seed) {
                converse(&place, parked, seed, &mut tally).await;
                alive();
                seed += 1;
                most = most.max(resident());
            }
            let open = descriptors();
            let before = *files.get_or_insert(open);
            assert!(open <= before, "seed {seed}: {open} descriptors are open, {before} were");
            let before = *memory.get_or_insert(resident());
            let grown = most.saturating_sub(before);
            assert!(grown < MEMORY, "seed {seed}: {} MiB more", grown >> 20);
        }
        let memory = memory.unwrap_or_default();
        println!(
            "{count} hostile conversations from seed {first}: {tally:?}; {} MiB resident, {} MiB at most",
            memory >> 20,
            most >> 20
        );
        assert!(tally.len() > 5, "they differ: {tally:?}");
    });
}

/// One sandbox whose agent means harm, and after it one that does not.
async fn converse(place: &Place, parked: u32, seed: u64, tally: &mut BTreeMap<&'static str, u64>) {
    let mut random = Random::new(seed);
    place.fake.guests.turn_hostile(random.number());
    let mut ends = Vec::new();
    // The one that is parked is still in good faith; the next one is not.
    for _ in 0..=parked {
        ends.extend(sandbox(place, &mut random, seed).await);
    }
    for end in &ends {
        let word = match end {
            Ok(word) => word,
            Err(error) => {
                check_text(error, seed);
                error.word()
            }
        };
        *tally.entry(word).or_default() += 1;
    }
    if parked == 0 {
        // While its enemy still talks, nothing of the sandbox may be left.
        place.at_rest(0, 0).await;
    }
    place.fake.guests.pacify();
    if parked == 0 {
        place.no_task_is_left().await;
    }
    place.works().await;
    place.at_rest(parked, 0).await;
    place.no_task_is_left().await;
}

/// One sandbox, from its beginning to its end, and how each call in it ended.
async fn sandbox(place: &Place, random: &mut Random, seed: u64) -> Vec<Result<&'static str, ServiceError>> {
    let mut ends = Vec::new();
    let made =
        timeout(LONGEST, place.create()).await.unwrap_or_else(|_| panic!("seed {seed}: a start hangs"));
    match made {
        Ok(made) => {
            let id = made.id.as_str();
            for _ in 0..=random.below(3) {
                if random.one_in(4) {
                    let (one, other) = (random.fork(), random.fork());
                    let (one, other) = tokio::join!(call(place, id, one, seed), call(place, id, other, seed));
                    ends.extend([one, other]);
                } else {
                    ends.push(call(place, id, random.fork(), seed).await);
                }
            }
            let gone = timeout(LONGEST, place.service.destroy(&place.caller, id)).await;
            gone.unwrap_or_else(|_| panic!("seed {seed}: an end hangs")).expect("destroyed");
        }
        Err(error) => ends.push(Err(error)),
    }
    ends
}

/// What is said about a failure is short, and moves no cursor.
fn check_text(error: &ServiceError, seed: u64) {
    let mut next: Option<&dyn Error> = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        assert!(text.len() < LONGEST_TEXT, "seed {seed}: {} bytes", text.len());
        let strange = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(strange), "seed {seed}: {text:?}");
        next = error.source();
    }
}

/// One call of a random kind; some callers give up.
async fn call(place: &Place, id: &str, mut random: Random, seed: u64) -> Result<&'static str, ServiceError> {
    let gives_up = random.one_in(6).then(|| Duration::from_millis(random.below(20_000)));
    let which = random.below(14);
    let work = Box::pin(kind_of_call(place, id, random, which));
    // A transfer may take as long as a sandbox lives.
    let longest = if matches!(which, 3 | 4) { TTL + LONGEST } else { LONGEST };
    match timeout(gives_up.unwrap_or(longest), work).await {
        Ok(end) => end,
        Err(_) if gives_up.is_some() => Ok("given up"),
        Err(_) => panic!("seed {seed}: a call of kind {which} hangs"),
    }
}

async fn kind_of_call(
    place: &Place,
    id: &str,
    mut random: Random,
    which: u64,
) -> Result<&'static str, ServiceError> {
    let Place { service, caller, .. } = place;
    let (path, other) = (UserPath::from(guest_path("dir/file")), guest_path("other"));
    match which {
        0 | 1 => {
            let stdin = if which == 0 { Bytes::new() } else { vec![b'i'; 700_000].into() };
            let limit = random.pick(&[None, Some(100), Some(100_000)]);
            let spec = rekindle::service::ExecuteSpec { output_limit: limit, ..shell("cat") };
            let ran = service.execute(caller, id, spec, stdin, "").await?;
            for output in [&ran.finished.stdout, &ran.finished.stderr] {
                let most = limit.unwrap_or(4_000) as usize;
                assert!(output.text.chars().count() <= most, "the caller's limit holds");
                assert!(output.total_chars <= output.total_bytes);
            }
        }
        2 | 12 | 13 => return live(place, id, random).await,
        3 => {
            let content = vec![b'u'; random.pick(&[0, 10, 300_000])];
            let options = UploadOptions { size: Some(content.len() as u64), ..UploadOptions::default() };
            let info = service.upload(caller, id, &path, options, &content[..]).await?;
            assert_eq!(info.size, content.len() as u64, "only what arrived whole has arrived");
        }
        4 => {
            let mut sink = Vec::new();
            let most = random.pick(&[0, 10, 1_000_000]);
            let down = service.download(caller, id, &path, most, &mut sink).await?;
            assert_eq!(down.size, sink.len() as u64);
            assert!(most == 0 || down.size <= most);
        }
        5 => {
            let most = random.pick(&[0, 1, 100]);
            let depth = random.pick(&[0, 1, 3]);
            let listing = service.list_files(caller, id, &path, depth, most).await?;
            assert!(listing.entries.len() <= if most == 0 { 10_000 } else { most as usize });
            let levels = |path: &[u8]| path.split(|byte| *byte == b'/').count() as u32;
            assert!(listing.entries.iter().all(|entry| levels(entry.path.as_bytes()) <= depth.max(1)));
        }
        6 => drop(service.stat(caller, id, &path).await?),
        7 => drop(service.make_dir(caller, id, &path, MkdirOptions::default()).await?),
        8 => drop(service.rename(caller, id, &path, &other, true).await?),
        9 => service.remove(caller, id, &path, true).await?,
        10 => {
            service.pause(caller, id).await?;
            service.resume(caller, id).await?;
        }
        _ => {
            let stdin = Bytes::from_static(b"once");
            service.execute(caller, id, shell("cat"), stdin, "a key").await?;
        }
    }
    Ok("answered")
}

/// A program whose output and input are live; its caller writes, steers and reads.
async fn live(place: &Place, id: &str, mut random: Random) -> Result<&'static str, ServiceError> {
    let Place { service, caller, .. } = place;
    let size = TerminalSize { rows: 24, cols: 80 };
    let terminal = random.one_in(3).then_some(size);
    let mut running = service.execute_live(caller, id, &shell("cat"), Input::Live, terminal).await?;
    let steering = running.steering();
    let input = running.take_stdin();
    let feed = async {
        if let Some(mut input) = input {
            for _ in 0..random.below(40) {
                if input.send(vec![b'i'; 20_000].into()).await.is_err() {
                    break;
                }
            }
            input.eof();
        }
        if let Some(steering) = steering.filter(|_| random.one_in(2)) {
            let _ = steering.signal(15).await;
            let _ = steering.resize(size).await;
        }
        // Nobody ends the execution but its agent and its host.
        std::future::pending::<()>().await;
    };
    let read = async {
        loop {
            match running.next().await? {
                Some(LiveEvent::Output { data, .. }) => assert!(data.len() <= 256 * 1024),
                Some(LiveEvent::Finished(_)) => {}
                None => return Ok("answered"),
            }
        }
    };
    tokio::select! {
        () = feed => Ok("answered"),
        read = read => read,
    }
}

fn guest_path(text: &str) -> GuestPath {
    text.parse().expect("a path")
}
