//! `section!`: declares a section of the server's configuration once.
//!
//! One declaration gives the struct, its defaults, its keys with their descriptions, and the setter by name;
//! the reference page, the environment variables and `config check` all come from it, so they cannot drift.

use serde::de::DeserializeOwned;
use toml::Value;

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

/// Reads a value as the type of its key.
pub(super) fn read<T: DeserializeOwned>(given: Given) -> Result<T, String> {
    let message = |error: toml::de::Error| error.message().trim().to_owned();
    match given {
        Given::Typed(value) => T::deserialize(value).map_err(message),
        // Text comes first, so that a path named 1 stays a path.
        Given::Text(text) => T::deserialize(Value::String(text.clone())).or_else(|error| {
            let literal = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
            match literal.and_then(|mut table| table.remove("value")) {
                Some(value) => T::deserialize(value).map_err(message),
                None => Err(message(error)),
            }
        }),
    }
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
                    $( stringify!($key) => self.$key = super::section::read(given)?, )+
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
