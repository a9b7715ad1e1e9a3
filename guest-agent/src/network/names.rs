//! Addresses that stand for names: what programs are told when they look a name up, and back. Pure.
//!
//! A name keeps its address while there is room; then the oldest gives way. An address that stands for another name by
//! now opens nothing: the host holds what a client says to the name it is asked for.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Most names that have an address at once.
const MAX_NAMES: usize = 16_384;
/// Where the addresses begin. The network has 131,072 of them.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 0);

/// The names that were asked for.
#[derive(Debug, Default)]
pub struct Names {
    by_name: HashMap<String, usize>,
    /// What each address stands for, by its distance from the first.
    by_place: Vec<String>,
    /// The place that is taken next once all are.
    oldest: usize,
}

impl Names {
    /// The address that stands for a name, which is in lower case.
    pub fn address(&mut self, name: &str) -> Ipv4Addr {
        if let Some(place) = self.by_name.get(name) {
            return at(*place);
        }
        let place = if self.by_place.len() < MAX_NAMES {
            self.by_place.push(name.to_owned());
            self.by_place.len() - 1
        } else {
            let place = self.oldest;
            self.oldest = (place + 1) % MAX_NAMES;
            let gone = std::mem::replace(&mut self.by_place[place], name.to_owned());
            self.by_name.remove(&gone);
            place
        };
        self.by_name.insert(name.to_owned(), place);
        at(place)
    }

    /// The name that an address stands for.
    pub fn name(&self, address: Ipv4Addr) -> Option<&str> {
        let place = address.to_bits().checked_sub(FIRST.to_bits())?;
        self.by_place.get(place as usize).map(String::as_str)
    }
}

fn at(place: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST.to_bits() + place as u32)
}

#[cfg(test)]
mod tests;
