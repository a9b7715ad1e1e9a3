//! What someone attached to a program is told. Ending it leaves the program as it is.

use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use tokio::time::{Instant, sleep, sleep_until};

use super::messages::{Data, Event, EventMessage};
use super::status;
use crate::agent::OutputStream;
use crate::door::CallRecord;
use crate::http::connect::{Code, ConnectError, Stop};
use crate::http::envd::trouble::{Trouble, is_gone};
use crate::service::{AttachEvent, Attachment, ServiceError};

struct Outbox {
    attached: Attachment,
    record: CallRecord,
    keepalive: Duration,
    deadline: Option<(Instant, Duration)>,
    first: bool,
    over: bool,
}

/// The events of a program: its start, what it prints, and its end. `within` bounds the stream, not the program.
pub(super) fn events(
    attached: Attachment,
    record: CallRecord,
    keepalive: Duration,
    within: Option<Duration>,
) -> impl Stream<Item = Result<EventMessage, Stop>> + Send + 'static {
    let deadline = within.and_then(|within| Some((Instant::now().checked_add(within)?, within)));
    let outbox = Outbox { attached, record, keepalive, deadline, first: true, over: false };
    unfold(outbox, |mut outbox| async move {
        let event = outbox.next().await?;
        Some((event.map(|event| EventMessage { event }), outbox))
    })
}

impl Outbox {
    async fn next(&mut self) -> Option<Result<Event, Stop>> {
        if self.over {
            return None;
        }
        if std::mem::take(&mut self.first) {
            return Some(Ok(Event::Start { pid: self.attached.pid() }));
        }
        let late = async {
            match self.deadline {
                Some((at, after)) => {
                    sleep_until(at).await;
                    after
                }
                None => std::future::pending().await,
            }
        };
        let terminal = self.attached.has_terminal();
        let event = tokio::select! {
            event = self.attached.next() => event,
            () = sleep(self.keepalive) => return Some(Ok(Event::Keepalive {})),
            after = late => Err(ServiceError::Deadline { after }),
        };
        match event {
            Ok(Some(AttachEvent::Output { data, .. })) if terminal => Some(Ok(Event::Data(Data::Pty(data)))),
            Ok(Some(AttachEvent::Output { stream: OutputStream::Stdout, data })) => {
                Some(Ok(Event::Data(Data::Stdout(data))))
            }
            Ok(Some(AttachEvent::Output { stream: OutputStream::Stderr, data })) => {
                Some(Ok(Event::Data(Data::Stderr(data))))
            }
            // A reader that is told less than all would not know it.
            Ok(Some(AttachEvent::Missed { stdout, stderr })) => {
                let missed = stdout.saturating_add(stderr);
                let message = format!("{missed} bytes of output were not read in time and are gone");
                self.stop(ConnectError::new(Code::Aborted, message).into())
            }
            Ok(Some(AttachEvent::Finished(executed))) => match status::end(executed.finished.outcome) {
                Ok(end) => {
                    self.over = true;
                    self.record.settle(&Ok(()), "ok");
                    Some(Ok(Event::End(end)))
                }
                Err(error) => self.stop(error.into()),
            },
            Ok(None) => None,
            Err(error) => self.stop(error.into()),
        }
    }

    fn stop(&mut self, trouble: Trouble) -> Option<Result<Event, Stop>> {
        self.over = true;
        let stop = match &trouble {
            Trouble::Service(error) if is_gone(error.kind()) => Stop::Cut,
            trouble => Stop::Error(trouble.connect()),
        };
        trouble.settle(&mut self.record);
        Some(Err(stop))
    }
}
