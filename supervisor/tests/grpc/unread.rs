//! Pauses beside calls that end: live output that nobody reads, calls that were given up.

use bytes::Bytes;
use rekindle::service::{Caller, Input, LiveEvent, LiveExecution, SandboxState, ServiceError};
use rekindle_test_support::wait::{PATIENCE, in_time, until};

use crate::place::{Place, spec};

/// More than anything between a guest and a caller that does not read can hold.
const FLOOD: &str = "flood 20000000";

async fn started(place: &Place, sandbox: &str, line: &str) -> LiveExecution {
    let spec = spec(line, 10 * PATIENCE);
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
async fn a_pause_waits_for_the_end_of_a_call_that_is_given_up() {
    let place = Place::new().await;
    let (service, caller) = (&place.service, Caller::local());
    let (id, guest) = place.sandbox(&mut place.client().await).await;
    let mut running =
        Box::pin(service.execute(&caller, &id, spec("sleep 600000", 10 * PATIENCE), Bytes::new(), ""));
    tokio::select! {
        ended = &mut running => panic!("{ended:?}"),
        () = until("it runs", || guest.running() == 1) => {}
    }
    let mut pause = std::pin::pin!(service.pause(&caller, &id));
    // The keeper has been asked, and has looked, while the call is under way.
    assert!(futures::poll!(pause.as_mut()).is_pending());
    tokio::task::yield_now().await;
    drop(running);
    let paused = in_time("a pause", pause).await.expect("nobody waits for the call any more");
    assert_eq!(paused.state, SandboxState::Paused);
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
