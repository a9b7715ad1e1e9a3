//! How many files `rekindle serve` may have open, and whether they are enough.

use rekindle::config::ServerConfig;
use rekindle::host::open_files;
use rekindle::pool::PoolConfig;

/// Descriptors the supervisor has for each machine, at most: process, output, sockets, namespaces, files.
const FILES_PER_MACHINE: u64 = 16;
/// Descriptors it has besides: listeners, logs, templates, runtime.
const OWN_FILES: u64 = 128;

/// How many machines the memory is for.
pub(super) fn machines(budgets: &PoolConfig, smallest_mib: u64) -> u64 {
    let handed_out = budgets.memory_budget_mib.saturating_mul(budgets.memory_overcommit_percent.into()) / 100;
    handed_out / smallest_mib.max(1)
}

/// Takes as many open files as the host allows, and says when these may not be enough.
pub(super) fn raise_open_files(config: &ServerConfig, machines: u64) {
    let limit = match open_files::raise() {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            return;
        }
    };
    let listen = &config.listen;
    let listeners = u64::from(listen.tcp.is_some()) + u64::from(config.http.listen.is_some());
    let network = listeners * u64::from(listen.max_connections);
    let connections = network + u64::from(listen.max_socket_connections);
    let needed = OWN_FILES + connections + machines.saturating_mul(FILES_PER_MACHINE);
    if limit < needed {
        tracing::warn!(
            limit,
            needed,
            connections,
            machines,
            "too few open files for all connections and machines at once: some will fail\n\
             hint: raise the hard limit (LimitNOFILE= of the unit), or lower listen.max_connections, \
             listen.max_socket_connections or pool.memory_budget_mib"
        );
    }
}
