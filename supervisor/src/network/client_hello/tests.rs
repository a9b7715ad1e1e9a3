//! Handshakes as clients send them, and as nobody should.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// What a real client opens with.
fn real(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

fn long(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap().to_be_bytes()
}

fn prefixed(body: &[u8]) -> Vec<u8> {
    [&long(body.len())[..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &prefixed(body)].concat()
}

fn entry(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind][..], &prefixed(name)].concat()
}

fn sni(name: &str) -> Vec<u8> {
    extension(SERVER_NAME, &prefixed(&entry(HOST_NAME, name.as_bytes())))
}

/// A handshake message with these extensions, the ones every client has added.
fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
    let usual = [
        extension(0x000a, &prefixed(&[0, 0x1d])),
        extension(0x000d, &prefixed(&[4, 3, 8, 4])),
        extension(0x002b, &[2, 3, 4]),
    ];
    let list = [usual.concat(), extensions.concat()].concat();
    let body =
        [&[3, 3][..], &[7; 32], &[0], &prefixed(&[0x13, 1, 0x13, 2]), &[1, 0], &prefixed(&list)].concat();
    let [high, low] = long(body.len());
    [&[CLIENT_HELLO, 0, high, low][..], &body].concat()
}

/// The message in records of at most so many bytes.
fn records(message: &[u8], each: usize) -> Vec<u8> {
    message.chunks(each).flat_map(|piece| [&[HANDSHAKE, 3, 1][..], &prefixed(piece)].concat()).collect()
}

fn read(bytes: &[u8]) -> Result<Option<ClientHello>, HelloError> {
    ClientHelloReader::default().push(bytes)
}

fn named(extensions: &[Vec<u8>]) -> Result<Option<ClientHello>, HelloError> {
    read(&records(&message(extensions), 4096))
}

fn hello(name: &str) -> ClientHello {
    ClientHello { server_name: HostName::parse(name).unwrap() }
}

#[test]
fn a_real_clients_server_is_read_and_its_bytes_are_kept() {
    let bytes = real("files.pythonhosted.org");
    let mut reader = ClientHelloReader::default();
    assert_eq!(reader.push(&bytes), Ok(Some(hello("files.pythonhosted.org"))));
    assert_eq!(reader.into_bytes(), bytes);
}

#[test]
fn a_hello_in_pieces_of_one_byte_and_in_many_records_is_read_all_the_same() {
    let whole = message(&[sni("pypi.org")]);
    for bytes in
        [real("pypi.org"), records(&whole, 4096), records(&whole, 50), records(&whole, 3), records(&whole, 1)]
    {
        let mut reader = ClientHelloReader::default();
        let (last, first) = bytes.split_last().unwrap();
        for byte in first {
            assert_eq!(reader.push(&[*byte]), Ok(None));
        }
        assert_eq!(reader.push(&[*last]), Ok(Some(hello("pypi.org"))));
        assert_eq!(reader.bytes(), bytes);
    }
}

#[test]
fn bytes_after_the_hello_are_kept_too() {
    let bytes = [records(&message(&[sni("pypi.org")]), 4096), b"\x17\x03\x03\x00\x01x".to_vec()].concat();
    let mut reader = ClientHelloReader::default();
    assert_eq!(reader.push(&bytes), Ok(Some(hello("pypi.org"))));
    assert_eq!(reader.into_bytes(), bytes);
}

#[test]
fn a_name_in_capitals_or_with_a_final_dot_is_the_same_name() {
    assert_eq!(named(&[sni("PyPI.org")]), Ok(Some(hello("pypi.org"))));
    // RFC 6066 has no final dot. A server may take it for the same name, so it is held to the same rule.
    assert!(matches!(named(&[sni("pypi.org.")]), Ok(Some(_)) | Err(HelloError::NoServerName)));
}

#[test]
fn without_a_server_name_there_is_none_to_be_held_to() {
    assert_eq!(named(&[]), Err(HelloError::NoServerName));
    assert_eq!(read(&real("192.0.2.1")), Err(HelloError::NoServerName));
    for name in ["127.0.0.1", "0x7f.1", "localhost", "", "a b.example", "pypi.org\0.evil.example"] {
        assert_eq!(named(&[sni(name)]), Err(HelloError::NoServerName), "{name:?}");
    }
}

#[test]
fn two_server_names_are_refused_wherever_the_second_is() {
    let pypi = entry(HOST_NAME, b"pypi.org");
    let evil = entry(HOST_NAME, b"evil.example");
    let other = entry(7, b"evil.example");
    for list in [
        [&pypi[..], &evil].concat(),
        [&evil[..], &pypi].concat(),
        [&pypi[..], &pypi].concat(),
        [&pypi[..], &other].concat(),
        [&other[..], &pypi].concat(),
    ] {
        assert_eq!(named(&[extension(SERVER_NAME, &prefixed(&list))]), Err(HelloError::NoServerName));
    }
    assert_eq!(named(&[sni("pypi.org"), sni("evil.example")]), Err(HelloError::NoServerName));
    assert_eq!(named(&[sni("evil.example"), sni("pypi.org")]), Err(HelloError::NoServerName));
    let behind = [prefixed(&pypi), evil].concat();
    assert!(named(&[extension(SERVER_NAME, &behind)]).is_err());
}

#[test]
fn a_hello_that_may_mean_another_server_is_refused() {
    for kind in ENCRYPTED {
        assert_eq!(named(&[sni("pypi.org"), extension(kind, &[1, 2, 3])]), Err(HelloError::Encrypted));
        assert_eq!(named(&[extension(kind, &[0; 40]), sni("pypi.org")]), Err(HelloError::Encrypted));
    }
}

#[test]
fn what_is_not_tls_is_refused_at_its_first_byte() {
    for bytes in
        [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x\r\n", b"\x80\x2e\x01\x03\x01", b"\x15\x03\x03", b"\0"]
    {
        assert_eq!(read(&bytes[..1]), Err(HelloError::NotTls));
        assert_eq!(read(bytes), Err(HelloError::NotTls));
    }
    // A handshake message of another kind.
    let mut wrong = message(&[sni("pypi.org")]);
    wrong[0] = 2;
    assert_eq!(read(&records(&wrong, 4096)), Err(HelloError::NotTls));
}

#[test]
fn lengths_that_lie_are_refused_or_waited_for_and_never_read_past() {
    let bytes = records(&message(&[sni("pypi.org")]), 4096);
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            // Whatever it says now, it is not taken for another server than it names.
            if let Ok(Some(hello)) = read(&changed) {
                let name = hello.server_name.as_str().as_bytes();
                assert!(changed.to_ascii_lowercase().windows(name.len()).any(|window| window == name));
            }
        }
    }
}

#[test]
fn a_hello_without_end_is_given_up() {
    let mut reader = ClientHelloReader::default();
    let endless = records(&[&[CLIENT_HELLO, 0, 0xff, 0xff][..], &[0; 60_000]].concat(), 1000);
    let mut given_up = None;
    for piece in endless.chunks(100) {
        if let Err(error) = reader.push(piece) {
            given_up = Some(error);
            break;
        }
    }
    assert_eq!(given_up, Some(HelloError::TooLarge));
    assert!(reader.bytes().len() <= MAX_BYTES);
}
