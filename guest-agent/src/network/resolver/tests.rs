//! Questions over a connection: one after the other, in pieces, and what is none.

use tokio::io::DuplexStream;
use tokio::task::JoinHandle;

use super::*;

fn question(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    let mut asked = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    asked.extend(labels);
    asked.extend([0, 0, 1, 0, 1]);
    [&u16::try_from(asked.len()).expect("short").to_be_bytes()[..], &asked].concat()
}

/// A connection that is answered.
fn conversation() -> (DuplexStream, JoinHandle<io::Result<()>>) {
    let (program, agent) = tokio::io::duplex(64);
    let network = Network::default();
    (program, tokio::spawn(async move { converse(&network, agent).await }))
}

async fn answer(program: &mut DuplexStream) -> Vec<u8> {
    let length = program.read_u16().await.expect("a length");
    let mut answer = vec![0; length.into()];
    program.read_exact(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn several_questions_are_answered_on_one_connection_however_they_arrive() {
    let (mut program, conversation) = conversation();
    // Byte for byte, two in one piece, and again.
    for byte in question("a.example.com") {
        program.write_all(&[byte]).await.expect("said");
    }
    let first = answer(&mut program).await;
    assert_eq!((&first[..2], &first[first.len() - 4..]), (&[0, 7][..], &[198, 18, 1, 0][..]));
    program.write_all(&[question("b.example.com"), question("A.example.com")].concat()).await.expect("said");
    assert_eq!(answer(&mut program).await[first.len() - 4..], [198, 18, 1, 1]);
    assert_eq!(answer(&mut program).await[first.len() - 4..], [198, 18, 1, 0]);
    program.shutdown().await.expect("said all");
    conversation.await.expect("no panic").expect("it has asked all");
    assert_eq!(program.read(&mut [0]).await.expect("the end"), 0);
}

#[tokio::test]
async fn what_is_no_question_ends_the_connection() {
    let whole = question("a.example.com");
    let long = [&[0xff, 0xff][..], &[0; MAX_QUESTION]].concat();
    let beyond = [&(MAX_QUESTION as u16 + 1).to_be_bytes()[..], &[0; 16]].concat();
    for said in
        [&long[..], &beyond, &[0, 0], &[0, 3, 1, 2, 3], &whole[..1], &whole[..9], b"GET / HTTP/1.1\r\n"]
    {
        let (mut program, conversation) = conversation();
        // It may be over before all is said.
        let _ = program.write_all(said).await;
        let _ = program.shutdown().await;
        assert!(conversation.await.expect("no panic").is_err(), "{said:?}");
        assert_eq!(program.read(&mut [0]).await.expect("the end"), 0, "{said:?} was answered");
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_half_of_a_question_or_takes_no_answer_is_not_waited_for_long() {
    for said in [&[][..], &question("a.example.com")[..9]] {
        let (mut program, conversation) = conversation();
        program.write_all(said).await.expect("said");
        late(conversation).await;
    }
    // More answers than there is room for, to one who does not read.
    let (mut program, conversation) = conversation();
    let asking = async { while program.write_all(&question("a.example.com")).await.is_ok() {} };
    tokio::join!(asking, late(conversation));
}

/// It ends because it is late, and by its own clock not much later than it may.
async fn late(conversation: JoinHandle<io::Result<()>>) {
    let ended = timeout(2 * IDLE, conversation).await.expect("in time").expect("no panic");
    assert_eq!(ended.expect_err("it is late").kind(), io::ErrorKind::TimedOut);
}
