//! The identity of a worker and its slots, as observations and claims say it, so that a result can be traced to its machine and
//! to its folder after months; and new random ids.

use std::path::Path;
use std::sync::LazyLock;

use taskqueue_client::JsonObject;
use taskqueue_core::ids::{ID_BYTES, RunId, WorkerId};
use taskqueue_core::json::{ObjectWriter, merge_patch, parse};
use taskqueue_core::limits::{CLAIM_WORKER_BYTES, CLAIM_WORKER_ITEM_BYTES};

/// The name of this machine; empty if it is unknown.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    String::from_utf8_lossy(&name).trim().to_owned()
});

/// One slot of this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotIdentity {
    pub(crate) number: usize,
    pub(crate) worker_id: WorkerId,
}

/// The part of the identity that all slots of a worker share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerIdentity<'a> {
    pub(crate) name: Option<&'a str>,
    /// The words of its user. Those of the worker itself win.
    pub(crate) metadata: &'a JsonObject,
    pub(crate) run_dir: Option<&'a Path>,
}

impl WorkerIdentity<'_> {
    /// The metadata of the observations of a slot.
    pub(crate) fn in_observations(&self, slot: &SlotIdentity) -> JsonObject {
        let own = self.place().integer("slot", slot.integer()).text("version", env!("CARGO_PKG_VERSION"));
        merge_patch(self.metadata, &object(own))
    }

    /// The `worker` of the claims of a slot.
    pub(crate) fn in_claims(&self, slot: &SlotIdentity) -> JsonObject {
        self.longest_of(CLAIM_WORKER_BYTES, |own| slot.write(own))
    }

    /// The `worker` of claims of several slots at once, to which each adds what it is: [`SlotIdentity::own_members`].
    pub(crate) fn in_shared_claims(&self) -> JsonObject {
        self.longest_of(CLAIM_WORKER_BYTES - CLAIM_WORKER_ITEM_BYTES, |own| own)
    }

    /// Returns the longest identity that fits, with what `add` writes; what makes it too long for the server is left out: first what its user says, then the
    /// folder, then all but the place.
    fn longest_of(&self, most_bytes: usize, add: impl Fn(ObjectWriter) -> ObjectWriter) -> JsonObject {
        let with_folder = || {
            let folder = self.run_dir.map(|folder| folder.to_string_lossy());
            object(add(folder.iter().fold(self.place(), |own, folder| own.text("folder", folder))))
        };
        let candidates = [
            merge_patch(self.metadata, &with_folder()),
            with_folder(),
            merge_patch(self.metadata, &object(add(self.place()))),
            object(add(self.place())),
        ];
        let fitting = candidates.into_iter().find(|worker| worker.as_str().len() <= most_bytes);
        fitting.unwrap_or_else(|| object(self.place()))
    }

    /// Returns the place of the worker: host, process and name.
    fn place(&self) -> ObjectWriter {
        let place = ObjectWriter::new().text("host", &HOST).integer("pid", std::process::id());
        self.name.iter().fold(place, |place, name| place.text("name", name))
    }
}

impl SlotIdentity {
    /// Returns what the slot adds to the `worker` of claims of several slots.
    pub(crate) fn own_members(&self) -> JsonObject {
        object(self.write(ObjectWriter::new()))
    }

    fn write(&self, own: ObjectWriter) -> ObjectWriter {
        own.integer("slot", self.integer()).text("id", self.worker_id.as_str())
    }

    fn integer(&self) -> i64 {
        i64::try_from(self.number).unwrap_or(i64::MAX)
    }
}

pub(crate) fn object(writer: ObjectWriter) -> JsonObject {
    let text = writer.end();
    parse(&text).ok().and_then(|value| JsonObject::from_value(&value).ok()).unwrap_or_else(JsonObject::empty)
}

/// Returns a new id for a run.
pub(crate) fn new_run_id() -> Result<RunId, String> {
    random_bytes().map(RunId::from_bytes)
}

/// Returns a new id for a slot.
pub(crate) fn new_worker_id() -> Result<WorkerId, String> {
    random_bytes().map(WorkerId::from_bytes)
}

fn random_bytes() -> Result<[u8; ID_BYTES], String> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> SlotIdentity {
        SlotIdentity { number: 3, worker_id: WorkerId::parse("w_000000000001").unwrap() }
    }

    fn worker<'a>(metadata: &'a JsonObject, run_dir: Option<&'a str>) -> WorkerIdentity<'a> {
        WorkerIdentity { name: None, metadata, run_dir: run_dir.map(Path::new) }
    }

    #[test]
    fn it_says_where_the_slot_is() {
        let (pid, empty) = (std::process::id(), JsonObject::empty());
        let seen = worker(&empty, None).in_observations(&slot());
        assert!(seen.as_str().contains(&format!("\"pid\":{pid},\"slot\":3,\"version\":\"")), "{}", seen.as_str());
        assert!(!HOST.is_empty() && seen.as_str().contains(&format!("\"host\":\"{}\"", *HOST)), "{}", seen.as_str());
        let claimed = worker(&empty, Some("/a \"b\"")).in_claims(&slot());
        assert!(claimed.as_str().starts_with(r#"{"folder":"/a \"b\"","host":""#), "{}", claimed.as_str());
        assert!(claimed.as_str().contains("\"id\":\"w_000000000001\""), "{}", claimed.as_str());
    }

    #[test]
    fn its_name_and_what_its_user_says_are_added_and_replace_nothing() {
        let metadata = JsonObject::from_canonical(r#"{"host":"elsewhere","rack":7}"#);
        let worker = WorkerIdentity { name: Some("left"), metadata: &metadata, run_dir: None };
        for said in [worker.in_observations(&slot()), worker.in_claims(&slot()), worker.in_shared_claims()] {
            assert!(said.as_str().contains("\"name\":\"left\""), "{}", said.as_str());
            assert!(said.as_str().contains("\"rack\":7") && !said.as_str().contains("elsewhere"), "{}", said.as_str());
        }
    }

    #[test]
    fn claims_of_several_slots_are_together_what_each_says_alone() {
        let metadata = JsonObject::from_canonical(r#"{"rack":7}"#);
        let worker = worker(&metadata, Some("/runs"));
        let merged = merge_patch(&worker.in_shared_claims(), &slot().own_members());
        assert_eq!(merged, worker.in_claims(&slot()));
        assert!(slot().own_members().as_str().len() <= CLAIM_WORKER_ITEM_BYTES);
    }

    #[test]
    fn a_path_that_is_too_long_is_left_out() {
        let (long, empty) = (format!("/{}", "x".repeat(CLAIM_WORKER_BYTES)), JsonObject::empty());
        for none in [Some(long.as_str()), None] {
            let claimed = worker(&empty, none).in_claims(&slot());
            assert!(!claimed.as_str().contains("folder") && claimed.as_str().contains("host"), "{}", claimed.as_str());
        }
    }

    #[test]
    fn ids_have_their_form_and_differ() {
        assert_ne!(new_run_id().unwrap(), new_run_id().unwrap());
        assert_ne!(new_worker_id().unwrap(), new_worker_id().unwrap());
    }
}
