//! The answer to one request: in good order, or late, twice, in halves, without end, on another stream, or not at all.

use bytes::{BufMut, BytesMut};
use rekindle_protocol::checksum::Checksum;
use rekindle_protocol::frame;
use rekindle_protocol::mux::{Opener, Stream};
use rekindle_protocol::wire::upload_part::Part;
use rekindle_protocol::wire::{self, request::Op, response::Reply};
use rekindle_test_support::random::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::lies::{self, Uploaded};
use super::pace;

/// What answers have in common.
pub(super) struct Answering {
    /// For streams that the host has not asked for.
    pub(super) opener: Opener,
    /// What moves the session's bytes.
    pub(super) session: AbortHandle,
}

impl Answering {
    pub(super) async fn answer(&self, random: &mut Random, op: Op, stream: Stream, tricks: bool) {
        let (reader, writer) = tokio::io::split(stream);
        if tricks { self.trick(random, op, reader, writer).await } else { good(op, reader, writer).await }
    }

    async fn trick(
        &self,
        random: &mut Random,
        op: Op,
        reader: ReadHalf<Stream>,
        mut writer: WriteHalf<Stream>,
    ) {
        match random.below(20) {
            // Without a word: the request is read, the rest is not, for ever.
            0 => self.opener.closed().await,
            1 => drop((reader, writer)),
            2 => {
                let _ = writer.shutdown().await;
                rest(reader).await;
            }
            3 => {
                let noise = random.bytes(500);
                let _ = writer.write_all(&framed(&noise)).await;
                rest(reader).await;
            }
            4 => {
                let mut huge = BytesMut::new();
                huge.put_u32(random.pick(&[u32::MAX, 1 << 31, (1 << 20) + 1, 1 << 20]));
                huge.put_slice(&random.bytes(2_000));
                let _ = writer.write_all(&huge).await;
                rest(reader).await;
            }
            5 => self.half(random, &op, reader, writer).await,
            6 => {
                let whole = encoded(&lies::honest(&op, (0, 0)));
                for byte in whole {
                    if writer.write_all(&[byte]).await.is_err() || writer.flush().await.is_err() {
                        return;
                    }
                    sleep(pace(random)).await;
                }
                rest(reader).await;
            }
            7 => endless(random, &mut writer).await,
            8 => {
                let mut piece = BytesMut::zeroed(4 * 1024);
                while writer.write_all(&piece).await.is_ok() {
                    sleep(pace(random)).await;
                    piece.truncate(4);
                }
            }
            9 => {
                sleep(pace(random) * random.below(30) as u32).await;
                good(op, reader, writer).await;
            }
            // On a stream of its own, and never where it was asked for.
            10 => {
                if let Ok(mut other) = self.opener.open().await {
                    let _ = other.write_all(&encoded(&lies::honest(&op, (0, 0)))).await;
                    let _ = other.flush().await;
                }
                self.opener.closed().await;
            }
            11 => {
                let uploaded = if matches!(op, Op::Upload(_)) { upload(reader).await } else { Some((0, 0)) };
                let twice = lies::honest(&op, uploaded.unwrap_or_default());
                let _ = writer.write_all(&encoded(&twice)).await;
                let _ = writer.write_all(&encoded(&twice)).await;
                let _ = writer.flush().await;
                endless(random, &mut writer).await;
            }
            12 => {
                let _ = writer.write_all(&encoded(&lies::honest(&op, (0, 0)))).await;
                self.session.abort();
            }
            13 => many_streams(random, &self.opener).await,
            // A refusal, in words that were not meant to be read.
            14 | 15 => {
                let refusal = wire::Error { code: lies::small(random), message: lies::text(random) };
                let _ = writer.write_all(&encoded(&[Reply::Error(refusal)])).await;
                let _ = writer.shutdown().await;
                rest(reader).await;
            }
            _ => {
                let uploaded = match &op {
                    Op::Upload(_) if !random.one_in(3) => upload(reader).await.unwrap_or_default(),
                    _ => (0, 0),
                };
                let mut replies = lies::twist(random, lies::honest(&op, uploaded));
                if random.one_in(3) && !replies.is_empty() {
                    replies = lies::twist(random, replies);
                }
                let _ = writer.write_all(&encoded(&replies)).await;
                let _ = writer.flush().await;
                if random.one_in(2) {
                    let _ = writer.shutdown().await;
                }
                self.opener.closed().await;
            }
        }
    }

    /// Half an answer; then the end of the stream, of the session, or nothing.
    async fn half(
        &self,
        random: &mut Random,
        op: &Op,
        reader: ReadHalf<Stream>,
        mut writer: WriteHalf<Stream>,
    ) {
        let whole = encoded(&lies::honest(op, (0, 0)));
        let cut = random.below(whole.len() as u64) as usize;
        let _ = writer.write_all(&whole[..cut]).await;
        let _ = writer.flush().await;
        match random.below(4) {
            0 => drop((reader, writer)),
            1 => {
                let _ = writer.shutdown().await;
                rest(reader).await;
            }
            2 => self.session.abort(),
            _ => self.opener.closed().await,
        }
    }
}

/// Answers as an agent does.
async fn good(op: Op, reader: ReadHalf<Stream>, mut writer: WriteHalf<Stream>) {
    let (reader, uploaded) = match op {
        Op::Upload(_) => match upload(reader).await {
            Some(uploaded) => (None, uploaded),
            None => return,
        },
        _ => (Some(reader), (0, 0)),
    };
    let said = writer.write_all(&encoded(&lies::honest(&op, uploaded))).await;
    if said.is_ok()
        && writer.shutdown().await.is_ok()
        && let Some(reader) = reader
    {
        rest(reader).await;
    }
}

/// One reply, of any kind, without end.
async fn endless(random: &mut Random, writer: &mut WriteHalf<Stream>) {
    let piece = encoded(&[lies::any_reply(random)]);
    let pace = pace(random);
    while writer.write_all(&piece).await.is_ok() && writer.flush().await.is_ok() {
        sleep(pace).await;
    }
}

/// Opens streams until there are no more.
async fn many_streams(random: &mut Random, opener: &Opener) {
    let mut kept = Vec::new();
    while let Ok(mut stream) = opener.open().await {
        if stream.write_all(&random.bytes(10)).await.is_ok() && kept.len() < 200 {
            kept.push(stream);
        }
        if random.one_in(100) {
            sleep(pace(random)).await;
        }
    }
}

/// Takes in a file; nothing when it does not come to its end.
async fn upload(mut reader: ReadHalf<Stream>) -> Option<Uploaded> {
    let (mut size, mut sum) = (0, Checksum::default());
    loop {
        match frame::read::<wire::UploadPart>(&mut reader).await.ok()??.part? {
            Part::Chunk(chunk) => {
                size += chunk.data.len() as u64;
                sum.update(&chunk.data);
            }
            Part::End(_) => {
                // Held on: to let go of it would be to reset it.
                tokio::spawn(rest(reader));
                return Some((size, sum.finish()));
            }
        }
    }
}

/// Reads what else the host sends, until its end.
async fn rest(mut reader: ReadHalf<Stream>) {
    let mut buffer = [0; 4096];
    while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

fn encoded(replies: &[Reply]) -> Vec<u8> {
    let one =
        |reply: &Reply| frame::encode(&wire::Response { reply: Some(reply.clone()) }).unwrap_or_default();
    replies.iter().flat_map(one).collect()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}
