//! The network of the server in this process: two connections, and policies that are remembered.

use futures::stream;
use rekindle_api::v1::connection::State;
use rekindle_api::v1::network_server::Network;
use rekindle_api::v1::*;
use rekindle_api::{Code, Request};
use tonic::Response;

use super::run;
use super::server::{Answer, Answers, Fake, Server, refuse};

#[tonic::async_trait]
impl Network for Fake {
    async fn update(&self, request: Request<UpdateNetworkRequest>) -> Answer<Sandbox> {
        let request = request.into_inner();
        if request.network == "secret" {
            return refuse(Code::PermissionDenied, ErrorReason::NetworkForbidden, "not for this token");
        }
        let answer =
            Sandbox { id: request.sandbox.clone(), network: request.network.clone(), ..Sandbox::default() };
        self.0.lock().expect("state").networks.push(request);
        Ok(Response::new(answer))
    }

    type ConnectionsStream = Answers<Connection>;

    async fn connections(&self, request: Request<ConnectionsRequest>) -> Answer<Self::ConnectionsStream> {
        self.0.lock().expect("state").looked.push(request.into_inner());
        let states = [State::Open(ConnectionOpen::default()), State::Denied(NetworkDenial::default())];
        let told = states.map(|state| Ok(Connection { state: Some(state), ..Connection::default() }));
        Ok(Response::new(Box::pin(stream::iter(told))))
    }
}

#[tokio::test]
async fn a_policy_is_changed_by_its_name_and_a_refusal_is_told() {
    let server = Server::start();
    assert_eq!(run(&server, &["network", "aa", "none"]).await.expect("changed"), 0);
    let wanted = UpdateNetworkRequest { sandbox: "aa11".into(), network: "none".into() };
    assert_eq!(server.state.lock().expect("state").networks, [wanted]);
    let error = run(&server, &["network", "aa", "secret"]).await.expect_err("refused");
    assert!(error.to_string().starts_with("not for this token"), "{error}");
}

#[tokio::test]
async fn connections_are_shown_to_the_end_and_followed_when_asked() {
    let server = Server::start();
    assert_eq!(run(&server, &["egress", "aa"]).await.expect("shown"), 0);
    assert_eq!(run(&server, &["egress", "aa", "--follow", "--json"]).await.expect("shown"), 0);
    let looked = |follow| ConnectionsRequest { sandbox: "aa11".into(), follow };
    assert_eq!(server.state.lock().expect("state").looked, [looked(false), looked(true)]);
}
