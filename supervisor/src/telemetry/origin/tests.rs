//! What is a trace and what is a step.

use super::*;

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn a_traceparent_is_read_as_w3c_says() {
    let text = format!("00-{ID}-00f067aa0ba902b7-01");
    let trace: Trace = text.parse().expect("one of W3C's own");
    assert_eq!((trace.id.to_string(), trace.span()), (ID.to_owned(), "00f067aa0ba902b7".to_owned()));
    assert_eq!(trace.to_string(), text);
    let later: Trace =
        format!("cc-{ID}-00f067aa0ba902b7-01-what-the-future-is").parse().expect("a later version");
    assert_eq!(later.id, trace.id);
    for wrong in [
        "",
        ID,
        "00",
        "--- -",
        &format!("00-{ID}-00f067aa0ba902b7"),
        &format!("00-{ID}-00f067aa0ba902b7-01-"),
        &format!("00-{ID}-00f067aa0ba902b7-1"),
        &format!("0-{ID}-00f067aa0ba902b7-01"),
        &format!("ff-{ID}-00f067aa0ba902b7-01"),
        &format!("00-{ID}-0000000000000000-01"),
        &format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
        &format!("00-{}-00f067aa0ba902b7-01", ID.to_uppercase()),
        &format!("00-{}é-00f067aa0ba902b7-01", &ID[2..]),
        &format!("00-+{}-00f067aa0ba902b7-01", &ID[1..]),
        &format!(" 00-{ID}-00f067aa0ba902b7-01"),
    ] {
        assert_eq!(wrong.parse::<Trace>(), Err(InvalidOrigin::Trace), "{wrong:?}");
    }
}

#[test]
fn a_trace_is_named_by_its_digits_alone() {
    assert_eq!(ID.parse::<TraceId>().expect("an id").to_string(), ID);
    for wrong in ["", "4bf9", &"0".repeat(32), &"g".repeat(32), &ID.to_uppercase(), &format!("{ID}0")] {
        assert_eq!(wrong.parse::<TraceId>(), Err(InvalidOrigin::TraceId), "{wrong:?}");
    }
}

#[test]
fn a_step_is_short_and_printable() {
    for right in ["plan", "a", "step 2: read/parse", &"x".repeat(MAX_STEP)] {
        assert_eq!(right.parse::<Step>().expect(right).as_str(), right);
    }
    for wrong in ["", " ", " plan", "plan ", "a\tb", "a\nb", "\u{1b}[31m", "é", &"x".repeat(MAX_STEP + 1)] {
        assert_eq!(wrong.parse::<Step>(), Err(InvalidOrigin::Step), "{wrong:?}");
    }
}
