//! Whether the answers of a history are possible: each call took effect at some moment between its beginning and its end.

use std::collections::HashMap;

use super::{Call, Claimed, DELAYED, What};

/// The calls that claimed something, with what they claimed.
fn claims(calls: &[Call]) -> impl Iterator<Item = (&Call, &Claimed)> {
    calls.iter().filter_map(|call| match &call.what {
        What::Claim { answer: Some(claimed) } => Some((call, claimed)),
        _ => None,
    })
}

/// A task was claimed only while each of its dependencies could be one that exists and has succeeded.
pub(super) fn claims_were_allowed(calls: &[Call]) {
    let mut completions: HashMap<usize, Vec<&Call>> = HashMap::new();
    let mut deletions: HashMap<usize, Vec<&Call>> = HashMap::new();
    for call in calls {
        match call.what {
            What::Complete { task, done: true } => completions.entry(task).or_default().push(call),
            What::Delete { task, done: true } => deletions.entry(task).or_default().push(call),
            _ => {}
        }
    }
    for (claim, claimed) in claims(calls) {
        for dependency in &claimed.dependencies {
            let is_gone = |completion: &Call| {
                let after = |deletion: &&&Call| deletion.begun >= completion.ended && deletion.ended <= claim.begun;
                deletions.get(dependency).is_some_and(|deletions| deletions.iter().any(|call| after(&call)))
            };
            let could_be = |completion: &&&Call| completion.begun <= claim.ended && !is_gone(completion);
            let met = completions.get(dependency).is_some_and(|done| done.iter().any(|call| could_be(&call)));
            assert!(met, "task {} was claimed before {dependency} had succeeded", claimed.task);
        }
    }
}

/// No task that was created with a time was claimed before it.
pub(super) fn delayed_tasks_were_not_early(calls: &[Call], times: &[i64]) {
    let mut seen = 0;
    for (_, claimed) in claims(calls).filter(|(_, claimed)| DELAYED.contains(&claimed.task)) {
        let time = times[claimed.task - DELAYED.start];
        assert!(claimed.started_at >= time, "task {} was claimed {} us early", claimed.task, time - claimed.started_at);
        seen += 1;
    }
    assert!(seen > 2, "hardly any delayed task was claimed: {seen}");
}

/// Of two runs of a task, the first one was ended before the second one began, or could have been.
pub(super) fn runs_followed_each_other(calls: &[Call]) {
    let mut ends: HashMap<usize, Vec<&Call>> = HashMap::new();
    for call in calls {
        if let What::Complete { task, .. } | What::End { task } = call.what {
            ends.entry(task).or_default().push(call);
        }
    }
    let mut of_task: HashMap<usize, Vec<(&Call, i64)>> = HashMap::new();
    for (call, claimed) in claims(calls) {
        of_task.entry(claimed.task).or_default().push((call, claimed.started_at));
    }
    for (task, mut runs) in of_task {
        runs.sort_by_key(|(_, started_at)| *started_at);
        for pair in runs.windows(2) {
            let ((first, _), (second, _)) = (pair[0], pair[1]);
            let between = |end: &&Call| end.ended >= first.begun && end.begun <= second.ended;
            let ended = ends.get(&task).is_some_and(|ends| ends.iter().any(between));
            assert!(ended, "task {task} was claimed twice, and nobody had ended its first run");
        }
    }
}

/// Nothing was claimed by a call that began after a pause was acknowledged and ended before anybody asked to end it.
pub(super) fn pauses_were_kept(calls: &[Call]) {
    let mut changes: Vec<(&Call, bool)> = Vec::new();
    for call in calls {
        if let What::Pause { paused } = call.what {
            changes.push((call, paused));
        }
    }
    // One client makes them all, one after the other.
    changes.sort_by_key(|(call, _)| call.begun);
    let pauses = changes.windows(2).filter(|pair| pair[0].1);
    for pair in pauses {
        let (from, to) = (pair[0].0.ended, pair[1].0.begun);
        for (claim, claimed) in claims(calls) {
            let inside = claim.begun >= from && claim.ended <= to;
            assert!(!inside, "task {} was claimed while the queue was paused ({})", claimed.task, claimed.attempt);
        }
    }
}
