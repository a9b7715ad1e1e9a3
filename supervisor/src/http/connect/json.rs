//! Values as proto3 has them in JSON: bytes in base64, numbers also as text, and `null` for what is not there.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::Serializer;

/// With or without padding, as protobuf's parsers take it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A field that may be `null`.
pub(in crate::http) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A number, or one in quotes.
pub(in crate::http) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    optional_number(deserializer).map(Option::unwrap_or_default)
}

/// A number that may not be there.
pub(in crate::http) fn optional_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Number {
        Plain(u32),
        Quoted(String),
    }
    Ok(match Option::deserialize(deserializer)? {
        Some(Number::Plain(number)) => Some(number),
        Some(Number::Quoted(text)) => Some(text.parse().map_err(|_| D::Error::custom("no number"))?),
        None => None,
    })
}

/// Bytes that may not be there, in either alphabet of base64.
pub(in crate::http) fn optional_bytes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bytes>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let text = text.replace('-', "+").replace('_', "/");
    let bytes = BASE64.decode(text).map_err(|_| D::Error::custom("no base64"))?;
    Ok(Some(bytes.into()))
}

/// Bytes in base64.
pub(in crate::http) fn bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64.encode(bytes))
}

/// A 64-bit number, in quotes.
pub(in crate::http) fn quoted<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Left out of messages.
pub(in crate::http) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    //! What senders send.

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Message {
        #[serde(deserialize_with = "or_default")]
        words: Vec<String>,
        #[serde(deserialize_with = "number")]
        count: u32,
        #[serde(deserialize_with = "optional_number")]
        pid: Option<u32>,
        #[serde(deserialize_with = "optional_bytes")]
        data: Option<Bytes>,
    }

    fn read(text: &str) -> Option<Message> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn numbers_bytes_and_nulls_are_taken_in_every_form() {
        let empty = Message::default();
        assert_eq!(read("{}").as_ref(), Some(&empty));
        assert_eq!(read(r#"{"words":null,"count":null,"pid":null,"data":null,"new":[]}"#), Some(empty));
        let message = Message { count: 7, pid: Some(0), data: Some("a?~".into()), ..Message::default() };
        assert_eq!(read(r#"{"count":7,"pid":0,"data":"YT9+"}"#).as_ref(), Some(&message));
        assert_eq!(read(r#"{"count":"7","pid":"0","data":"YT9-"}"#), Some(message));
        assert_eq!(read(r#"{"data":"YQ"}"#).and_then(|message| message.data), Some("a".into()));
        assert_eq!(read(r#"{"data":"YQ=="}"#).and_then(|message| message.data), Some("a".into()));
        for wrong in [
            r#"{"count":-1}"#,
            r#"{"count":4294967296}"#,
            r#"{"count":"x"}"#,
            r#"{"data":"*"}"#,
            r#"{"data":"Y"}"#,
            r#"{"words":{}}"#,
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
