//! Questions as resolvers ask them, and as nobody should.

use super::*;

const STANDS: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 7);
const TYPE_AAAA: u16 = 28;
const TYPE_TXT: u16 = 16;

fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
    bytes
}

fn ask(bytes: &[u8]) -> Option<(Vec<u8>, Option<String>)> {
    let mut told = None;
    let reply = answer(bytes, |name| {
        told = Some(name.to_owned());
        STANDS
    });
    reply.map(|reply| (reply, told))
}

#[test]
fn a_name_is_answered_with_what_stands_for_it() {
    let asked = question("Files.PythonHosted.org", TYPE_A);
    let (reply, told) = ask(&asked).unwrap();
    assert_eq!(told.as_deref(), Some("files.pythonhosted.org"));
    assert_eq!(reply[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(reply[12..asked.len()], asked[12..], "the question is not repeated");
    assert_eq!(reply[asked.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 1, 7]);
}

#[test]
fn any_other_question_about_a_name_gets_nothing_and_takes_no_place() {
    for kind in [TYPE_AAAA, TYPE_TXT, 5, 12, 15, 33, 64, 65, 255] {
        let asked = question("pypi.org", kind);
        let (reply, told) = ask(&asked).unwrap();
        assert_eq!(told, None);
        assert_eq!(reply[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reply.len(), asked.len());
    }
}

#[test]
fn what_cannot_be_the_name_of_a_host_does_not_exist() {
    for name in ["localhost", "", "a b.example", "a\0.example", "b\u{fc}cher.example"] {
        let (reply, told) = ask(&question(name, TYPE_A)).unwrap();
        assert_eq!((told, reply[3] & 15), (None, NAME_ERROR as u8), "{name:?}");
    }
}

#[test]
fn what_is_no_question_gets_no_answer_and_is_never_read_past() {
    let whole = question("files.pythonhosted.org", TYPE_A);
    for length in 0..whole.len() {
        assert!(ask(&whole[..length]).is_none(), "{length} bytes");
    }
    let mut reply = whole.clone();
    reply[2] |= 0x80;
    assert!(ask(&reply).is_none(), "an answer was answered");
    let mut two = whole.clone();
    two[5] = 2;
    assert!(ask(&two).is_none());
    let mut pointer = whole.clone();
    pointer[12] = 0xc0;
    assert!(ask(&pointer).is_none());
    let long = question(&"abcdefgh.".repeat(40), TYPE_A);
    assert!(ask(&long).is_none());
    let mut notify = whole;
    notify[2] |= 4 << 3;
    assert_eq!(ask(&notify).unwrap().0[3] & 15, NOT_IMPLEMENTED as u8);
}
