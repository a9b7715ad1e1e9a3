//! A name server for the names of a test's sandboxes: every name below its domain leads to one address, and there are no
//! others. SDKs that resolve names themselves ask it, as every other program does.

use std::net::{Ipv4Addr, UdpSocket};
use std::thread;

use anyhow::{Context, Result};

/// The header of a message, which a question follows.
const HEADER: usize = 12;
/// A response that is authoritative.
const RESPONSE: [u8; 2] = [0x84, 0x00];
/// The same, to say that there is no such name.
const UNKNOWN: [u8; 2] = [0x84, 0x03];
/// The kind of question that is about an address of four bytes.
const ADDRESS: [u8; 2] = [0, 1];

/// Serves on the port of name servers, until this program ends.
pub fn serve(address: Ipv4Addr, domain: &str) -> Result<()> {
    let socket = UdpSocket::bind((address, 53)).with_context(|| format!("no name server on {address}"))?;
    let domain = domain.to_owned();
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            if let Some(answer) = answer(&query[..length], &domain, address) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    Ok(())
}

/// The answer to a query; none to what is no query of one name.
fn answer(query: &[u8], domain: &str, address: Ipv4Addr) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let (kind, question) = (query.get(at..at + 2)?, query.get(HEADER..at + 4)?);
    let known = labels.join(".").ends_with(&format!(".{domain}"));
    let told = known && kind == ADDRESS;
    let mut answer = query.get(..2)?.to_vec();
    answer.extend(if known { RESPONSE } else { UNKNOWN });
    // One question, and an answer where there is one.
    answer.extend([0, 1, 0, u8::from(told), 0, 0, 0, 0]);
    answer.extend(question);
    if told {
        // The name of the question, an address of the internet, for a minute, four bytes.
        answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

    fn query(name: &str, kind: u8) -> Vec<u8> {
        let mut query = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).expect("short"));
            query.extend(label.bytes());
        }
        query.extend([0, 0, kind, 0, 1]);
        query
    }

    #[test]
    fn names_of_the_domain_lead_here_and_no_others() {
        let told = answer(&query("API.box.test", 1), "box.test", HERE).expect("an answer");
        assert_eq!((&told[..4], &told[told.len() - 4..]), (&[7, 8, 0x84, 0][..], &[127, 0, 0, 9][..]));
        let longer = answer(&query("api.box.test", 28), "box.test", HERE).expect("an answer");
        assert_eq!((longer[3], longer[7]), (0, 0), "a name without such an address");
        for other in ["box.test", "evilbox.test", "example.org"] {
            assert_eq!(answer(&query(other, 1), "box.test", HERE).expect("an answer")[3], 3, "{other}");
        }
    }

    #[test]
    fn what_is_no_query_gets_no_answer() {
        for wrong in [&[][..], &[0; 12], &query("a.box.test", 1)[..20], &[255; 40]] {
            assert_eq!(answer(wrong, "box.test", HERE), None, "{wrong:?}");
        }
    }
}
