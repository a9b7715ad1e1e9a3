//! What `serve` tells the service manager that has started it (systemd's `Type=notify`): what it is about while it
//! starts, that it serves, and that it stops. Where nobody asked to be told, nothing happens.

use rekindle::config::TemplateName;
use sd_notify::NotifyState;

/// A template is loaded, and built where it is not there: this may take a minute.
pub fn loading(template: &TemplateName) {
    tell(&[NotifyState::Status(&format!("loading the template {template}; the first time, it is built"))]);
}

/// Whoever connects from now on is served.
pub fn serving() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// No new sandboxes are made, and those that there are end.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("calls under way may finish")]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}
