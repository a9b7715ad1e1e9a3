//! The service `Network`: the policy of a sandbox, and its connections.

use std::pin::Pin;

use futures::Stream;
use futures::stream::unfold;
use rekindle_api::time::{duration, timestamp};
use rekindle_api::v1::{self, connection::State, network_server::Network};
use tonic::{Request, Response, Status};

use super::call_record::CallRecord;
use super::messages;
use crate::network::{ConnectionState, ConnectionView, Denial, NetworkSummary};
use crate::service::{Service, connection_execution};

/// The service.
#[derive(Clone)]
pub(super) struct NetworkApi {
    pub service: Service,
}

#[tonic::async_trait]
impl Network for NetworkApi {
    type ConnectionsStream = Pin<Box<dyn Stream<Item = Result<v1::Connection, Status>> + Send>>;

    async fn update(
        &self,
        request: Request<v1::UpdateNetworkRequest>,
    ) -> Result<Response<v1::Sandbox>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::UpdateNetworkRequest { sandbox, network } = request.into_inner();
        record.about(&sandbox);
        let updated = self.service.update_network(&caller, &sandbox, &network).await;
        record.close(updated.map(|view| Response::new(messages::sandbox(view))))
    }

    async fn connections(
        &self,
        request: Request<v1::ConnectionsRequest>,
    ) -> Result<Response<Self::ConnectionsStream>, Status> {
        let (mut record, caller) = CallRecord::of(&request)?;
        let v1::ConnectionsRequest { sandbox, follow } = request.into_inner();
        record.about(&sandbox);
        let connections = record.close(self.service.connections(&caller, &sandbox, follow))?;
        let told = unfold(connections, |mut connections| async move {
            let view = connections.next().await?;
            Some((Ok(connection(view)), connections))
        });
        Ok(Response::new(Box::pin(told)))
    }
}

fn connection(view: ConnectionView) -> v1::Connection {
    let state = match &view.state {
        ConnectionState::Open { rule } => State::Open(v1::ConnectionOpen { rule: rule.clone() }),
        ConnectionState::Closed { rule, denial: cut } => {
            State::Closed(v1::ConnectionClosed { rule: rule.clone(), denial: cut.as_ref().map(denial) })
        }
        ConnectionState::Denied(denied) => State::Denied(denial(denied)),
        ConnectionState::Failed { why } => State::Failed(v1::ConnectionFailed { message: why.clone() }),
    };
    v1::Connection {
        number: view.number,
        execution: connection_execution(&view).map(|id| id.to_string()).unwrap_or_default(),
        host: view.host,
        port: view.port.into(),
        policy: view.policy,
        started_at: Some(timestamp(view.at)),
        duration: Some(duration(view.took)),
        bytes_up: view.up,
        bytes_down: view.down,
        state: Some(state),
        trace: view.origin.trace_id().map(|id| id.to_string()).unwrap_or_default(),
        step: view.origin.step.map(|step| step.to_string()).unwrap_or_default(),
    }
}

/// What an execution did.
pub(super) fn summary(summary: &NetworkSummary) -> v1::ExecutionNetwork {
    v1::ExecutionNetwork {
        connections: summary.connections,
        denied: summary.denied,
        failed: summary.failed,
        bytes_up: summary.up,
        bytes_down: summary.down,
        denials: summary.denials.iter().map(denial).collect(),
    }
}

fn denial(denial: &Denial) -> v1::NetworkDenial {
    v1::NetworkDenial {
        reason: denial.reason.to_string(),
        message: denial.message(),
        host: denial.host.clone(),
        port: denial.port.into(),
        rule: denial.rule.clone().unwrap_or_default(),
    }
}
