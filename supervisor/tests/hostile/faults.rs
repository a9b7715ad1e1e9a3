//! Faults at every await: each operation is given up after its first poll, its second, and so on until it completes;
//! engines fail, die and hang under it; the supervisor dies and leaves the files as they were at that moment. After each: a typed
//! end, nothing left, and the next operation works.
//!
//! The sweep is complete as it is. `REKINDLE_FAULTS=1000` goes on with faults that a seed draws, until there were so
//! many in all.

use std::fs;
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rekindle::agent::UploadOptions;
use rekindle::engine::Operation;
use rekindle::engine::fake::Fault;
use rekindle::service::{Input, SandboxState};
use rekindle::vm::Identity;
use rekindle_test_support::random::{Random, times};
use tokio::time::timeout;

use crate::place::{Place, alive, alone, shell};

/// Longer than any operation takes, by its own clock.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Polls a future; it is given up when it has been pending once more than `left` times.
struct GivenUp<'a, T> {
    doing: Pin<Box<dyn Future<Output = T> + 'a>>,
    left: u64,
}

impl<T> Future for GivenUp<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match self.doing.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => {
                self.left -= 1;
                Poll::Pending
            }
        }
    }
}

/// Names the case in which a test failed.
struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it was {}", self.0);
        }
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Launch and stop.
    ColdBoot,
    /// Launch, snapshot, publish.
    Build,
    Create,
    CreateParked,
    CreatePrespawned,
    Execute,
    Live,
    Upload,
    Download,
    Pause,
    Resume,
    Destroy,
}

impl Verb {
    const ALL: [Self; 12] = [
        Self::ColdBoot,
        Self::Build,
        Self::Create,
        Self::CreateParked,
        Self::CreatePrespawned,
        Self::Execute,
        Self::Live,
        Self::Upload,
        Self::Download,
        Self::Pause,
        Self::Resume,
        Self::Destroy,
    ];

    /// What the engine is asked for in it.
    fn operations(self) -> &'static [Operation] {
        match self {
            Self::ColdBoot => &[Operation::Launch, Operation::Dial],
            Self::Build => &[Operation::Launch, Operation::Dial, Operation::Snapshot],
            Self::Create | Self::CreateParked => &[Operation::Prespawn, Operation::Load, Operation::Dial],
            Self::CreatePrespawned => &[Operation::Load, Operation::Dial],
            Self::Pause => &[Operation::Pause, Operation::Resume],
            Self::Resume => &[Operation::Resume, Operation::Pause],
            Self::Execute | Self::Live | Self::Upload | Self::Download | Self::Destroy => &[],
        }
    }

    /// Whether it is done in a sandbox.
    fn is_in_a_sandbox(self) -> bool {
        !matches!(
            self,
            Self::ColdBoot | Self::Build | Self::Create | Self::CreateParked | Self::CreatePrespawned
        )
    }
}

/// Supervisors with nothing made ahead, with a parked machine, and with a prespawned monitor.
struct Bench {
    plain: Place,
    parked: Place,
    prespawned: Place,
    faults: u64,
    given_up: u64,
    failed: u64,
    deaths: u64,
}

impl Bench {
    async fn new() -> Self {
        let (parked, prespawned) = (Place::new(1, 0).await, Place::new(0, 1).await);
        // Last: its tasks are counted besides those of the others.
        let plain = Place::new(0, 0).await;
        Self { plain, parked, prespawned, faults: 0, given_up: 0, failed: 0, deaths: 0 }
    }

    fn place(&self, verb: Verb) -> (&Place, u32, u32) {
        match verb {
            Verb::CreateParked => (&self.parked, 1, 0),
            Verb::CreatePrespawned => (&self.prespawned, 0, 1),
            _ => (&self.plain, 0, 0),
        }
    }

