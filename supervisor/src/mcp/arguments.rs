//! The arguments of a tool, read strictly: a name that is not known is a mistake that a model can repair when told.

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::line::one_line;

/// Reads them. The error is a sentence for the model.
pub(super) fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, String> {
    let mut arguments = arguments.unwrap_or_default();
    // Models send null for what they leave out.
    arguments.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        format!(
            "refused: INVALID_ARGUMENTS: {}\nhint: the input schema of the tool says what it takes; nothing was done",
            one_line(&error.to_string())
        )
    })
}

#[cfg(test)]
mod tests {
    //! What is taken.

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Two {
        one: String,
        two: Option<u32>,
    }

    fn read_two(value: Value) -> Result<(String, Option<u32>), String> {
        let Value::Object(object) = value else { panic!("an object is needed") };
        read::<Two>(Some(object)).map(|two| (two.one, two.two))
    }

    #[test]
    fn what_is_null_is_left_out_and_what_is_wrong_is_named() {
        assert_eq!(read_two(json!({"one": "a", "two": null})), Ok(("a".to_owned(), None)));
        for (wrong, word) in [
            (json!({}), "missing field `one`"),
            (json!({"one": "a", "three": 1}), "unknown field `three`"),
            (json!({"one": 5}), "expected a string"),
            (json!({"one": "a", "two": -1}), "expected u32"),
        ] {
            let error = read_two(wrong).expect_err("it is wrong");
            assert!(error.contains(word) && error.contains("\nhint: "), "{error}");
        }
        assert!(read::<Two>(None).is_err());
    }
}
