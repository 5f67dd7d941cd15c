//! The sweep that the flags describe. Its rules are in `taskqueue_core::sweep`; here their errors get the names of the flags.

use taskqueue_core::dotted_keys::{KeyError, Overlap};
use taskqueue_core::sweep::{AxisError, COMBINATIONS_MAX, Sweep, SweepError};

use crate::dotted_keys::{key_rule, together};
use crate::failure::Failure;
use crate::json_args::{object_members, object_rule, pair};

pub(crate) fn parse<'a>(base: Option<&'a str>, given: &'a [String], is_zip: bool) -> Result<Sweep<'a>, Failure> {
    let base = base.map_or(Ok(Vec::new()), |text| object_members(text, "--args"))?;
    let pairs = given.iter().map(|text| pair("--arg", text)).collect::<Result<Vec<_>, _>>()?;
    Sweep::new(base, &pairs, is_zip, COMBINATIONS_MAX).map_err(|error| explain(&error))
}

/// The error in the words of the command.
pub(crate) fn explain(error: &SweepError) -> Failure {
    let message = match error {
        SweepError::Axis { key, error } => format!("--arg {key}: {}", axis_rule(error)),
        SweepError::Together { first, second, overlap: Overlap::Inside } => {
            together(("--arg", first), ("--arg", second))
        }
        // Keys that are the same are refused as twice before.
        SweepError::Together { first, overlap: Overlap::Same, .. } => {
            format!("--arg {first}: {}", axis_rule(&AxisError::Twice))
        }
        SweepError::TooMany => format!("these are more than {COMBINATIONS_MAX} combinations"),
        SweepError::Lengths(lengths) => {
            let lengths: Vec<String> = lengths.iter().map(|(key, count)| format!("{key} has {count}")).collect();
            let rule = "all keys need the same number of values; what all tasks have goes into --args";
            format!("--zip: {}; {rule}", lengths.join(", "))
        }
        SweepError::Base(error) => format!("--args: {}", object_rule(error)),
    };
    Failure::Usage(message)
}

fn axis_rule(error: &AxisError) -> String {
    match error {
        AxisError::Twice => "give all its values in one list".to_owned(),
        AxisError::Key(error @ (KeyError::TooDeep | KeyError::NameMissing)) => key_rule(*error),
        AxisError::Values(rule) => rule.clone(),
        AxisError::NotAnObject(parent) => format!("{parent} is given in --args, and is not an object"),
        AxisError::Value(error) => object_rule(error).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--args`, the `--arg`s, whether with `--zip`, and what the message says.
    type Mistake<'a> = (Option<&'a str>, &'a [&'a str], bool, &'a str);

    #[test]
    fn mistakes_are_refused_before_anything_is_made() {
        let cases: [Mistake<'_>; 13] = [
            (None, &["x"], false, "KEY=VALUE"),
            (None, &["x=1", "x=2"], false, "--arg x: give all its values in one list"),
            (None, &["x=1", "x.y=2"], false, "--arg x and --arg x.y: x.y is a part of x; give one of them"),
            (None, &["x..y=2"], false, "--arg x..y: a name is missing beside a dot"),
            (None, &["x=1..5..0"], false, "--arg x: 1..5..0: the step"),
            (None, &["x=1..99999999"], false, "at most 1000000"),
            (None, &["x=1..2000", "y=1..2000"], false, "more than 1000000 combinations"),
            (None, &["x=1..700000", "y=1..700000"], true, "at most 300000"),
            (None, &["lr=1,2,3", "seed=1..5"], true, "lr has 3, seed has 5"),
            (None, &["x=1,2,99999999999999999999"], false, "--arg x: use integers of 64 bits"),
            (Some(r#"{"x":1}"#), &["x.y=1,2"], false, "--arg x.y: x is given in --args"),
            (Some("[]"), &["x=1"], false, "--args"),
            (Some(r#"{"x":1}"#), &["x.y=1,2", "x=3"], false, "--arg x and --arg x.y"),
        ];
        for (base, given, is_zip, expected) in cases {
            let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
            match parse(base, &given, is_zip) {
                Err(Failure::Usage(message)) => assert!(message.contains(expected), "{given:?}: {message}"),
                other => panic!("{given:?}: {other:?}"),
            }
        }
    }
}
