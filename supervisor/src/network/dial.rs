//! From an allowed name to a connection: looked up once, screened, and one of the very addresses that came back dialled.
//!
//! There is no second lookup, so an answer that changes in between changes nothing. A name that the operator has mapped
//! to an address leads there and nowhere else, private or not: it is the operator's word, not a resolver's.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address::screen;
use super::name::HostName;
use super::policy::Target;

/// How long a lookup may take, its turn included.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(10);
/// Lookups at a time, of all sandboxes: each holds a thread until the resolver is done with it, waited for or not.
const MAX_LOOKUPS: usize = 128;
/// Lookups at a time of one sandbox, whose names may lead to servers that never answer.
const MAX_LOOKUPS_EACH: usize = 4;
/// Addresses of one name that are tried.
const MAX_TRIED: usize = 4;
/// How long one of them may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Addresses that came back for a name.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// What turns names into addresses.
pub trait Resolve: Send + Sync {
    /// Looks a name up.
    fn lookup<'a>(&'a self, name: &'a HostName) -> Lookup<'a>;
    /// The host's own addresses at this moment.
    fn own(&self) -> io::Result<Vec<IpAddr>>;
}

/// A connection that is being made.
type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// What connects to an address. It is given addresses and no names, so that it has nothing to look up.
type Connect = dyn Fn(SocketAddr) -> Connecting + Send + Sync;

/// The host's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn lookup<'a>(&'a self, name: &'a HostName) -> Lookup<'a> {
        Box::pin(async move {
            // The final dot keeps the host's search list out.
            let absolute = format!("{name}.");
            Ok(tokio::net::lookup_host((absolute, 0)).await?.map(|address| address.ip()).collect())
        })
    }

    fn own(&self) -> io::Result<Vec<IpAddr>> {
        let addresses = nix::ifaddrs::getifaddrs()?.filter_map(|interface| interface.address);
        Ok(addresses
            .filter_map(|address| {
                let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
            })
            .collect())
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name leads nowhere.
    #[error("the name could not be resolved")]
    Lookup(#[source] io::Error),
    /// It leads to addresses that are never dialled, and to no other.
    #[error("the name leads to no address that may be dialled")]
    Private,
    /// Nobody answers there.
    #[error("the connection failed")]
    Connect(#[source] io::Error),
}

/// Dials for all sandboxes of a host.
#[derive(Clone)]
pub struct Dialer {
    resolver: Arc<dyn Resolve>,
    hosts: Arc<BTreeMap<HostName, SocketAddr>>,
    lookups: Arc<Semaphore>,
    /// Its part of them.
    share: Arc<Semaphore>,
    connect: Arc<Connect>,
}

impl Dialer {
    /// Dials by this resolver, but for the names that the operator has mapped.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolve>, hosts: BTreeMap<HostName, SocketAddr>) -> Self {
        let connect: Arc<Connect> = Arc::new(|address| Box::pin(TcpStream::connect(address)));
        let [lookups, share] = [MAX_LOOKUPS, MAX_LOOKUPS_EACH].map(|most| Arc::new(Semaphore::new(most)));
        Self { resolver, hosts: Arc::new(hosts), lookups, share, connect }
    }

    /// For another sandbox, which has a part of the lookups of its own. Clones have one together.
    pub(super) fn for_another(self) -> Self {
        Self { share: Arc::new(Semaphore::new(MAX_LOOKUPS_EACH)), ..self }
    }

    /// The same, with somebody else to make the connections.
    #[cfg(test)]
    fn connecting_by(self, connect: Arc<Connect>) -> Self {
        Self { connect, ..self }
    }

    /// The names that the operator has mapped.
    pub(super) fn hosts(&self) -> &BTreeMap<HostName, SocketAddr> {
        &self.hosts
    }

    /// Connects to what a rule allows.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn dial(&self, target: &Target, port: u16) -> Result<TcpStream, DialError> {
        let addresses = match target {
            Target::Name(name) => match self.hosts.get(name) {
                Some(mapped) => vec![*mapped],
                None => self.addresses(name, port).await?,
            },
            Target::Address(address) => self.screened(vec![*address], port)?,
        };
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses.into_iter().take(MAX_TRIED) {
            match timeout(CONNECT_DEADLINE, (self.connect)(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(DialError::Connect(failed))
    }

    /// What the name leads to and may be dialled; at least one.
    async fn addresses(&self, name: &HostName, port: u16) -> Result<Vec<SocketAddr>, DialError> {
        let lookup = async {
            let own = Arc::clone(&self.share).acquire_owned().await.map_err(io::Error::other)?;
            let one_of_all = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let (resolver, name) = (Arc::clone(&self.resolver), name.clone());
            // Goes on when nobody waits for it any more: the resolver has its thread, and so it has its turn.
            let looking = async move {
                let _turns = (own, one_of_all);
                resolver.lookup(&name).await
            };
            tokio::spawn(looking).await.map_err(io::Error::other)?
        };
        let found = timeout(LOOKUP_DEADLINE, lookup).await;
        let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let found = found.map_err(DialError::Lookup)?;
        if found.is_empty() {
            return Err(DialError::Lookup(io::ErrorKind::NotFound.into()));
        }
        self.screened(found, port)
    }

    /// Those that may be dialled; at least one.
    fn screened(&self, found: Vec<IpAddr>, port: u16) -> Result<Vec<SocketAddr>, DialError> {
        let own = self.resolver.own().map_err(DialError::Lookup)?;
        let may = found.into_iter().filter(|address| screen(*address, &own).is_ok());
        let may: Vec<_> = may.map(|address| SocketAddr::new(address, port)).collect();
        if may.is_empty() { Err(DialError::Private) } else { Ok(may) }
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
