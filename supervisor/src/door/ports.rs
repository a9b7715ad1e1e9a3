//! Where ports of sandboxes are reached, as callers of the API are told. Which requests lead there, `http` decides.

use std::net::SocketAddr;

/// What stands for the number of a port in a URL.
const PORT: &str = "{port}";
/// The port of HTTPS, which a URL leaves out.
const HTTPS: u16 = 443;

/// The face that leads to ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortsAt {
    /// Where it listens.
    pub address: SocketAddr,
    /// It speaks TLS there.
    pub tls: bool,
    /// The domain whose names lead to sandboxes.
    pub domain: Option<String>,
}

/// How one caller reaches the ports of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxPorts {
    /// Where, with `{port}` for a port's number where that is part of the name; empty where nobody can tell.
    pub url: String,
    /// What opens them.
    pub token: String,
}

impl PortsAt {
    /// Where the ports of a sandbox are.
    pub(super) fn url(&self, sandbox: &str) -> String {
        let Self { address, tls, domain } = self;
        let scheme = if *tls { "https" } else { "http" };
        let Some(domain) = domain else {
            // All addresses are none that anybody can connect to.
            return match address.ip().is_unspecified() {
                true => String::new(),
                false => format!("{scheme}://{address}"),
            };
        };
        let name = format!("{PORT}-{sandbox}.{domain}");
        let here = domain == "localhost" || domain.ends_with(".localhost");
        match address.port() {
            HTTPS if *tls => format!("https://{name}"),
            port if *tls || here => format!("{scheme}://{name}:{port}"),
            // Without TLS it listens on loopback: who has a domain for that has a proxy before it.
            _ => format!("https://{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Where callers are sent.

    use super::*;

    fn url(address: &str, tls: bool, domain: Option<&str>) -> String {
        let address = address.parse().expect("an address");
        PortsAt { address, tls, domain: domain.map(str::to_owned) }.url("sb1")
    }

    #[test]
    fn a_domain_names_the_port_and_an_address_does_not() {
        assert_eq!(url("127.0.0.1:3000", false, None), "http://127.0.0.1:3000");
        assert_eq!(url("[::1]:3000", false, None), "http://[::1]:3000");
        assert_eq!(url("10.0.0.1:3000", true, None), "https://10.0.0.1:3000");
        assert_eq!(url("0.0.0.0:443", true, None), "");
        assert_eq!(url("[::]:443", true, None), "");
        assert_eq!(url("0.0.0.0:443", true, Some("box.test")), "https://{port}-sb1.box.test");
        assert_eq!(url("0.0.0.0:3000", true, Some("box.test")), "https://{port}-sb1.box.test:3000");
        assert_eq!(url("127.0.0.1:3000", false, Some("box.test")), "https://{port}-sb1.box.test");
        assert_eq!(url("127.0.0.1:3000", false, Some("localhost")), "http://{port}-sb1.localhost:3000");
    }
}
