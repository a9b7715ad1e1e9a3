//! Makes the programs of a sandbox trust its own authority, where its policy reads their requests: a file of certificates,
//! and variables that say where it is. Used by Create and by `rekindle run`.

use crate::agent::{AgentClient, AgentError, EnvVar, GuestPath, GuestUser, TransferPatience, UploadOptions};
use crate::network::Interception;
use crate::network::intercept::{CA_FILE, CA_VARIABLES};

/// The certificates that come with an image.
const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Most bytes of them.
const MAX_SYSTEM: u64 = 4 << 20;

/// Adds the variables by which programs find the certificates, but for those that the caller has set itself.
pub fn trust_variables(env: &mut Vec<EnvVar>) {
    for name in CA_VARIABLES {
        if env.iter().all(|variable| variable.name != name.as_bytes()) {
            env.push(EnvVar { name: name.into(), value: CA_FILE.into() });
        }
    }
}

/// Writes the certificates that programs find then: those of the image, which hold for names that nobody reads, and the
/// sandbox's own.
///
/// # Errors
/// When the file cannot be written.
pub async fn write_authority(agent: &AgentClient, interception: &Interception) -> Result<(), AgentError> {
    let agent = agent.as_user(GuestUser::Root);
    let mut bundle = Vec::new();
    match agent.download(&path(SYSTEM), MAX_SYSTEM, &mut bundle, TransferPatience::default()).await {
        Ok(_) if bundle.last().is_none_or(|byte| *byte == b'\n') => {}
        Ok(_) => bundle.push(b'\n'),
        Err(error) if error.is_fatal() => return Err(error),
        // An image without any trusts nobody else.
        Err(_) => bundle.clear(),
    }
    bundle.extend_from_slice(interception.ca_pem().as_bytes());
    let options = UploadOptions { mode: 0o644, ..UploadOptions::default() };
    agent.upload_bytes(&path(CA_FILE), options, &bundle, TransferPatience::default()).await.map(|_| ())
}

/// One of the paths above.
fn path(text: &'static str) -> GuestPath {
    text.parse().expect("a path that is written here is one")
}
