//! The network of sandboxes from inside real guests: unmodified clients that reach what a policy allows and are told what
//! it does not, programs that try to get around it, and what sandboxes' lives mean for it. Servers are on the host's
//! loopback, and `network.hosts` maps the names to them; nothing here leaves the host.

mod attribution;
mod cassette;
mod clients;
mod developer;
mod gate;
mod gateway;
mod hostile;
mod life;
mod made;
mod off;
mod root;
mod servers;
mod worker;

pub use self::clients::{TEMPLATE as LARGE_TEMPLATE, template as large_template};