    /// One operation with a fault in it; whether it came to its end.
    async fn fault(&mut self, verb: Verb, polls: u64, order: Option<(Operation, Fault)>, cut: bool) -> bool {
        alive();
        let (place, parked, prespawned) = self.place(verb);
        let case = format!("{verb:?} after {polls} polls, {order:?}");
        let _told = Told(&case);
        let sandbox = match verb.is_in_a_sandbox() {
            true => Some(place.create().await.expect("a sandbox").id),
            false => None,
        };
        let id = sandbox.as_ref().map_or("", |id| id.as_str());
        if verb == Verb::Resume {
            place.service.pause(&place.caller, id).await.expect("paused");
        }
        let ordered = order.as_ref().is_some_and(|(_, fault)| !matches!(fault, Fault::Delay(_)));
        if let Some((operation, fault)) = order {
            place.fake.engine.inject(operation, fault);
        }
        let (done, power) = {
            let mut doing = pin!(GivenUp { doing: Box::pin(run(place, verb, id)), left: polls });
            // What hangs is never polled again.
            let done = timeout(LONGEST, &mut doing).await.unwrap_or_default();
            let power = cut && done.is_none();
            if power {
                supervisor_dies(place, &case);
            }
            (done, power)
        };
        // One that did not come to pass is none.
        let happened = place.fake.engine.forget_faults() == 0 && ordered;
        if !id.is_empty() {
            usable(place, id, &case).await;
            place.service.destroy(&place.caller, id).await.expect("destroyed");
        }
        place.at_rest(parked, prespawned).await;
        if parked + prespawned == 0 {
            place.no_task_is_left().await;
        }
        place.works().await;
        place.at_rest(parked, prespawned).await;
        self.deaths += u64::from(power);
        self.given_up += u64::from(done.is_none());
        self.failed += u64::from(done == Some(false));
        self.faults += u64::from(happened || done.is_none());
        assert!(ordered || done != Some(false), "{case}: it fails though nothing was wrong");
        done.is_some()
    }
}

/// Does it; whether it went well.
async fn run(place: &Place, verb: Verb, id: &str) -> bool {
    let Place { service, caller, fake, .. } = place;
    let path = rekindle::agent::GuestPath::new("file").expect("a path").into();
    match verb {
        Verb::ColdBoot => {
            let source = fake.source("cold", "");
            match source.cold_boot(&fake.host, source.plan(), &Identity::default(), None).await {
                Ok(vm) => {
                    vm.stop().await;
                    true
                }
                Err(_) => false,
            }
        }
        Verb::Build => fake.build(&fake.source("built", "[[warmup]]\nshell = \"true\"\n")).await.is_ok(),
        Verb::Create | Verb::CreateParked | Verb::CreatePrespawned => match place.create().await {
            Ok(made) => service.destroy(caller, made.id.as_str()).await.is_ok(),
            Err(_) => false,
        },
        Verb::Execute => {
            let spec = shell("echo one; sleep 10; flood 100000; echo two");
            service.execute(caller, id, spec, Bytes::from_static(b"in"), "").await.is_ok()
        }
        Verb::Live => {
            let started = service.execute_live(caller, id, &shell("cat"), Input::Live, None).await;
            let Ok(mut running) = started else { return false };
            if let Some(mut input) = running.take_stdin() {
                let _ = input.send(vec![b'x'; 200_000].into()).await;
                input.eof();
            }
            loop {
                match running.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        }
        Verb::Upload => {
            let content = vec![b'u'; 200_000];
            service.upload(caller, id, &path, UploadOptions::default(), &content[..]).await.is_ok()
        }
        Verb::Download => {
            let write = service.execute(caller, id, shell("write file content"), Bytes::new(), "").await;
            write.is_ok() && service.download(caller, id, &path, 0, &mut Vec::new()).await.is_ok()
        }
        Verb::Pause => service.pause(caller, id).await.is_ok(),
        Verb::Resume => service.resume(caller, id).await.is_ok(),
        Verb::Destroy => service.destroy(caller, id).await.is_ok(),
    }
}

/// A sandbox in which something was given up is in a state that is told, and works in it.
async fn usable(place: &Place, id: &str, case: &str) {
    let Place { service, caller, fake, .. } = place;
    // A transition that was asked for is made, whoever has gone; the next one waits for it.
    let resumed = service.resume(caller, id).await;
    let view = service.get(caller, id).await.expect("it is known");
    match view.state {
        SandboxState::Running => {
            resumed.unwrap_or_else(|error| panic!("{case}: {error}"));
            let machine =
                fake.engine.machines().into_iter().rfind(rekindle::engine::fake::FakeControl::is_alive);
            assert!(machine.is_some_and(|machine| !machine.is_paused()), "{case}: it runs as recorded");
            let ran = service.execute(caller, id, shell("echo ok"), Bytes::new(), "").await;
            assert_eq!(ran.unwrap_or_else(|error| panic!("{case}: {error}")).finished.stdout.text, "ok\n");
        }
        SandboxState::Paused => panic!("{case}: it can be resumed: {resumed:?}"),
        SandboxState::Ending | SandboxState::Ended => {
            assert!(view.end.is_some() || view.state == SandboxState::Ending, "{case}: it says why");
        }
    }
}

/// The files of the supervisor as they are now, as if it had died at this moment; the next one undoes them and leaves
/// those of the living alone. A record that was being written is torn; one that a power cut tore is found by a host that
/// was restarted, which `vm/workdir.rs` tests.
fn supervisor_dies(place: &Place, case: &str) {
    let run = place.fake.data().join("run");
    let dead = run.join("dead");
    fs::create_dir(&dead).expect("made");
    for machine in place.fake.remains().iter().filter(|path| path.starts_with(&run)) {
        copy(machine, &dead.join(machine.file_name().expect("a name")));
    }
    fs::write(dead.join("lock"), "").expect("written");
    let living = place.fake.remains().len() - dirs(&dead);
    let next = place.fake.another();
    assert_eq!((next.reclaimed().supervisors, next.reclaimed().stubborn), (1, 0), "{case}");
    assert!(!dead.exists(), "{case}: all of it is undone");
    drop(next);
    assert!(place.fake.remains().len() <= living, "{case}");
}

fn dirs(dir: &Path) -> usize {
    fs::read_dir(dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()).count()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        // The supervisor goes on meanwhile: what is gone again was there a moment ago.
        let Ok(content) = fs::read(entry.path()) else { continue };
        let unfinished = entry.file_name() == "record.new";
        let torn = if unfinished { content.len() / 2 } else { content.len() };
        fs::write(to.join(entry.file_name()), &content[..torn]).expect("written");
    }
}

