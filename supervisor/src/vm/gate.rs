//! What makes a clone its own: fresh randomness, the time, a name, a disk, limits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agent::{EnvVar, RestoreRequest, SandboxLimits, Scratch};

/// Bytes of entropy every clone gets.
const ENTROPY: usize = 64;
/// The scratch disk as the guest sees it.
pub(super) const SCRATCH_DEVICE: &str = "/dev/vdb";
const SCRATCH_FSTYPE: &str = "ext4";

/// What a guest does about its scratch disk. One that boots lays it over the writable directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScratchMount {
    /// Nothing: a clone wakes up with its copy of the disk already in place.
    #[default]
    InPlace,
    /// It is empty.
    Blank,
    /// It has what an earlier machine was stopped with, the machine's names among it.
    Kept,
}

/// Who a machine is and what it may use, as its guest is told.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Limits inside the guest.
    pub limits: SandboxLimits,
    /// Variables every execution sees.
    pub env: Vec<EnvVar>,
    /// Set the guest's clock so far behind the host's.
    ///
    /// A template's clock runs a day behind: when a clone's clock is set right, everything in the guest that
    /// reseeds itself by time, OpenSSL's generators for one, sees that its seed has expired.
    pub clock_behind: Duration,
    /// What the guest does about its scratch disk.
    pub scratch: ScratchMount,
    /// Whether programs may become root by themselves, where the image has something like sudo.
    pub root: bool,
}

impl Identity {
    /// The request that opens the gate, with randomness of its own.
    pub(super) fn request(&self) -> Result<RestoreRequest, getrandom::Error> {
        let mut entropy = vec![0; ENTROPY];
        getrandom::fill(&mut entropy)?;
        let id = (u128::from(getrandom::u64()?) << 64) | u128::from(getrandom::u64()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let clock = now.saturating_sub(self.clock_behind);
        let kept = self.scratch == ScratchMount::Kept;
        let (hostname, machine_id) = match kept {
            true => (String::new(), String::new()),
            false => (format!("sandbox-{:08x}", getrandom::u32()?), format!("{id:032x}")),
        };
        Ok(RestoreRequest {
            entropy: entropy.into(),
            unix_nanos: u64::try_from(clock.as_nanos()).unwrap_or(u64::MAX),
            hostname,
            machine_id,
            scratch: (self.scratch != ScratchMount::InPlace).then(|| Scratch {
                device: SCRATCH_DEVICE.into(),
                fstype: SCRATCH_FSTYPE.into(),
                kept,
            }),
            limits: Some(self.limits),
            env: self.env.clone(),
            renew: false,
            settle: false,
            root: self.root,
        })
    }

    /// The request that makes a guest with an open gate somebody else's. Its disk is in place already.
    pub(super) fn renewal(&self) -> Result<RestoreRequest, getrandom::Error> {
        Ok(RestoreRequest { renew: true, scratch: None, ..self.request()? })
    }

    /// The same for a guest that is to wait for a caller: answered when it has nothing left to do.
    pub(super) fn settle(&self) -> Result<RestoreRequest, getrandom::Error> {
        Ok(RestoreRequest { settle: true, ..self.renewal()? })
    }
}

#[cfg(test)]
mod tests {
    //! What makes a clone unique.

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_clones_get_the_same_entropy_name_or_identity() {
        let identity = Identity {
            limits: SandboxLimits::default(),
            env: Vec::new(),
            clock_behind: Duration::ZERO,
            scratch: ScratchMount::InPlace,
            root: false,
        };
        let requests = [
            identity.request().expect("random bytes"),
            identity.request().expect("random bytes"),
            identity.renewal().expect("random bytes"),
            identity.settle().expect("random bytes"),
        ];
        let different = |of: fn(&RestoreRequest) -> Vec<u8>| requests.iter().map(of).collect::<BTreeSet<_>>();
        // The host name is short: four of them are the same once in a billion times.
        for of in [
            |request: &RestoreRequest| request.entropy.to_vec(),
            |request: &RestoreRequest| request.machine_id.clone().into_bytes(),
            |request: &RestoreRequest| request.hostname.clone().into_bytes(),
        ] {
            assert_eq!(different(of).len(), requests.len());
        }
        for RestoreRequest { entropy, .. } in &requests {
            let values: BTreeSet<u8> = entropy.iter().copied().collect();
            assert!(entropy.len() >= 32 && values.len() > 8, "it is random: {entropy:?}");
        }
    }
}
