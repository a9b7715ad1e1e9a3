//! Firecracker under its jailer. Where this machine's KVM is not usable, `cargo xtask lab test` runs
//! these in the lab; it finds them by this module's name.

use std::sync::Arc;

use rekindle::engine::firecracker::{FirecrackerEngine, find};
use rekindle::host::kvm::KvmStatus;

use super::bench::Bench;
use super::contract;
use super::guest::{artifacts, hello};

/// Memory of the machines under test, in MiB.
const MEMORY_MIB: u32 = 128;

/// A bench with Firecracker on it, or why there is none.
fn bench() -> Result<Bench, String> {
    let kvm = KvmStatus::probe();
    if !kvm.is_usable() {
        return Err(format!("{kvm}; `cargo xtask lab test` runs this test in the lab"));
    }
    let found = find(None).map_err(|error| error.to_string().replace('\n', "; "))?;
    let (kernel, image) = artifacts()?;
    Ok(Bench::new(Arc::new(FirecrackerEngine::new(found)), kernel, image, MEMORY_MIB, hello))
}

#[tokio::test]
async fn firecracker_keeps_the_contract() {
    let bench = match bench() {
        Ok(bench) => bench,
        Err(reason) => rekindle_test_support::skip!("{reason}"),
    };
    contract::holds(&bench).await;
}
