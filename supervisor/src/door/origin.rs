//! The trace and the step that a call says it is part of, from its headers.

use hyper::http::HeaderMap;

use crate::service::ServiceError;
use crate::telemetry::{InvalidOrigin, Origin};

/// W3C's header with the trace.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// Our own with the name of the step.
pub(crate) const STEP: &str = "rekindle-step";

/// Where a call comes from. What is no `traceparent`, or is one of several, is as good as none, as W3C wants it: whoever
/// sent it, it was perhaps not who makes the call. The step is ours, and one that is none is refused.
pub(crate) fn of(headers: &HeaderMap) -> Result<Origin, ServiceError> {
    let trace = only(headers, TRACEPARENT).ok().flatten().and_then(|text| text.parse().ok());
    let wrong = || ServiceError::Invalid { what: format!("{STEP}: {}", InvalidOrigin::Step).into() };
    let step = only(headers, STEP).map_err(|()| wrong())?;
    let step = step.map(|text| text.parse().map_err(|_| wrong())).transpose()?;
    Ok(Origin { trace, step })
}

/// The text of a header that is there once at most.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    //! What counts.

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn origin(headers: &[(&'static str, &str)]) -> Result<Origin, ServiceError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        of(&map)
    }

    #[test]
    fn a_trace_that_is_none_is_left_out_and_a_step_that_is_none_is_refused() {
        let both = origin(&[(TRACEPARENT, PARENT), (STEP, "plan")]).expect("right");
        assert_eq!(both.trace.expect("there").to_string(), PARENT);
        assert_eq!(both.step.expect("there").as_str(), "plan");
        assert_eq!(origin(&[]).expect("nothing"), Origin::default());
        for wrong in [&[(TRACEPARENT, "00-00-00-00")][..], &[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT)]] {
            assert_eq!(origin(wrong).expect("ignored"), Origin::default());
        }
        let long = "x".repeat(65);
        for wrong in [&[(STEP, "")][..], &[(STEP, &long)], &[(STEP, "é")], &[(STEP, "a"), (STEP, "b")]] {
            assert!(matches!(origin(wrong), Err(ServiceError::Invalid { .. })), "{wrong:?}");
        }
    }
}
