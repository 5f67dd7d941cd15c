//! The update that the flags of `task update` and `task requeue` describe: new values, and merge patches of args and metadata (RFC 7396),
//! which keep the members that they do not name; and what the flags say of when a task may run, for a new task and as a part of an update.

use taskqueue_client::{Dependencies, JsonObject, Scheduling, SchedulingFields, TaskId, Timestamp, Update};
use taskqueue_core::json::Value;
use taskqueue_core::limits::DEPENDENCIES_MAX;

use crate::args::{ChangeArgs, ObjectArgs, PatchArgs, SchedulingArgs, SchedulingChangeArgs};
use crate::failure::Failure;
use crate::json_args::{DottedMember, args_object, checked, checked_name, dotted_members, object, routes, set_members};

/// The flags for one of the documents of a task.
#[derive(Clone, Copy, Debug)]
struct DocumentFlags {
    set: &'static str,
    unset: &'static str,
    replace: &'static str,
}

const ARGS: DocumentFlags = DocumentFlags { set: "--arg", unset: "--unset-arg", replace: "--args" };
const METADATA: DocumentFlags = DocumentFlags { set: "--meta", unset: "--unset-meta", replace: "--metadata" };

/// Returns what `task update` changes; at least something. `after` are the tasks that `--after` and `--after-batch` name.
pub(crate) fn update(given: &ChangeArgs, after: Vec<TaskId>, now: Timestamp) -> Result<Update, Failure> {
    let ChangeArgs { patch, args, args_file, metadata, no_name, result, .. } = given;
    let patches = patches(patch)?;
    let whole = ObjectArgs { args: args.clone(), arg: Vec::new(), args_file: args_file.clone() };
    refuse_both(ARGS, !whole.is_empty(), patches.args_patch.is_some())?;
    refuse_both(METADATA, metadata.is_some(), patches.metadata_patch.is_some())?;
    let new_name = given.name.as_deref().map(checked_name).transpose()?;
    let SchedulingChangeArgs { new, no_delay, no_retry_delay, no_timeout, no_after } = &given.scheduling;
    // Without a delay a task can be claimed at once.
    let is_at_once = *no_delay || new.delay.is_some_and(|delay| delay.is_zero());
    let update = Update {
        name: if *no_name { Some(None) } else { new_name.map(Some) },
        args: (!whole.is_empty()).then(|| args_object(&whole)).transpose()?,
        metadata: metadata.as_deref().map(|text| object(text, METADATA.replace)).transpose()?,
        priority: given.priority,
        max_attempts: given.max_attempts,
        routes: routes(&given.routes)?,
        result: result.as_deref().map(|text| object(text, "--result")).transpose()?,
        not_before: if is_at_once { Some(None) } else { not_before(new, now).map(Some) },
        retry_delay: if *no_retry_delay { Some(None) } else { new.retry_delay.map(Some) },
        timeout_seconds: if *no_timeout { Some(None) } else { new.timeout.map(Some) },
        dependencies: Some(dependencies(after)?).filter(|after| *no_after || !after.is_empty()),
        on_dependency_failure: new.on_dependency_failure,
        ..patches
    };
    if update == Update::default() {
        return Err(Failure::Usage(
            "say what to change, for example --priority 5; see taskqueue task update --help".to_owned(),
        ));
    }
    Ok(update)
}

/// Returns an update that changes single members, or nothing.
pub(crate) fn patches(given: &PatchArgs) -> Result<Update, Failure> {
    Ok(Update {
        args_patch: patch(ARGS, &given.arg, &given.unset_arg)?,
        metadata_patch: patch(METADATA, &given.meta, &given.unset_meta)?,
        ..Update::default()
    })
}

fn patch(flags: DocumentFlags, set: &[String], unset: &[String]) -> Result<Option<JsonObject>, Failure> {
    let mut given = dotted_members(flags.set, set)?;
    given.iter().try_for_each(|member| refuse_null(flags, member))?;
    if let Some(key) = unset.iter().find(|key| key.contains('=')) {
        let DocumentFlags { unset, replace, .. } = flags;
        let rule = "give the key alone, without a value";
        return Err(Failure::Usage(format!(
            "{unset} {key}: {rule}; a key with = in it can only be removed by {replace} JSON"
        )));
    }
    given.extend(unset.iter().map(|key| DottedMember { flag: flags.unset, key, value: Value::Null }));
    if given.is_empty() {
        return Ok(None);
    }
    let mut members = Vec::new();
    set_members(&mut members, given)?;
    checked(&Value::Object(members), flags.set).map(Some)
}

