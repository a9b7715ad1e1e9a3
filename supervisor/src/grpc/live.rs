//! A live execution on the wire: what the caller sends goes to the program, what the program prints comes back.
//! The stream is the program's life: dropped by whoever reads it, it kills the program.

use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::v1::{self, execute_event::Event, execute_input::Input as Word};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, Streaming};

use super::call_record::CallRecord;
use super::{messages, requests, status};
use crate::agent::OutputStream;
use crate::service::{LiveEvent, LiveExecution, LiveInput, ServiceError, Steering};

/// What a caller may send after its first word.
pub(super) struct Inbox {
    pub words: Streaming<v1::ExecuteInput>,
    pub stdin: Option<LiveInput>,
    pub steering: Option<Steering>,
    /// It has a terminal.
    pub terminal: bool,
}

/// Reads what the caller sends until it sends no more. The program's input ends where the caller says so: a stream
/// that breaks off, cannot be decoded or ends before that is an error, which ends the execution.
async fn read(mut inbox: Inbox) -> Result<(), ServiceError> {
    let invalid = |what: &'static str| ServiceError::Invalid { what: what.into() };
    let unreadable = |status: Status| ServiceError::Invalid {
        what: format!("what was sent cannot be read: {}", status.message()).into(),
    };
    while let Some(message) = inbox.words.message().await.map_err(unreadable)? {
        match message.input {
            Some(Word::Start(_)) => return Err(invalid("an execution is started once")),
            Some(Word::Stdin(data)) => match &mut inbox.stdin {
                // A program that no longer reads is not the caller's fault.
                Some(stdin) => {
                    let _ = stdin.send(data).await;
                }
                None => return Err(invalid("live_stdin was not asked for, or the input has ended")),
            },
            Some(Word::StdinEnd(_)) => {
                if let Some(stdin) = inbox.stdin.take() {
                    stdin.eof();
                }
            }
            Some(Word::Signal(signal)) => steer(&inbox, |to| async move { to.signal(signal).await }).await?,
            Some(Word::Resize(_)) if !inbox.terminal => return Err(invalid("the program has no terminal")),
            Some(Word::Resize(size)) => {
                let size = requests::terminal(size)?;
                steer(&inbox, |to| async move { to.resize(size).await }).await?;
            }
            None => return Err(invalid("a message without a word in it")),
        }
    }
    match inbox.stdin {
        Some(_) => Err(invalid("the stream ended before `stdin_end` said that the input was all")),
        None => Ok(()),
    }
}

/// Steers the program; one that has just ended needs it no more.
async fn steer<F>(inbox: &Inbox, act: impl FnOnce(Steering) -> F) -> Result<(), ServiceError>
where
    F: Future<Output = Result<(), ServiceError>>,
{
    match &inbox.steering {
        Some(steering) => match act(steering.clone()).await {
            Err(error @ ServiceError::Invalid { .. }) => Err(error),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

struct Outbox {
    live: LiveExecution,
    reader: Option<AbortOnDropHandle<Result<(), ServiceError>>>,
    record: Option<CallRecord>,
    deadline: Option<(Instant, Duration)>,
    first: bool,
    over: bool,
}

/// Everything a live execution tells its caller.
pub(super) fn events(
    live: LiveExecution,
    inbox: Inbox,
    record: CallRecord,
) -> impl Stream<Item = Result<v1::ExecuteEvent, Status>> + Send + 'static {
    let reader = Some(AbortOnDropHandle::new(tokio::spawn(read(inbox))));
    let deadline = record.within().map(|within| (Instant::now() + within, within));
    let outbox = Outbox { live, reader, record: Some(record), deadline, first: true, over: false };
    unfold(outbox, |mut outbox| async move {
        let event = outbox.next().await?;
        Some((event, outbox))
    })
}

impl Outbox {
    async fn next(&mut self) -> Option<Result<v1::ExecuteEvent, Status>> {
        if self.over {
            return None;
        }
        if std::mem::take(&mut self.first) {
            let (live, spilled) = (&self.live, self.live.spilled());
            let started = messages::started(live.id(), live.pid(), spilled);
            return Some(Ok(v1::ExecuteEvent { event: Some(Event::Started(started)) }));
        }
        let event = loop {
            let deadline = self.deadline;
            let late = async {
                match deadline {
                    Some((at, after)) => {
                        sleep_until(at).await;
                        after
                    }
                    None => std::future::pending().await,
                }
            };
            let read = async {
                match &mut self.reader {
                    Some(reader) => reader.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.live.next() => break event,
                ended = read => {
                    self.reader = None;
                    if let Ok(Err(error)) = ended {
                        break Err(error);
                    }
                }
                after = late => break Err(ServiceError::Deadline { after }),
            }
        };
        match event {
            Ok(Some(LiveEvent::Output { stream, data })) => {
                let event = match stream {
                    OutputStream::Stdout => Event::Stdout(data),
                    OutputStream::Stderr => Event::Stderr(data),
                };
                Some(Ok(v1::ExecuteEvent { event: Some(event) }))
            }
            Ok(Some(LiveEvent::Finished(executed))) => {
                self.end(&Ok(()));
                let finished = Event::Finished(messages::executed(&executed));
                Some(Ok(v1::ExecuteEvent { event: Some(finished) }))
            }
            Ok(None) => {
                self.over = true;
                None
            }
            Err(error) => {
                let status = status::status(&error);
                self.end(&Err(error));
                Some(Err(status))
            }
        }
    }

    fn end(&mut self, result: &Result<(), ServiceError>) {
        self.over = true;
        self.reader = None;
        if let Some(mut record) = self.record.take() {
            record.settle(result);
        }
    }
}