#[test]
fn a_fault_at_any_await_is_a_typed_end_leaves_nothing_and_the_next_operation_works() {
    alone(async || {
        let mut bench = Bench::new().await;
        for verb in Verb::ALL {
            let mut polls = 0;
            while !bench.fault(verb, polls, None, polls % 4 == 1).await {
                polls += 1;
            }
            println!("{verb:?}: given up after each of {polls} polls");
            for operation in verb.operations() {
                // Longer than it would take: there is an await more to be given up at.
                let slow = || Some((*operation, Fault::Delay(Duration::from_secs(1))));
                let mut polls = 0;
                while !bench.fault(verb, polls, slow(), polls % 4 == 2).await {
                    polls += 1;
                }
                for fault in [Fault::Fail("ordered".into()), Fault::Die, Fault::Hang] {
                    let all = bench.fault(verb, u64::MAX, Some((*operation, fault)), false).await;
                    assert!(all, "{verb:?}, {operation:?}: it has an end");
                }
            }
        }
        let (wanted, mut random) = (times("REKINDLE_FAULTS", 0), Random::new(1));
        while bench.faults < wanted {
            let verb = random.pick(&Verb::ALL);
            let Some(order) = (!verb.operations().is_empty()).then(|| random.pick(verb.operations())) else {
                bench.fault(verb, random.below(20), None, random.one_in(4)).await;
                continue;
            };
            let fault = match random.below(4) {
                0 => Fault::Fail("ordered".into()),
                1 => Fault::Die,
                2 => Fault::Delay(Duration::from_millis(random.below(5_000))),
                _ => Fault::Hang,
            };
            let cut = random.one_in(4);
            bench.fault(verb, random.below(60), Some((order, fault)), cut).await;
        }
        let Bench { faults, given_up, failed, deaths, .. } = bench;
        println!("{faults} faults: {given_up} given up, {failed} failed, {deaths} supervisors died");
        assert!(faults > 100, "{faults}");
    });
}

/// The limit on open files as it was.
struct FewDescriptors(u64, u64);

impl FewDescriptors {
    /// Leaves so many numbers for descriptors.
    fn leave(spare: usize) -> Self {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        let free = (0..soft).filter(|number| !Path::new(&format!("/proc/self/fd/{number}")).exists());
        let first_denied = free.into_iter().nth(spare).expect("there is one");
        setrlimit(Resource::RLIMIT_NOFILE, first_denied, hard).expect("lowered");
        Self(soft, hard)
    }
}

impl Drop for FewDescriptors {
    fn drop(&mut self) {
        setrlimit(Resource::RLIMIT_NOFILE, self.0, self.1).expect("raised again");
    }
}

#[test]
fn a_start_without_descriptors_fails_typed_and_what_it_made_is_removed_when_there_are_some() {
    alone(async || {
        let place = Place::new(0, 0).await;
        let (mut failed, mut fine) = (0, 0);
        for spare in 0..16 {
            alive();
            let made = {
                let _few = FewDescriptors::leave(spare);
                let made = place.create().await;
                // What is undone in the background meets the same shortage, if it comes to it in this time.
                std::thread::sleep(Duration::from_millis(100));
                made
            };
            match made {
                Ok(made) => {
                    fine += 1;
                    place.service.destroy(&place.caller, made.id.as_str()).await.expect("destroyed");
                }
                Err(_) => failed += 1,
            }
            place.works().await;
            place.at_rest(0, 0).await;
            place.no_task_is_left().await;
        }
        println!("with 0 to 15 descriptors: {failed} starts failed, {fine} went well");
        assert!(failed > 0 && fine > 0, "{failed} failed, {fine} went well");
    });
}
