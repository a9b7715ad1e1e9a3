//! The sandbox's network as its programs see it: a device, names, and connections that all end at the agent.
//!
//! Nothing of it leaves the guest but as a stream to the host, which alone decides and dials. The kernel redirects every
//! TCP connection that is not for the guest itself to [`capture`]; questions for names are answered by [`resolver`] with
//! addresses that stand for them ([`names`]); everything else is refused at once. It is all in place before a snapshot
//! is taken, whatever a sandbox's policy will be, so a start costs nothing more. A guest whose root undoes it has no
//! network left, and no other one.
//!
//! The other way round, [`connect`] brings the host to a port that a program serves inside, over the same [`relay`].
//!
//! [`interface`] and [`rules`] tell the kernel, through [`netlink`]. Called by `main`, once, where the agent is init.

mod attribution;
mod capture;
mod denials;
mod interface;
mod message;
mod names;
mod netlink;
mod port;
mod query;
mod relay;
mod resolver;
mod rules;
mod serve;
mod set_up;
mod shared;
mod thread;

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

pub use self::port::connect;
pub use self::serve::serve;
pub use self::set_up::set_up;
pub use self::shared::Network;

/// Where captured connections arrive. Below 1024, so that no program takes their place. Several, because a program may
/// connect to several servers from one port of its own: the kernel tells such connections apart by the ports they are
/// redirected to, and only where none is left by another port of the program's, under which nobody finds its socket.
const CAPTURE_PORTS: RangeInclusive<u16> = 1000..=1015;
/// Where questions for names arrive.
const RESOLVER_PORT: u16 = 999;
/// The loopback device is always the first.
const LOOPBACK: u32 = 1;
/// The guest's own address, of the network for benchmarks, which nobody has.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// What `/etc/resolv.conf` names. Any other address is answered as well.
const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
