//! What the answer to a batch says about its items, straight from its bytes, in the order of the request.
//! Not a parser: it looks for the members that only the server writes; our args contain none of them.

use crate::answer_parser::claimed_task;

const OUTCOME: &str = "\"outcome\":\"";

/// One item of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) outcome: &'a str,
    /// What stands behind the outcome.
    rest: &'a str,
}

impl<'a> Item<'a> {
    /// The number of the task that was handed out.
    pub(crate) fn task(&self) -> Option<u64> {
        claimed_task(self.rest.as_bytes())
    }

    /// Why the item was refused; its outcome where that is another.
    pub(crate) fn code(&self) -> &'a str {
        crate::answer_parser::error_code(self.rest.as_bytes()).unwrap_or(self.outcome)
    }
}

/// The items of an answer; none of a body that is not text.
pub(crate) fn items(body: &[u8]) -> impl Iterator<Item = Item<'_>> {
    // Searching text is several times as fast as comparing every window of bytes, and bodies are long here.
    let mut parts = std::str::from_utf8(body).unwrap_or_default().split(OUTCOME);
    parts.next();
    parts.filter_map(|part| {
        let (outcome, rest) = part.split_once('"')?;
        Some(Item { outcome, rest })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::ids;

    #[test]
    fn outcomes_tasks_and_codes_are_found_in_their_order() {
        let (task, run) = ids(7, 3);
        let body = format!(
            r#"{{"items":[{{"run_id":"{run}","outcome":"claimed","task":{{"id":"{task}","queue":"q"}},"lease_expires_at":"x"}},{{"run_id":"{run}","outcome":"none"}},{{"run_id":"{run}","outcome":"refused","error":{{"code":"run_id_used","message":"m"}}}}]}}"#
        );
        let items: Vec<Item<'_>> = items(body.as_bytes()).collect();
        let seen: Vec<(&str, Option<u64>, &str)> =
            items.iter().map(|item| (item.outcome, item.task(), item.code())).collect();
        assert_eq!(seen, [("claimed", Some(7), "claimed"), ("none", None, "none"), ("refused", None, "run_id_used")]);
    }

    #[test]
    fn an_error_of_the_whole_has_no_items() {
        assert_eq!(items(br#"{"error":{"code":"queue_not_found","message":"m"}}"#).count(), 0);
        assert_eq!(items(b"").count(), 0);
    }
}
