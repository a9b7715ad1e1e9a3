//! What the monitor answers to a request for a port.

use super::*;

async fn answered(mut answer: &[u8]) -> io::Result<()> {
    accepted(&mut answer).await
}

#[tokio::test]
async fn a_guest_that_accepts_is_told_from_one_that_does_not_and_from_nonsense() {
    answered(b"OK 1073741824\n").await.expect("accepted");
    let odd: [(&[u8], io::ErrorKind); 6] = [
        (b"", io::ErrorKind::ConnectionRefused),
        (b"OK 10737", io::ErrorKind::ConnectionRefused),
        (b"KO 1\n", io::ErrorKind::InvalidData),
        (b"OK 1\n\n", io::ErrorKind::InvalidData),
        (b"\n", io::ErrorKind::InvalidData),
        (&[b'9'; 2 * MAX_ANSWER], io::ErrorKind::InvalidData),
    ];
    for (answer, kind) in odd {
        assert_eq!(answered(answer).await.expect_err("not accepted").kind(), kind, "{answer:?}");
    }
}
