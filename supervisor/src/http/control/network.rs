//! What a sandbox may reach: everything its operator's policy for clients of this API allows, or nothing. Rules of a
//! client's own are not there.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::uri::Authority;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, MAX_BODY, empty, living};
use crate::http::body;
use crate::http::front::Front;
use crate::http::refusal::HttpRefusal;
use crate::service::Caller;

/// What stands for all addresses.
const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];
/// Longest name of a host.
const MAX_HOST: usize = 255;

/// What a client wants a sandbox to reach.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NetworkBody {
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    rules: Option<Value>,
    egress_proxy: Option<Value>,
    /// What programs that serve ports are told that they are called.
    pub mask_request_host: Option<String>,
    /// Whether anybody who knows the sandbox's name may connect to its ports. Clients take it for granted.
    pub allow_public_traffic: Option<bool>,
    #[serde(alias = "allow_internet_access")]
    pub allow_internet_access: Option<bool>,
}

impl NetworkBody {
    /// Whether there is a network at all.
    fn wants(&self) -> Result<bool, HttpRefusal> {
        let given = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| match value {
                Value::Null => false,
                Value::Object(map) => !map.is_empty(),
                _ => true,
            })
        };
        let rules = "rules of a sandbox's own for its network; its operator has policies for that";
        let denied = self.deny_out.as_deref().unwrap_or_default();
        let allowed = self.allow_out.as_deref().unwrap_or_default();
        if given(&self.rules) || given(&self.egress_proxy) || !allowed.is_empty() {
            return Err(HttpRefusal::not_offered(rules));
        }
        if !denied.is_empty() {
            return match denied.iter().any(|what| ALL.contains(&what.as_str())) {
                true => Ok(false),
                false => Err(HttpRefusal::not_offered(rules)),
            };
        }
        Ok(self.allow_internet_access.unwrap_or(true))
    }
}

impl NetworkBody {
    /// Whether anybody may connect to the ports of the sandbox.
    pub(super) fn public_ports(&self, front: &Front) -> Result<bool, HttpRefusal> {
        match self.allow_public_traffic {
            Some(true) if front.options.private_ports => {
                Err(HttpRefusal::bad_request("the operator of this server does not allow public ports"))
            }
            Some(wanted) => Ok(wanted),
            None => Ok(!front.options.private_ports),
        }
    }

    /// What programs that serve ports are told that they are called: a host, with a port or `${PORT}`.
    pub(super) fn host_mask(&self) -> Result<Option<String>, HttpRefusal> {
        let Some(mask) = self.mask_request_host.as_deref().filter(|mask| !mask.is_empty()) else {
            return Ok(None);
        };
        let host = mask.replace("${PORT}", "8080");
        let right = host.parse::<Authority>().is_ok_and(|host| !host.as_str().contains('@'));
        if mask.len() > MAX_HOST || !right {
            return Err(HttpRefusal::bad_request("maskRequestHost is no name of a host"));
        }
        Ok(Some(mask.to_owned()))
    }
}

/// The policy of a sandbox whose client asks for this. Clients ask for the internet without meaning to, so that a
/// token that does not allow it is no reason to refuse them.
pub(super) fn policy(front: &Front, caller: &Caller, wanted: &NetworkBody) -> Result<String, HttpRefusal> {
    let offered = front.options.network.as_ref().filter(|name| caller.networks.allow(name));
    Ok(if wanted.wants()? { offered.cloned().unwrap_or_default() } else { String::new() })
}

/// What a sandbox may ask of the gateway: what the operator offers, as far as the token allows it.
pub(super) fn gateway(front: &Front, caller: &Caller) -> Vec<String> {
    let allowed = |operation: &&String| {
        operation.split_once('/').is_some_and(|(service, _)| caller.gateway.allow(service))
    };
    front.options.gateway.iter().filter(allowed).cloned().collect()
}

pub(super) async fn answer(front: &Front, caller: &Caller, id: &str, body: Body) -> Answer {
    let wanted: NetworkBody = body::read(body, MAX_BODY).await?;
    let policy = policy(front, caller, &wanted)?;
    living(front, caller, id).await?;
    front.service.update_network(caller, id, &policy).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

#[cfg(test)]
mod tests {
    //! What can be expressed, and what cannot.

    use super::*;

    #[test]
    fn all_or_nothing_is_what_can_be_asked_for() {
        let wants = |text: &str| serde_json::from_str::<NetworkBody>(text).expect("a body").wants();
        for (text, wanted) in [
            ("{}", true),
            (r#"{"allowInternetAccess": false}"#, false),
            (r#"{"allow_internet_access": false}"#, false),
            (r#"{"denyOut": ["0.0.0.0/0"]}"#, false),
            (r#"{"denyOut": [], "allowOut": [], "rules": {}, "egressProxy": null}"#, true),
        ] {
            assert_eq!(wants(text).expect("it can be had"), wanted, "{text}");
        }
        for text in [
            r#"{"denyOut": ["8.8.8.8"]}"#,
            r#"{"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1"]}"#,
            r#"{"rules": {"example.org": []}}"#,
            r#"{"egressProxy": {"address": "proxy:1080"}}"#,
        ] {
            let refusal = wants(text).expect_err("it cannot be had");
            assert_eq!(refusal.status, StatusCode::NOT_IMPLEMENTED, "{text}");
        }
    }

    #[test]
    fn a_mask_is_a_host_and_nothing_that_ends_a_header() {
        let mask = |mask: &str| {
            let body = NetworkBody { mask_request_host: Some(mask.to_owned()), ..NetworkBody::default() };
            body.host_mask().map_err(|_| ())
        };
        for right in ["localhost", "localhost:${PORT}", "a.example.com:443"] {
            assert_eq!(mask(right), Ok(Some(right.to_owned())));
        }
        assert_eq!(mask(""), Ok(None));
        for wrong in ["a b", "a\r\nx: y", "user@host", "a/b", &"a".repeat(300)] {
            assert_eq!(mask(wrong), Err(()), "{wrong:?}");
        }
    }
}