/// Refuses null, which removes a member in a merge patch, so it cannot be set by one.
fn refuse_null(flags: DocumentFlags, member: &DottedMember<'_>) -> Result<(), Failure> {
    if !removes(&member.value) {
        return Ok(());
    }
    let (DocumentFlags { set, unset, replace }, key) = (flags, member.key);
    Err(Failure::Usage(format!(
        "{set} {key}: null cannot be set in this way; {unset} {key} removes the member, and {replace} JSON, which replaces \
         everything, can contain null"
    )))
}

/// Returns whether a merge patch with this value removes something. An array replaces what is there as a whole, nulls included.
fn removes(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.iter().any(|(_, value)| removes(value)),
        _ => false,
    }
}

/// Refuses a whole and its members together: who adds a member to `--args` may not expect that the others are lost.
fn refuse_both(flags: DocumentFlags, is_replaced: bool, is_patched: bool) -> Result<(), Failure> {
    let DocumentFlags { set, unset, replace } = flags;
    if is_replaced && is_patched {
        return Err(Failure::Usage(format!(
            "{replace} replaces everything, {set} and {unset} change single members and keep the others: use one or the other"
        )));
    }
    Ok(())
}

/// Returns from when on a task can be claimed, if that is not at once.
pub(crate) fn not_before(given: &SchedulingArgs, now: Timestamp) -> Option<Timestamp> {
    let delayed = given.delay.filter(|delay| !delay.is_zero()).map(|delay| now.plus(delay));
    delayed.or(given.not_before)
}

/// Returns what the flags say of when a task may run, for how long, and behind which others. `after` are the tasks that `--after` and `--after-batch` name.
pub(crate) fn scheduling(given: &SchedulingArgs, after: Vec<TaskId>) -> Result<Scheduling, Failure> {
    let fields = SchedulingFields {
        retry_delay: given.retry_delay,
        timeout_seconds: given.timeout,
        dependencies: dependencies(after)?,
        on_dependency_failure: given.on_dependency_failure.unwrap_or_default(),
    };
    Ok(fields.into())
}

fn dependencies(after: Vec<TaskId>) -> Result<Dependencies, Failure> {
    Dependencies::new(after).ok_or_else(too_many)
}

