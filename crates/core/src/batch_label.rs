//! Where the label of a batch of tasks is kept: as the member `batch` of their metadata, so that `--after-batch` and filters find them
//! (docs/decisions/0037-how-the-command-line-submits-many.md). The command line and the dashboard label alike.

use crate::json::{JsonObject, ObjectWriter, lookup, merge_patch, write_string};

const MEMBER: &str = "batch";

/// The metadata with the label, unless it says something else there itself.
pub fn labelled(metadata: JsonObject, label: Option<&str>) -> JsonObject {
    match label {
        Some(label) if lookup(metadata.as_str(), &[MEMBER]).is_none() => {
            let member = ObjectWriter::new().text(MEMBER, label).into_text();
            merge_patch(&metadata, &JsonObject::from_canonical(&member))
        }
        _ => metadata,
    }
}

/// Returns whether a task has this metadata. Tasks that an earlier version created lack the label.
pub fn is_same_metadata(of_task: &JsonObject, wanted: &JsonObject) -> bool {
    let without_label = ObjectWriter::new().json(MEMBER, "null").into_text();
    let has_none = lookup(of_task.as_str(), &[MEMBER]).is_none();
    of_task == wanted || has_none && *of_task == merge_patch(wanted, &JsonObject::from_canonical(&without_label))
}

/// The tasks with a label, as a filter.
pub fn filter(label: &str) -> String {
    let mut text = format!("metadata.{MEMBER} == ").into_bytes();
    write_string(&mut text, label);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::TaskFilter;

    fn object(text: &str) -> JsonObject {
        JsonObject::from_canonical(text)
    }

    #[test]
    fn a_label_is_added_to_metadata_that_has_none() {
        let cases = [
            ("{}", Some("vit"), r#"{"batch":"vit"}"#),
            (r#"{"a":1,"c":2}"#, Some("v\"1"), r#"{"a":1,"batch":"v\"1","c":2}"#),
            (r#"{"batch":7}"#, Some("vit"), r#"{"batch":7}"#),
            (r#"{"a":1}"#, None, r#"{"a":1}"#),
        ];
        for (metadata, label, expected) in cases {
            assert_eq!(labelled(object(metadata), label).as_str(), expected);
        }
    }

    #[test]
    fn a_task_without_the_label_is_the_same_and_one_with_another_is_not() {
        let cases = [
            (r#"{"a":1,"batch":"x"}"#, r#"{"a":1,"batch":"x"}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"batch":"x"}"#, true),
            (r#"{"a":2}"#, r#"{"a":1,"batch":"x"}"#, false),
            (r#"{"a":1,"batch":"y"}"#, r#"{"a":1,"batch":"x"}"#, false),
            (r#"{"a":1,"batch":"y"}"#, r#"{"a":1}"#, false),
        ];
        for (of_task, wanted, expected) in cases {
            assert_eq!(is_same_metadata(&object(of_task), &object(wanted)), expected, "{of_task} {wanted}");
        }
    }

    #[test]
    fn a_filter_finds_any_label() {
        assert_eq!(filter("vit"), r#"metadata.batch == "vit""#);
        for label in ["a\"b\\", "ä 漢", "x' or true"] {
            TaskFilter::parse(&filter(label)).unwrap();
        }
    }
}
