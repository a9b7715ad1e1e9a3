//! What tonic asks of a connection: who is at its other end.

use tonic::transport::server::Connected;

use crate::door::{Connection, ConnectionInfo, Informed as _, TlsConnection};

impl<IO> Connected for Connection<IO> {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info()
    }
}

impl<IO> Connected for TlsConnection<IO> {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info()
    }
}
