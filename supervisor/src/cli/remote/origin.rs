//! The trace and the step that a command's calls are part of: the options, else the environment.

use anyhow::{Context as _, anyhow};
use rekindle::telemetry::{Origin, Trace, TraceId};

use crate::cli::args::OriginOptions;

/// What to say of a trace that is none.
const TRACE: &str =
    "hint: use the id of a trace, 32 hexadecimal digits in lower case, or a whole traceparent";

/// What calls are part of. A `TRACEPARENT` that is none is left out, as W3C wants it; an option is the user's own word.
pub fn origin(options: &OriginOptions, inherited: Option<&str>) -> anyhow::Result<Origin> {
    let trace = match options.trace.as_deref() {
        Some(text) => Some(trace(text)?),
        None => inherited.and_then(|text| text.parse().ok()),
    };
    // An empty variable means unset.
    let step = options.step.as_deref().filter(|step| !step.is_empty());
    let checked = |text: &str| {
        text.parse()
            .map_err(|error| anyhow!("{text:?} names no step: {error}\nhint: use a word such as plan"))
    };
    Ok(Origin { trace, step: step.map(checked).transpose()? })
}

/// The trace that is meant by its id or a `traceparent`.
pub fn trace_id(text: &str) -> anyhow::Result<TraceId> {
    let named = text.parse::<TraceId>().or_else(|_| text.parse::<Trace>().map(|trace| trace.id));
    named.map_err(|_| anyhow!("{text:?} is no trace\n{TRACE}"))
}

/// A trace by its id is called by a span of its own.
fn trace(text: &str) -> anyhow::Result<Trace> {
    if let Ok(trace) = text.parse() {
        return Ok(trace);
    }
    let id = trace_id(text)?;
    let mut span = [0; 8];
    getrandom::fill(&mut span).ok().context("there are no random bytes")?;
    // All zero would be no span.
    span[7] |= 1;
    Ok(Trace::new(id, span))
}

#[cfg(test)]
mod tests {
    //! Whose word counts.

    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn options(trace: Option<&str>, step: Option<&str>) -> OriginOptions {
        OriginOptions { trace: trace.map(Into::into), step: step.map(Into::into) }
    }

    #[test]
    fn an_option_goes_before_the_environment() {
        let parent = format!("00-{ID}-00f067aa0ba902b7-01");
        let inherited = origin(&options(None, Some("")), Some(&parent)).expect("inherited");
        assert_eq!(inherited.trace.expect("there").to_string(), parent);
        assert_eq!(inherited.step, None);
        let other = ID.replace('4', "5");
        let own = origin(&options(Some(&other), Some("plan")), Some(&parent)).expect("its own");
        assert_eq!(own.trace.expect("there").id.to_string(), other);
        assert_eq!(own.step.expect("there").as_str(), "plan");
        assert_eq!(trace_id(&parent).expect("a traceparent").to_string(), ID);
        assert_eq!(origin(&options(None, None), Some("nonsense")).expect("left out"), Origin::default());
    }

    #[test]
    fn an_option_that_is_none_is_refused_with_a_hint() {
        for wrong in [options(Some("x"), None), options(Some(""), None), options(None, Some("a\nb"))] {
            let error = origin(&wrong, None).expect_err("refused").to_string();
            assert!(error.contains("\nhint: use "), "{error}");
        }
    }
}
