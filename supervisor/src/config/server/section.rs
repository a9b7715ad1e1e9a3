//! `section!`: declares a section of the server's configuration once.
//!
//! One declaration gives the struct, its defaults, its keys with their descriptions, and the setter by name;
//! the reference page, the environment variables and `config check` all come from it, so they cannot drift.

use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use toml::Value;

use crate::config::amount;

/// Seconds that a number of them can be.
const LONGEST: RangeInclusive<f64> = 0.0..=1e15;

/// A key of a section, as the reference shows it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    /// What it means, line by line.
    pub doc: &'static [&'static str],
    /// What the default means, where the value alone does not say it.
    pub shown: Option<&'static str>,
}

impl Key {
    /// The description as one line.
    #[must_use]
    pub fn description(&self) -> String {
        self.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// A value somebody gave, before its key's type is known.
#[derive(Debug, Clone)]
pub(super) enum Given {
    /// From the file: typed already.
    Typed(Value),
    /// From a variable or a flag: text, to be read as the key's type.
    Text(String),
}

/// What a key counts, by how its name ends, so that its value may be text with a unit.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Seconds,
    Bytes,
    Mebibytes,
}

impl Unit {
    fn of(key: &str) -> Option<Self> {
        let all = [("_s", Self::Seconds), ("_bytes", Self::Bytes), ("_mib", Self::Mebibytes)];
        all.into_iter().find_map(|(end, unit)| key.ends_with(end).then_some(unit))
    }

    /// The number that a text such as `10m` or `8G` means for such a key.
    fn read(self, text: &str) -> Result<Value, String> {
        let (number, needed) = match self {
            Self::Seconds => {
                let seconds =
                    amount::seconds(text).filter(|time| time.fract() == 0.0 && LONGEST.contains(time));
                (
                    seconds.map(|time| time as i64),
                    "a time in whole seconds is needed, such as 90, 90s, 10m or 2h",
                )
            }
            Self::Bytes => {
                let bytes = amount::bytes(text).and_then(|size| i64::try_from(size).ok());
                (bytes, "a size is needed, such as 4096, 256M or 1.5G")
            }
            Self::Mebibytes => {
                let bytes = amount::bytes(text).filter(|size| size.is_multiple_of(1 << 20));
                // A number alone is in the unit of the key.
                let mebibytes = text.parse().ok().or(bytes.map(|size| size >> 20));
                let mebibytes = mebibytes.and_then(|number: u64| i64::try_from(number).ok());
                (mebibytes, "a size in whole MiB is needed, such as 512, 256M or 1.5G")
            }
        };
        number.map(Value::Integer).ok_or_else(|| needed.to_owned())
    }
}

/// Reads a value as the type of its key, which for a time or a size may be text with a unit.
pub(super) fn read<T: DeserializeOwned>(key: &str, given: Given) -> Result<T, String> {
    let text = match &given {
        Given::Typed(Value::String(text)) | Given::Text(text) => Some(text.clone()),
        Given::Typed(_) => None,
    };
    plain(given).or_else(|error| match (Unit::of(key), text) {
        (Some(unit), Some(text)) => T::deserialize(unit.read(&text)?).map_err(|error| message(&error)),
        _ => Err(error),
    })
}

fn plain<T: DeserializeOwned>(given: Given) -> Result<T, String> {
    match given {
        Given::Typed(value) => T::deserialize(value).map_err(|error| message(&error)),
        // Text comes first, so that a path named 1 stays a path.
        Given::Text(text) => T::deserialize(Value::String(text.clone())).or_else(|error| {
            let literal = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
            match literal.and_then(|mut table| table.remove("value")) {
                Some(value) => T::deserialize(value).map_err(|error| message(&error)),
                None => Err(message(&error)),
            }
        }),
    }
}

fn message(error: &toml::de::Error) -> String {
    error.message().trim().to_owned()
}

macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $( $(#[doc = $doc:literal])+ $key:ident: $type:ty = $default:expr $(, shown $shown:literal)?; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $key: $type, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $name {
            /// What the section is for.
            pub const ABOUT: &'static [&'static str] = &[$($about),+];
            /// Its keys, in the order of the reference.
            pub const KEYS: &'static [$crate::config::server::Key] = &[
                $( $crate::config::server::Key {
                    name: stringify!($key),
                    doc: &[$($doc),+],
                    shown: section!(@shown $($shown)?),
                }, )+
            ];

            /// Sets one key by its name, which is one of [`Self::KEYS`].
            #[allow(dead_code, reason = "a section inside another is read as a whole")]
            pub(super) fn set(&mut self, key: &str, given: super::section::Given) -> Result<(), String> {
                match key {
                    $( stringify!($key) => self.$key = super::section::read(key, given)?, )+
                    other => return Err(format!("there is no key {other}")),
                }
                Ok(())
            }
        }
    };
    (@shown $shown:literal) => { Some($shown) };
    (@shown) => { None };
}

pub(super) use section;
