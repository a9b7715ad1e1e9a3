//! An execution in a time zone that its image does not have: which names may have been meant, by what the image has.

use std::time::Duration;

use rekindle_protocol::clock;

use super::call::Call;
use super::diagnosis::near;
use super::error::ServiceError;
use crate::agent::{AgentError, FileKind, GuestPath, Refusal};

/// Where images have time zones, each a file.
const TIMEZONES: &str = "/usr/share/zoneinfo";
/// Levels of them: America/Argentina/Salta.
const LEVELS: u32 = 3;
/// How long a look at them may take.
const LOOK: Duration = Duration::from_secs(5);

impl Call {
    /// Why an execution in a time zone was not started, with a hint where there is none of this name.
    pub(super) async fn not_in_timezone(&self, error: ServiceError, timezone: &str) -> ServiceError {
        match error {
            ServiceError::Agent(refusal)
                if !timezone.is_empty() && refusal.refusal() == Some(Refusal::InvalidArgument) =>
            {
                match self.timezones().await {
                    Ok(names) if names.iter().any(|name| name == timezone) => ServiceError::Agent(refusal),
                    Ok(names) => {
                        ServiceError::invalid(format!("{refusal}\nhint: {}", hint(timezone, &names)))
                    }
                    Err(_) => ServiceError::Agent(refusal),
                }
            }
            other => other,
        }
    }

    /// The names of the image's time zones.
    async fn timezones(&self) -> Result<Vec<String>, AgentError> {
        let Ok(place) = GuestPath::new(TIMEZONES) else { return Ok(Vec::new()) };
        let listed = match self.sandbox().agent().list_tree(&place, LEVELS, 0, LOOK).await {
            Err(error) if error.refusal() == Some(Refusal::NotFound) => return Ok(Vec::new()),
            listed => listed?,
        };
        let files = listed.entries.into_iter().filter(|entry| entry.kind != FileKind::Directory);
        let names = files.map(|entry| entry.path.to_string());
        // A guest's words: what can be no time zone is not told, nor are tables (`zone.tab`) and copies (`posix/UTC`).
        let is_one = |name: &String| name.starts_with(char::is_uppercase) && clock::check(0, name).is_ok();
        Ok(names.filter(is_one).collect())
    }
}

/// What to do about a name that is not among those there are.
fn hint(wanted: &str, names: &[String]) -> String {
    if names.is_empty() {
        return "this image has no time zones: leave `timezone` out, or set TZ in `env` to a rule, such as \
                CET-1CEST,M3.5.0,M10.5.0/3"
            .to_owned();
    }
    let near = near::timezones(wanted, names);
    let first = match &near[..] {
        [] => "use a name such as Europe/Berlin:".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    format!("{first} `ls {TIMEZONES}` in the sandbox shows the names")
}

#[cfg(test)]
mod tests {
    //! What is told of names that people and models write.

    use super::*;

    fn told(wanted: &str) -> String {
        let names = ["America/New_York", "Asia/Tokyo", "Europe/Berlin", "Europe/Rome", "UTC"];
        hint(wanted, &names.map(str::to_owned))
    }

    #[test]
    fn a_name_that_is_nearly_right_is_told_as_it_is_written() {
        for (wrong, right) in [
            ("Europe/Berln", "Europe/Berlin"),
            ("Berlin", "Europe/Berlin"),
            ("Germany/Berlin", "Europe/Berlin"),
            ("america/new-york", "America/New_York"),
            ("Utc", "UTC"),
            ("Europe", "Europe/Berlin or Europe/Rome"),
        ] {
            let told = told(wrong);
            assert!(told.starts_with(&format!("did you mean {right}? `ls ")), "{wrong}: {told}");
        }
        for strange in ["Mars/Base", "CEST", "X"] {
            assert!(
                told(strange).starts_with("use a name such as Europe/Berlin"),
                "{strange}: {}",
                told(strange)
            );
        }
        assert!(hint("Europe/Berlin", &[]).starts_with("this image has no time zones"));
    }
}
