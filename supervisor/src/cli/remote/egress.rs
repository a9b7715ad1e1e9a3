//! `rekindle egress`: shows what a sandbox connects to, and what was denied.

use rekindle_api::client::Client;
use rekindle_api::v1::connection::State;
use rekindle_api::v1::{Connection, ConnectionsRequest};

use super::{escape, print, quantity, refusal, resolve, view};
use crate::cli::args::EgressOptions;

/// Runs the command. Each is printed as it comes.
pub async fn egress(mut client: Client, options: EgressOptions) -> anyhow::Result<u8> {
    let sandbox = resolve::resolve(&mut client, &options.sandbox).await?;
    let request = ConnectionsRequest { sandbox, follow: options.follow };
    let mut told = client.network.connections(request).await.map_err(refusal::refused)?.into_inner();
    while let Some(connection) = told.message().await.map_err(refusal::refused)? {
        if options.json {
            print::line(&serde_json::to_string(&view::Connection::from(connection))?)?;
        } else {
            print::line(&line(&connection))?;
        }
    }
    Ok(0)
}

fn line(connection: &Connection) -> String {
    let execution = match connection.execution.as_str() {
        "" => "-",
        execution => execution,
    };
    let mut line = format!(
        "{}  {execution:<6}  {:<6}  {}:{}",
        quantity::moment(connection.started_at),
        view::connection_state(connection.state.as_ref()),
        connection.host,
        connection.port,
    );
    let about = match &connection.state {
        Some(State::Open(open)) => format!("rule {}", open.rule),
        Some(State::Closed(closed)) => {
            let (up, down) = (quantity::size(connection.bytes_up), quantity::size(connection.bytes_down));
            let cut = closed.denial.as_ref().map(|denial| format!("; {}", denial.message));
            format!("{up} up, {down} down, rule {}{}", closed.rule, cut.unwrap_or_default())
        }
        Some(State::Denied(denial)) => denial.message.clone(),
        Some(State::Failed(failed)) => failed.message.clone(),
        None => String::new(),
    };
    line.push_str("  ");
    line.push_str(&about);
    if !connection.step.is_empty() {
        line.push_str(&format!(", step {}", connection.step));
    }
    escape::text(&line)
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use rekindle_api::Timestamp;
    use rekindle_api::v1::{ConnectionClosed, NetworkDenial};

    use super::*;

    #[test]
    fn a_connection_is_one_line() {
        let denial = NetworkDenial {
            message: "network policy build does not allow evil\u{1b}:443".into(),
            ..NetworkDenial::default()
        };
        let denied = Connection {
            execution: "ex-3".into(),
            host: "evil\u{1b}".into(),
            port: 443,
            started_at: Some(Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            state: Some(State::Denied(denial)),
            ..Connection::default()
        };
        assert_eq!(
            line(&denied),
            "2023-11-14 22:13:20  ex-3    denied  evil\\u{1b}:443  network policy build does not allow evil\\u{1b}:443"
        );
        let closed = ConnectionClosed { rule: "tls pypi.org:443".into(), denial: None };
        let served = Connection {
            execution: String::new(),
            host: "pypi.org".into(),
            bytes_up: 512,
            bytes_down: 2048,
            step: "plan".into(),
            state: Some(State::Closed(closed)),
            ..denied
        };
        assert_eq!(
            line(&served),
            "2023-11-14 22:13:20  -       closed  pypi.org:443  512 B up, 2.0 KiB down, rule tls pypi.org:443, step plan"
        );
    }
}
