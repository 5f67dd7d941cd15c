//! What a command needs of the server beyond the contract. A server without it would refuse a field that it does not know; this says
//! it in words, before anything is sent.

use taskqueue_client::{Capabilities, Creation, Scheduling, Update, capabilities};

use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};

/// A feature, and what it is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    feature: &'static str,
    wish: &'static str,
}

pub(super) const ARCHIVE: Need = Need { feature: capabilities::ARCHIVE, wish: "archive tasks" };
pub(super) const EXPLAIN: Need = Need { feature: capabilities::EXPLAIN, wish: "explain why a task waits" };
const DELAY: Need = Need { feature: capabilities::DELAY, wish: "delay tasks (not_before, retry_delay)" };
const TIMEOUT: Need = Need { feature: capabilities::TIMEOUT, wish: "limit the time of runs (timeout_seconds)" };
const DEPENDENCIES: Need =
    Need { feature: capabilities::DEPENDENCIES, wish: "let tasks wait for others (dependencies)" };

/// What a new task needs.
pub(super) fn of_creation(creation: &Creation) -> Vec<Need> {
    let scheduling: &Scheduling = &creation.definition.scheduling;
    let is_delayed = creation.not_before.is_some() || scheduling.retry_delay.is_some();
    let waits = !scheduling.dependencies.is_empty() || scheduling.on_dependency_failure != Default::default();
    needs([(is_delayed, DELAY), (scheduling.timeout_seconds.is_some(), TIMEOUT), (waits, DEPENDENCIES)])
}

/// What an update needs, besides what `merge_updates.rs` looks at.
pub(super) fn of_update(update: &Update) -> Vec<Need> {
    let is_delayed = update.not_before.is_some() || update.retry_delay.is_some();
    needs([
        (is_delayed, DELAY),
        (update.timeout_seconds.is_some(), TIMEOUT),
        (update.changes_waiting(), DEPENDENCIES),
        (update.archived.is_some(), ARCHIVE),
    ])
}

fn needs(candidates: impl IntoIterator<Item = (bool, Need)>) -> Vec<Need> {
    candidates.into_iter().filter_map(|(is_needed, need)| is_needed.then_some(need)).collect()
}

/// What the server lacks, in a sentence.
pub(super) fn lacking(url: &str, capabilities: &Capabilities, needs: &[Need]) -> Option<String> {
    let Need { feature, wish } = needs.iter().find(|need| !capabilities.has(need.feature))?;
    Some(format!("the server at {url} is too old to {wish}: it has no {feature}; update the server"))
}

/// Refuses what the server cannot do. Asks it only if something is needed.
pub(super) async fn require(context: &ClientContext, needs: &[Need]) -> Result<(), CommandError> {
    if needs.is_empty() {
        return Ok(());
    }
    match lacking(&context.url, &context.client.capabilities().await?, needs) {
        Some(sentence) => Err(Failure::Refused(sentence).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Dependencies;
    use taskqueue_client::{Definition, OnDependencyFailure, RetryDelay, SchedulingFields, TaskId, Timestamp};

    use super::*;

    fn creation(fields: SchedulingFields) -> Creation {
        Definition { scheduling: fields.into(), ..Definition::default() }.into()
    }

    #[test]
    fn only_what_is_used_is_needed() {
        let none = SchedulingFields::default;
        let id = TaskId::parse("t_abcdefghijkl").unwrap();
        let cases = [
            (creation(none()), vec![]),
            (Creation { not_before: Some(Timestamp::from_micros(0)), ..Creation::default() }, vec![DELAY]),
            (creation(SchedulingFields { retry_delay: RetryDelay::new(1.0, None, None), ..none() }), vec![DELAY]),
            (creation(SchedulingFields { timeout_seconds: Some(1), ..none() }), vec![TIMEOUT]),
            (
                creation(SchedulingFields { dependencies: Dependencies::new(vec![id]).unwrap(), ..none() }),
                vec![DEPENDENCIES],
            ),
            (
                creation(SchedulingFields { on_dependency_failure: OnDependencyFailure::Cancel, ..none() }),
                vec![DEPENDENCIES],
            ),
        ];
        for (creation, expected) in cases {
            assert_eq!(of_creation(&creation), expected, "{creation:?}");
        }
        assert_eq!(of_update(&Update { priority: Some(1), ..Update::default() }), []);
        assert_eq!(of_update(&Update { timeout_seconds: Some(None), ..Update::default() }), [TIMEOUT]);
        assert_eq!(of_update(&Update { archived: Some(true), ..Update::default() }), [ARCHIVE]);
    }

    #[test]
    fn what_the_server_lacks_is_said_with_what_helps() {
        let old = Capabilities { features: vec!["delay".to_owned()] };
        assert_eq!(lacking("http://x", &old, &[DELAY]), None);
        let sentence = lacking("http://x", &old, &[DELAY, TIMEOUT]).unwrap();
        assert!(sentence.starts_with("the server at http://x is too old to limit the time of runs"), "{sentence}");
        assert!(sentence.ends_with("it has no timeout; update the server"), "{sentence}");
    }
}
