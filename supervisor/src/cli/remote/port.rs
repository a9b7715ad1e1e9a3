//! `rekindle port`: how to reach what a program in a sandbox serves over HTTP.

use std::collections::BTreeMap;

use rekindle_api::client::Client;
use rekindle_api::v1::{GetSandboxRequest, Sandbox};
use serde::Serialize;

use super::{print, refusal, resolve};
use crate::cli::args::PortOptions;

/// What a request to the port needs.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Port {
    url: String,
    headers: BTreeMap<&'static str, String>,
}

/// Runs the command.
pub async fn port(mut client: Client, options: PortOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = GetSandboxRequest { sandbox };
    let sandbox = client.sandboxes.get(request).await.map_err(refusal::refused)?.into_inner();
    let port = reach(&sandbox, options.port.get())?;
    match options.json {
        true => print::json(&port)?,
        false => print::text(&text(&port))?,
    }
    Ok(0)
}

fn reach(sandbox: &Sandbox, port: u16) -> anyhow::Result<Port> {
    let Some(ports) = &sandbox.ports else {
        anyhow::bail!(
            "the server tells nobody how to reach this sandbox's ports\n\
             hint: the server needs [http] listen, the token its own tenant's sandbox and the scope exec"
        );
    };
    anyhow::ensure!(
        !ports.url.is_empty(),
        "the server listens on all addresses and has no name for ports\nhint: set [http] domain"
    );
    let headers = [
        ("E2b-Sandbox-Id", sandbox.id.clone()),
        ("E2b-Sandbox-Port", port.to_string()),
        ("E2b-Traffic-Access-Token", ports.token.clone()),
    ];
    Ok(Port { url: ports.url.replace("{port}", &port.to_string()), headers: headers.into() })
}

/// The URL, then a header in each line, as `curl -H @FILE` reads them.
fn text(port: &Port) -> String {
    let headers = port.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    format!("{}\n{}", port.url, headers.collect::<String>())
}

#[cfg(test)]
mod tests {
    //! What a person is told.

    use rekindle_api::v1::SandboxPorts;

    use super::*;

    fn sandbox(url: &str) -> Sandbox {
        let ports = SandboxPorts { url: url.into(), token: "ci.00".into() };
        Sandbox { id: "sb1".into(), ports: Some(ports), ..Sandbox::default() }
    }

    #[test]
    fn a_port_is_told_with_all_that_a_request_needs() {
        let headers = "E2b-Sandbox-Id: sb1\nE2b-Sandbox-Port: 8000\nE2b-Traffic-Access-Token: ci.00\n";
        for (url, told) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
            ("https://{port}-sb1.box.test", "https://8000-sb1.box.test"),
        ] {
            let port = reach(&sandbox(url), 8000).expect("a port");
            assert_eq!(text(&port), format!("{told}\n{headers}"));
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = reach(&Sandbox::default(), 8000).expect_err("nobody serves ports").to_string();
        assert!(none.contains("hint: the server needs [http] listen"), "{none}");
        let all = reach(&sandbox(""), 8000).expect_err("no address").to_string();
        assert!(all.contains("hint: set [http] domain"), "{all}");
    }
}
