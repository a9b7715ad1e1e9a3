//! The clock of an execution that has one of its own: variables of its environment that preload a library of the image
//! (`rootfs/clock`), which shifts what programs are told, and its time zone.
//!
//! Warm interpreters read such variables when they start and are never used for it (`interpreters/claim.rs`).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rekindle_protocol::clock;
use rekindle_protocol::wire::ErrorCode;

use crate::exec::environment::Environment;
use crate::failure::Failure;

/// Where an image has the library.
const LIBRARY: &str = "/usr/lib/rekindle/clock.so";
/// Where it has time zones, each a file.
const TIMEZONES: &str = "/usr/share/zoneinfo";
/// By how much the library shifts the clock, in nanoseconds.
const SHIFT: &str = "REKINDLE_CLOCK_SHIFT";
const PRELOAD: &str = "LD_PRELOAD";

/// Gives an execution a clock that starts at a moment, and a time zone. Zero and empty leave it what it has.
///
/// # Errors
/// When there can be no such clock, or this image has no such time zone or cannot shift clocks.
pub fn set(environment: &mut Environment, unix_nanos: u64, timezone: &str) -> Result<(), Failure> {
    clock::check(unix_nanos, timezone).map_err(|error| Failure::invalid(error.to_string()))?;
    if !timezone.is_empty() {
        set_timezone(environment, timezone, Path::new(TIMEZONES))?;
    }
    if unix_nanos != 0 {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        shift(environment, unix_nanos, real.as_nanos(), Path::new(LIBRARY))?;
    }
    Ok(())
}

fn set_timezone(environment: &mut Environment, timezone: &str, all: &Path) -> Result<(), Failure> {
    if !all.join(timezone).is_file() {
        let message =
            format!("there is no time zone {timezone:?} in this sandbox: {} has their names", all.display());
        return Err(Failure::invalid(message));
    }
    environment.set("TZ", timezone.as_bytes());
    Ok(())
}

fn shift(environment: &mut Environment, unix_nanos: u64, real: u128, library: &Path) -> Result<(), Failure> {
    if !library.is_file() {
        let message = "this image cannot give an execution a clock of its own: it has to be built again";
        return Err(Failure::new(ErrorCode::UnknownRequest, message));
    }
    // Both are some 64 bits.
    let shift = i128::from(unix_nanos) - real as i128;
    environment.set(SHIFT, shift.to_string().as_bytes());
    let mut preload = library.as_os_str().as_encoded_bytes().to_vec();
    // What the caller preloads comes after it.
    if let Some(others) = environment.get(PRELOAD).filter(|others| !others.is_empty()) {
        preload.push(b':');
        preload.extend_from_slice(others);
    }
    environment.set(PRELOAD, &preload);
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What ends up in the environment, and what is refused.

    use std::fs;

    use rekindle_protocol::wire::EnvVar;

    use super::*;
    use crate::exec::account::Account;

    fn environment(variables: &[(&'static str, &'static str)]) -> Environment {
        let account =
            Account { name: "user".into(), uid: 1000, gid: 1000, groups: vec![], home: "/home/user".into() };
        let list: Vec<EnvVar> = variables
            .iter()
            .map(|(name, value)| EnvVar { name: (*name).into(), value: (*value).into() })
            .collect();
        Environment::build(&account, false, [list.as_slice()])
    }

    #[test]
    fn a_clock_is_the_distance_to_the_real_one_and_a_library_before_the_callers() {
        let dir = tempfile::tempdir().expect("a directory");
        let library = dir.path().join("clock.so");
        fs::write(&library, "").expect("written");
        for (others, preload) in [
            (environment(&[]), library.display().to_string()),
            (environment(&[("LD_PRELOAD", "")]), library.display().to_string()),
            (environment(&[("LD_PRELOAD", "a.so b.so")]), format!("{}:a.so b.so", library.display())),
        ] {
            let mut environment = others;
            shift(&mut environment, 1_000, 3_500, &library).expect("a clock");
            assert_eq!(environment.get(SHIFT), Some(&b"-2500"[..]));
            assert_eq!(environment.get(PRELOAD), Some(preload.as_bytes()));
        }
    }

    #[test]
    fn an_image_without_the_library_refuses() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut environment = environment(&[]);
        let before = environment.clone();
        let refused = shift(&mut environment, 1_000, 3_500, &dir.path().join("clock.so"));
        assert_eq!(refused.expect_err("no library").code, ErrorCode::UnknownRequest);
        assert_eq!(environment, before);
    }

    #[test]
    fn a_time_zone_is_one_that_the_image_has() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("Europe")).expect("made");
        fs::write(dir.path().join("Europe/Berlin"), "").expect("written");
        let mut environment = environment(&[("TZ", "Asia/Tokyo")]);
        set_timezone(&mut environment, "Europe/Berlin", dir.path()).expect("there");
        assert_eq!(environment.get("TZ"), Some(&b"Europe/Berlin"[..]));
        for missing in ["Europe", "Mars/Base"] {
            let refused = set_timezone(&mut environment, missing, dir.path()).expect_err("missing");
            assert_eq!(refused.code, ErrorCode::InvalidArgument);
            assert!(refused.message.contains(missing), "{refused}");
        }
        assert!(set(&mut environment, 1, "").is_err() && set(&mut environment, 0, "../x").is_err());
    }
}
