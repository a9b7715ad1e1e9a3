//! Live output that nobody reads, after its program has ended.

use rekindle::service::{Caller, ExecuteSpec, Input, LiveEvent, LiveExecution, SandboxState, ServiceError};
use rekindle_test_support::wait::{PATIENCE, in_time, until};

use crate::place::Place;

/// More than anything between a guest and a caller that does not read can hold.
const FLOOD: &str = "flood 20000000";

async fn started(place: &Place, sandbox: &str, line: &str) -> LiveExecution {
    let spec = ExecuteSpec {
        program: rekindle::agent::Program::Shell(line.into()),
        user: rekindle::agent::GuestUser::User,
        plain_interpreter: false,
        env: Default::default(),
        cwd: String::new(),
        timeout: Some(10 * PATIENCE),
        memory_bytes: 0,
        output_limit: None,
        clock: rekindle::agent::ExecutionClock::default(),
    };
    let live = place.service.execute_live(&Caller::local(), sandbox, &spec, Input::None, None).await;
    live.expect("started")
}

#[tokio::test]
async fn an_unread_stream_holds_up_a_pause_only_while_its_program_runs() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let (id, guest) = place.sandbox(&mut place.client().await).await;
    let mut live = started(&place, &id, FLOOD).await;
    let refused = service.pause(&caller, &id).await.expect_err("its program runs");
    assert!(matches!(refused, ServiceError::UnderWay { calls: 1 }), "{refused:?}");

    live.steering().expect("it runs").signal(9).await.expect("killed");
    until("the program has ended", || guest.running() == 0).await;
    // Another call is under way, and ended programs do not change that.
    let running = started(&place, &id, FLOOD).await;
    let refused = service.pause(&caller, &id).await.expect_err("the other program runs");
    assert!(matches!(refused, ServiceError::UnderWay { calls: 2 }), "{refused:?}");
    drop(running);
    until("the other program has ended", || guest.running() == 0).await;

    let paused = in_time("a pause", service.pause(&caller, &id)).await.expect("nothing runs");
    assert_eq!(paused.state, SandboxState::Paused);
    let cut = in_time("an answer", live.next()).await.expect_err("it was cut off");
    assert!(matches!(cut, ServiceError::Paused), "{cut:?}");
    assert!(matches!(live.next().await, Ok(None)), "nothing follows an error");
    let resumed = in_time("a resume", service.resume(&caller, &id)).await.expect("resumed");
    assert_eq!(resumed.state, SandboxState::Running);
}

#[tokio::test]
async fn who_reads_what_an_ended_program_left_gets_all_of_it_and_then_there_is_a_pause() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let (id, guest) = place.sandbox(&mut place.client().await).await;
    let mut live = started(&place, &id, "flood 200000").await;
    until("the program has ended", || guest.running() == 0).await;
    let read = async {
        let mut printed = 0;
        loop {
            match live.next().await.expect("it is read in time") {
                Some(LiveEvent::Output { data, .. }) => printed += data.len(),
                Some(LiveEvent::Finished(_)) => return printed,
                None => panic!("the result is missing"),
            }
        }
    };
    let (paused, printed) = in_time("both", async { tokio::join!(service.pause(&caller, &id), read) }).await;
    assert_eq!(paused.expect("nothing runs").state, SandboxState::Paused);
    assert_eq!(printed, 200_000);
}
