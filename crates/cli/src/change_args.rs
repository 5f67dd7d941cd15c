//! The update that the flags of `task update` and `task requeue` describe: new values, and merge patches of args and
//! metadata (RFC 7396), which keep the members that they do not name.

use taskqueue_client::{JsonObject, TaskId, Timestamp, Update};
use taskqueue_core::json::Value;

use crate::args::{ChangeArgs, ObjectArgs, PatchArgs};
use crate::dotted_keys::{DottedMember, set_members};
use crate::failure::Failure;
use crate::json_args::{args_object, checked, checked_name, dotted_members, object, routes};
use crate::scheduling_args;

/// The flags for one of the documents of a task.
#[derive(Clone, Copy, Debug)]
struct Flags {
    set: &'static str,
    unset: &'static str,
    replace: &'static str,
}

const ARGS: Flags = Flags { set: "--arg", unset: "--unset-arg", replace: "--args" };
const METADATA: Flags = Flags { set: "--meta", unset: "--unset-meta", replace: "--metadata" };

/// What `task update` changes; at least something. `after` are the tasks that `--after` and `--after-batch` name.
pub(crate) fn update(given: &ChangeArgs, after: Vec<TaskId>, now: Timestamp) -> Result<Update, Failure> {
    let ChangeArgs { patch, args, args_file, metadata, no_name, result, .. } = given;
    let patches = patches(patch)?;
    let whole = ObjectArgs { args: args.clone(), arg: Vec::new(), args_file: args_file.clone() };
    refuse_both(ARGS, !whole.is_empty(), patches.args_patch.is_some())?;
    refuse_both(METADATA, metadata.is_some(), patches.metadata_patch.is_some())?;
    let new_name = given.name.as_deref().map(checked_name).transpose()?;
    let update = Update {
        name: if *no_name { Some(None) } else { new_name.map(Some) },
        args: (!whole.is_empty()).then(|| args_object(&whole)).transpose()?,
        metadata: metadata.as_deref().map(|text| object(text, METADATA.replace)).transpose()?,
        priority: given.priority,
        max_attempts: given.max_attempts,
        routes: routes(&given.routes)?,
        result: result.as_deref().map(|text| object(text, "--result")).transpose()?,
        ..patches
    };
    let update = scheduling_args::change(update, &given.scheduling, after, now)?;
    if update == Update::default() {
        return Err(Failure::Usage(
            "say what to change, for example --priority 5; see taskqueue task update --help".to_owned(),
        ));
    }
    Ok(update)
}

/// An update that changes single members, or nothing.
pub(crate) fn patches(given: &PatchArgs) -> Result<Update, Failure> {
    Ok(Update {
        args_patch: patch(ARGS, &given.arg, &given.unset_arg)?,
        metadata_patch: patch(METADATA, &given.meta, &given.unset_meta)?,
        ..Update::default()
    })
}

fn patch(flags: Flags, set: &[String], unset: &[String]) -> Result<Option<JsonObject>, Failure> {
    let mut given = dotted_members(flags.set, set)?;
    given.iter().try_for_each(|member| refuse_null(flags, member))?;
    if let Some(key) = unset.iter().find(|key| key.contains('=')) {
        let Flags { unset, replace, .. } = flags;
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

/// A null in a merge patch removes a member, so it cannot be set by one.
fn refuse_null(flags: Flags, member: &DottedMember<'_>) -> Result<(), Failure> {
    if !removes(&member.value) {
        return Ok(());
    }
    let (Flags { set, unset, replace }, key) = (flags, member.key);
    Err(Failure::Usage(format!(
        "{set} {key}: null cannot be set in this way; {unset} {key} removes the member, and {replace} JSON, which replaces \
         everything, can contain null"
    )))
}

/// Whether a merge patch with this value removes something. An array replaces what is there as a whole, nulls included.
fn removes(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.iter().any(|(_, value)| removes(value)),
        _ => false,
    }
}

/// Refused rather than combined: who adds a member to `--args` may not expect that the others are lost.
fn refuse_both(flags: Flags, is_replaced: bool, is_patched: bool) -> Result<(), Failure> {
    let Flags { set, unset, replace } = flags;
    if is_replaced && is_patched {
        return Err(Failure::Usage(format!(
            "{replace} replaces everything, {set} and {unset} change single members and keep the others: use one or the other"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
}
