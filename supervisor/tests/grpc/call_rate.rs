//! How often tenants may call, over the wire.

use rekindle::config::tokens::{Quota, Scope};
use rekindle::service::{CallRate, ServiceConfig};
use rekindle_api::v1::{self, ErrorReason};
use rekindle_api::{Code, Status};

use crate::place::{Place, Wishes, detail, refused, token};

/// Calls that one tenant makes in a loop.
const CALLS: usize = 300;

/// So few a second that none is let in again while a test runs.
fn few(config: &mut ServiceConfig) {
    config.call_rate = CallRate::new(1, 3);
}

#[tokio::test]
async fn a_tenant_that_calls_without_end_is_told_when_to_come_back_and_nobody_else_notices() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tokens.toml");
    let secret = |id: &str, tenant: &str| token(&file, id, tenant, &[Scope::Create], Quota::default());
    let (loud, second, quiet) = (secret("one", "loud"), secret("two", "loud"), secret("three", "quiet"));
    let place = Place::with(Wishes { tokens: Some(file.clone()), service: few, ..Wishes::default() }).await;
    let list = || v1::ListSandboxesRequest::default();
    let mut client = place.client_with(Some(&loud)).await;
    let mut told = Vec::new();
    for _ in 0..CALLS {
        told.extend(client.sandboxes.list(list()).await.err());
    }
    let limited = |status: &Status| detail(status).reason() == ErrorReason::RateLimited;
    assert!(told.iter().all(limited), "{told:?}");
    // The clock of this machine runs on while they are made: a few more than a burst may have been let in.
    assert!(told.len() > CALLS / 2, "only {} of {CALLS} were refused", told.len());
    // A slow machine may have let one in again: with as many at once as it takes, the next is refused.
    let mut client = place.client_with(Some(&second)).await;
    let mut refusal = Ok(());
    for _ in 0..CALLS {
        refusal = client.sandboxes.list(list()).await.map(drop);
        if refusal.is_err() {
            break;
        }
    }
    let refusal = refusal.map(tonic::Response::new);
    let detail = refused(refusal, Code::ResourceExhausted, ErrorReason::RateLimited);
    let after = detail.retry_after.expect("it says when");
    assert!(detail.retryable && (after.seconds, after.nanos) > (0, 0) && after.seconds <= 1, "{after:?}");

    let mut other = place.client_with(Some(&quiet)).await;
    other.sandboxes.list(list()).await.expect("another tenant is let in");
    let mut operator = place.client().await;
    for _ in 0..CALLS {
        operator.sandboxes.list(list()).await.expect("and who runs the host, always");
    }

    let text = place.service.metrics().encode();
    assert!(text.contains("rekindle_rejections_total{reason=\"rate_limited\"}"), "{text}");
    let lines = place.audit().into_iter().filter(|line| line["reason"] == "rate_limited").collect::<Vec<_>>();
    assert!(!lines.is_empty() && lines.len() < told.len(), "{} lines for {} calls", lines.len(), told.len());
    assert!(lines.iter().all(|line| line["tenant"] == "loud" && line["decision"] == "rejected"), "{lines:?}");
}