/// Returns the refusal of too many tasks. What to do instead is the same however they were named.
pub(crate) fn too_many() -> Failure {
    Failure::Usage(format!(
        "a task can wait for at most {DEPENDENCIES_MAX} others; wait for them here with taskqueue task wait, or let tasks \
         in between wait for parts of them"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_client::OnDependencyFailure;

    use super::*;

    fn args_patch(set: &[&str], unset: &[&str]) -> Result<String, String> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let given = PatchArgs { arg: owned(set), unset_arg: owned(unset), ..PatchArgs::default() };
        match patches(&given) {
            Ok(update) => Ok(update.args_patch.map_or_else(|| "nothing".to_owned(), |patch| patch.as_str().to_owned())),
            Err(failure) => Err(failure.message().unwrap_or_default().to_owned()),
        }
    }

    #[test]
    fn members_are_set_and_removed_also_inside_of_others() {
        let cases: [(&[&str], &[&str], &str); 5] = [
            (&["lr=0.1", "m.layers=4"], &["m.old", "x"], r#"{"lr":0.1,"m":{"layers":4,"old":null},"x":null}"#),
            (&[r#"m={"a": {}, "b": [null, {"c": null}]}"#], &[], r#"{"m":{"a":{},"b":[null,{"c":null}]}}"#),
            (&["name=none", "empty="], &[], r#"{"empty":"","name":"none"}"#),
            (&[r#"q="null""#], &[], r#"{"q":"null"}"#),
            (&[], &[], "nothing"),
        ];
        for (set, unset, expected) in cases {
            assert_eq!(args_patch(set, unset).as_deref(), Ok(expected), "{set:?} {unset:?}");
        }
    }

    #[test]
    fn what_a_merge_patch_cannot_say_is_refused_with_what_can() {
        for member in ["k=null", "k= null ", r#"k={"a": null}"#, r#"k={"a": {"b": null}}"#, "k.a=null"] {
            let message = args_patch(&[member], &[]).unwrap_err();
            assert!(message.contains("--unset-arg k") && message.contains("--args JSON"), "{member}: {message}");
        }
        for (set, unset) in [(vec!["a=1", "a.b=2"], vec![]), (vec!["a.b=1"], vec!["a"]), (vec!["a=1"], vec!["a"])] {
            assert!(args_patch(&set, &unset).unwrap_err().contains("give one of them"), "{set:?} {unset:?}");
        }
    }

    #[test]
    fn a_member_is_removed_by_its_key_alone() {
        assert!(args_patch(&[], &["a=1"]).unwrap_err().contains("give the key alone"));
    }

    #[test]
    fn a_whole_and_its_members_are_not_given_together() {
        let patch = PatchArgs { arg: vec!["a=1".to_owned()], ..PatchArgs::default() };
        let both = ChangeArgs { patch, args: Some("{}".to_owned()), ..ChangeArgs::default() };
        let update = |given: &ChangeArgs| update(given, Vec::new(), Timestamp::from_micros(0));
        assert!(matches!(update(&both), Err(Failure::Usage(message)) if message.contains("keep the others")));
        assert!(matches!(update(&ChangeArgs::default()), Err(Failure::Usage(message)) if message.contains("say what")));
    }

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn id(n: usize) -> TaskId {
        TaskId::parse(&format!("t_{n:0>12}")).unwrap()
    }

    fn delayed(seconds: u64) -> SchedulingArgs {
        SchedulingArgs { delay: Some(Duration::from_secs(seconds)), ..SchedulingArgs::default() }
    }

    #[test]
    fn a_delay_is_a_time_from_now_on_and_none_is_at_once() {
        assert_eq!(not_before(&delayed(600), NOW), Some(NOW.plus_seconds(600)));
        assert_eq!(not_before(&delayed(0), NOW), None);
        assert_eq!(not_before(&SchedulingArgs::default(), NOW), None);
        let at = SchedulingArgs { not_before: Some(NOW), ..SchedulingArgs::default() };
        assert_eq!(not_before(&at, NOW.plus_seconds(5)), Some(NOW));
        let latest = not_before(&delayed(u64::MAX), NOW).unwrap();
        assert!(latest.to_string().starts_with("9999-12-31T"), "{latest}");
    }

    #[test]
    fn a_task_is_waited_for_once_however_often_it_is_named() {
        let given = SchedulingArgs::default();
        let scheduling = scheduling(&given, vec![id(2), id(1), id(3), id(1)]).unwrap();
        assert_eq!(scheduling.dependencies.as_slice(), [id(1), id(2), id(3)]);
        let refused = super::scheduling(&given, (0..1001).map(id).collect());
        assert!(matches!(refused, Err(Failure::Usage(message)) if message.contains("at most 1000 others; wait")));
    }

    #[test]
    fn an_update_changes_what_is_named_and_takes_away_what_is_not_wanted() {
        let of_scheduling =
            |given: &SchedulingChangeArgs| ChangeArgs { scheduling: given.clone(), ..ChangeArgs::default() };
        let change_after = |given: &SchedulingChangeArgs, after| update(&of_scheduling(given), after, NOW).unwrap();
        let change = |given: &SchedulingChangeArgs| change_after(given, Vec::new());
        let nothing = update(&of_scheduling(&SchedulingChangeArgs::default()), Vec::new(), NOW);
        assert!(matches!(nothing, Err(Failure::Usage(_))), "{nothing:?}");
        let none = SchedulingChangeArgs {
            no_delay: true,
            no_retry_delay: true,
            no_timeout: true,
            no_after: true,
            ..SchedulingChangeArgs::default()
        };
        let cleared = Update {
            not_before: Some(None),
            retry_delay: Some(None),
            timeout_seconds: Some(None),
            dependencies: Some(Dependencies::default()),
            ..Update::default()
        };
        assert_eq!(change(&none), cleared);
        let new = SchedulingArgs {
            timeout: Some(60),
            on_dependency_failure: Some(OnDependencyFailure::Cancel),
            ..delayed(10)
        };
        let changed = Update {
            not_before: Some(Some(NOW.plus_seconds(10))),
            timeout_seconds: Some(Some(60)),
            dependencies: Dependencies::new(vec![id(1)]),
            on_dependency_failure: Some(OnDependencyFailure::Cancel),
            ..Update::default()
        };
        let given = SchedulingChangeArgs { new, ..SchedulingChangeArgs::default() };
        assert_eq!(change_after(&given, vec![id(1)]), changed);
        let at_once = SchedulingChangeArgs { new: delayed(0), ..SchedulingChangeArgs::default() };
        assert_eq!(change(&at_once).not_before, Some(None));
    }
}
