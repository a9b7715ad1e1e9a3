//! Which network a sandbox gets.

use rekindle::network::{Egress, PolicySpec};
use rekindle::service::ServiceConfig;
use rekindle_api::v1::{self, ErrorReason};

use crate::place::{Place, Wishes, detail};

fn one_policy(config: &mut ServiceConfig) {
    let spec: PolicySpec = toml::from_str("mode = \"allow\"\npresets = [\"pypi\"]").expect("a policy");
    let policies = [("build".to_owned(), spec)].into();
    config.network = Egress::new(&policies, &std::collections::BTreeMap::new()).expect("a network");
}

#[tokio::test]
async fn a_sandbox_has_the_network_policy_that_its_caller_names_and_none_otherwise() {
    let place = Place::with(Wishes { service: one_policy, ..Wishes::default() }).await;
    let mut client = place.client().await;
    for (asked, shown) in [("build", "build"), ("", "none"), ("none", "none")] {
        let request = v1::CreateSandboxRequest { network: asked.into(), ..Default::default() };
        let created = client.sandboxes.create(request).await.expect("created").into_inner();
        assert_eq!(created.network, shown);
        let got = client.sandboxes.get(v1::GetSandboxRequest { sandbox: created.id }).await;
        assert_eq!(got.expect("found").into_inner().network, shown);
    }
    let machines = place.guests.all().len();
    let request = v1::CreateSandboxRequest { network: "other".into(), ..Default::default() };
    let status = client.sandboxes.create(request).await.expect_err("there is no such policy");
    assert_eq!(detail(&status).reason(), ErrorReason::InvalidRequest);
    assert_eq!(place.guests.all().len(), machines, "a machine was started for it");
}
