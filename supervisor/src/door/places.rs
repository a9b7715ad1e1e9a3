//! Places for connections: so many in all, and so many of them for one address, so that nobody can take them all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::Peer;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    addresses: Arc<Addresses>,
}

/// Connections of each address that has any.
#[derive(Debug)]
struct Addresses {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

impl Addresses {
    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place nobody has taken yet.
#[derive(Debug)]
pub(crate) struct FreePlace {
    permit: OwnedSemaphorePermit,
    addresses: Arc<Addresses>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    address: Option<(IpAddr, Arc<Addresses>)>,
}

impl Places {
    pub(crate) fn new(places: usize, per_address: usize) -> Self {
        let addresses = Addresses { most: per_address, taken: Mutex::default() };
        Self { free: Arc::new(Semaphore::new(places)), addresses: Arc::new(addresses) }
    }

    /// Waits for a free place.
    pub(crate) async fn free(&self) -> Option<FreePlace> {
        // Nobody closes the semaphore.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(FreePlace { permit, addresses: Arc::clone(&self.addresses) })
    }
}

impl FreePlace {
    /// Gives the place to a peer, unless its address has all that one address may have.
    pub(crate) fn taken_by(self, peer: &Peer) -> Option<Place> {
        let Self { permit, addresses } = self;
        let Peer::Tcp { address: Some(address) } = peer else {
            return Some(Place { _permit: permit, address: None });
        };
        let address = network(address.ip());
        let mut taken = addresses.taken();
        let count = taken.entry(address).or_default();
        if *count >= addresses.most {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(Place { _permit: permit, address: Some((address, addresses)) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((address, addresses)) = &self.address else { return };
        let mut taken = addresses.taken();
        if let Some(count) = taken.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(address);
            }
        }
    }
}

/// What counts as one address: of IPv6 the /64 network, in which a host may have as many as it likes.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    //! Whose places they are.

    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::Tcp { address: Some(address.parse().expect("an address")) }
    }

    #[tokio::test]
    async fn one_address_takes_its_share_and_gives_it_back() {
        let places = Places::new(8, 2);
        let take = async |who: &str| places.free().await.expect("a place").taken_by(&peer(who));
        let first = take("192.0.2.1:1").await.expect("a place");
        let _second = take("192.0.2.1:2").await.expect("a place");
        assert!(take("192.0.2.1:3").await.is_none(), "its share is taken");
        assert!(take("[::ffff:192.0.2.1]:4").await.is_none(), "by whichever notation");
        let _other = take("192.0.2.2:1").await.expect("another address has its own");
        assert_eq!(places.free.available_permits(), 8 - 3, "who is turned away has no place");
        drop(first);
        let _again = take("192.0.2.1:5").await.expect("a place given back");
    }

    #[tokio::test]
    async fn a_whole_ipv6_network_is_one_address_and_nobody_is_remembered() {
        let places = Places::new(8, 1);
        let take = async |who: &str| places.free().await.expect("a place").taken_by(&peer(who));
        let first = take("[2001:db8:0:1::1]:1").await.expect("a place");
        assert!(take("[2001:db8:0:1:ffff::2]:1").await.is_none());
        let second = take("[2001:db8:0:2::1]:1").await.expect("another network");
        drop((first, second));
        assert!(places.addresses.taken().is_empty());
    }
}
