//! A value that code has shown, in the API's words. The forms are a guest's: an image that is none is left out, and of
//! forms without a field there are as many as a caller may want, however many were sent.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rekindle_api::v1;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

use crate::service::CodeResult;

/// Forms without a field of their own.
const MAX_OTHERS: usize = 32;
/// Longest media type.
const MAX_KIND: usize = 256;

/// A result.
pub(super) fn message(result: CodeResult) -> v1::CodeResult {
    let mut message = v1::CodeResult { is_main: result.is_main, ..v1::CodeResult::default() };
    for (name, form) in result.texts {
        match name {
            "text" => message.text = Some(form),
            "html" => message.html = Some(form),
            "markdown" => message.markdown = Some(form),
            "svg" => message.svg = Some(form),
            "png" => message.png = decoded(&form),
            "jpeg" => message.jpeg = decoded(&form),
            "pdf" => message.pdf = decoded(&form),
            "latex" => message.latex = Some(form),
            "javascript" => message.javascript = Some(form),
            _ => {}
        }
    }
    for (name, form) in result.json {
        match name {
            "json" => message.json = Some(form),
            "data" => message.data = Some(form),
            "chart" => message.chart = Some(form),
            "extra" => message.others = others(&form),
            _ => {}
        }
    }
    message
}

/// The bytes of an image. Libraries break base64 into lines.
fn decoded(text: &str) -> Option<Bytes> {
    let decode = |text: &[u8]| STANDARD.decode(text).ok().map(Bytes::from);
    if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return decode(&text);
    }
    decode(text.as_bytes())
}

/// The fields of an object of JSON: those that are text as text, others as they are written. Nothing is ever held as
/// values, which would be many times as large.
fn others(object: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Some(mut rest) = object.trim_start().strip_prefix('{') else { return found };
    while found.len() < MAX_OTHERS {
        let Some((key, after)) = text(rest) else { break };
        let Some(value) = after.trim_start().strip_prefix(':') else { break };
        let mut values = Deserializer::from_str(value).into_iter::<IgnoredAny>();
        let Some(Ok(IgnoredAny)) = values.next() else { break };
        let (value, after) = value.split_at(values.byte_offset());
        if !key.is_empty() && key.len() <= MAX_KIND {
            let form = text(value).map_or_else(|| value.trim().to_owned(), |(form, _)| form);
            found.insert(key, form);
        }
        let Some(more) = after.trim_start().strip_prefix(',') else { break };
        rest = more;
    }
    found
}

/// A text of JSON, and what follows it.
fn text(json: &str) -> Option<(String, &str)> {
    let mut texts = Deserializer::from_str(json).into_iter::<String>();
    let text = texts.next()?.ok()?;
    Some((text, json.get(texts.byte_offset()..)?))
}

#[cfg(test)]
mod tests {
    //! Forms, and what is none.

    use super::*;

    #[test]
    fn forms_have_their_fields_and_images_are_bytes() {
        let result = CodeResult {
            is_main: true,
            texts: vec![("text", "t".into()), ("png", "AAEC\nAw==\n".into()), ("pdf", "no base64!".into())],
            json: vec![
                ("chart", "{}".into()),
                (
                    "extra",
                    r#" {"a/b": "x\ny", "c/d" : {"e": [1, "}"]},"f":null, "": 1, "g": -1.5e3 } "#.into(),
                ),
            ],
        };
        let message = message(result);
        assert!(message.is_main && message.html.is_none() && message.pdf.is_none());
        assert_eq!((message.text.as_deref(), message.chart.as_deref()), (Some("t"), Some("{}")));
        assert_eq!(message.png.as_deref(), Some(&[0, 1, 2, 3][..]));
        let others: Vec<_> = message.others.iter().map(|(kind, form)| (&kind[..], &form[..])).collect();
        assert_eq!(others, [("a/b", "x\ny"), ("c/d", r#"{"e": [1, "}"]}"#), ("f", "null"), ("g", "-1.5e3")]);
    }

    #[test]
    fn there_are_never_more_forms_than_allowed_and_no_object_has_none() {
        let many: Vec<String> = (0..1000).map(|number| format!("\"k{number}\":{number}")).collect();
        assert_eq!(others(&format!("{{{}}}", many.join(","))).len(), MAX_OTHERS);
        for none in ["", "[]", "{}", "1", "\"a\"", "{\"a\"", "{\"a\":", "{1:2}", "{\"a\":}"] {
            assert!(others(none).is_empty(), "{none}");
        }
    }
}
