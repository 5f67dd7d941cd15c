//! Where a slot is: what observations and claims say, so that a result can be traced to its machine and to its folder after months.

use std::path::Path;
use std::sync::LazyLock;

use taskqueue_client::{JsonObject, WorkerId};
use taskqueue_core::json::{ObjectWriter, parse, write_array, write_integer};
use taskqueue_core::limits::CLAIM_WORKER_BYTES;

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

impl SlotIdentity {
    /// The metadata of its observations.
    pub(crate) fn in_observations(&self) -> JsonObject {
        object(self.place().text("version", env!("CARGO_PKG_VERSION")))
    }

    /// The `worker` of its claims. The run directory is left out if there is none, or if its path is too long for the server.
    pub(crate) fn in_claims(&self, run_dir: Option<&Path>) -> JsonObject {
        let worker = || self.place().text("id", self.worker_id.as_str());
        let with_folder = run_dir.map(|folder| object(worker().text("folder", &folder.to_string_lossy())));
        with_folder.filter(|worker| worker.as_str().len() <= CLAIM_WORKER_BYTES).unwrap_or_else(|| object(worker()))
    }

    /// The same for a claim of several slots at once: it says which slots these are, because it is not yet known which of them runs
    /// which task.
    pub(crate) fn all_in_claims(slots: &[Self], run_dir: Option<&Path>) -> JsonObject {
        let numbers = |out: &mut Vec<u8>| write_array(out, slots, |out, slot| write_integer(out, slot.integer()));
        let folder = run_dir.map(|folder| folder.to_string_lossy());
        let with_folder = || folder.as_ref().map(|folder| host().text("folder", folder));
        // The folder leads to the run, so it is worth more than the slots.
        let candidates = [
            with_folder().map(|worker| worker.field("slots", numbers)),
            with_folder(),
            Some(host().field("slots", numbers)),
        ];
        let mut candidates = candidates.into_iter().flatten().map(object);
        candidates.find(|worker| worker.as_str().len() <= CLAIM_WORKER_BYTES).unwrap_or_else(|| object(host()))
    }

    fn place(&self) -> ObjectWriter {
        host().integer("slot", self.integer())
    }

    fn integer(&self) -> i64 {
        i64::try_from(self.number).unwrap_or(i64::MAX)
    }
}

fn host() -> ObjectWriter {
    ObjectWriter::new().text("host", &HOST).integer("pid", std::process::id())
}

fn object(writer: ObjectWriter) -> JsonObject {
    let text = writer.end();
    parse(&text).ok().and_then(|value| JsonObject::from_value(&value).ok()).unwrap_or_else(JsonObject::empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> SlotIdentity {
        SlotIdentity { number: 3, worker_id: WorkerId::parse("w_000000000001").unwrap() }
    }

    #[test]
    fn it_says_where_the_slot_is() {
        let pid = std::process::id();
        let seen = slot().in_observations();
        assert!(seen.as_str().contains(&format!("\"pid\":{pid},\"slot\":3,\"version\":\"")), "{}", seen.as_str());
        assert!(!HOST.is_empty() && seen.as_str().contains(&format!("\"host\":\"{}\"", *HOST)), "{}", seen.as_str());
        let claimed = slot().in_claims(Some(Path::new("/a \"b\"")));
        assert!(claimed.as_str().starts_with(r#"{"folder":"/a \"b\"","host":""#), "{}", claimed.as_str());
        assert!(claimed.as_str().contains("\"id\":\"w_000000000001\""), "{}", claimed.as_str());
    }

    #[test]
    fn a_claim_of_several_slots_says_which_these_are() {
        let slots = [1, 4].map(|number| SlotIdentity { number, ..slot() });
        let claimed = SlotIdentity::all_in_claims(&slots, Some(Path::new("/runs")));
        assert!(claimed.as_str().starts_with(r#"{"folder":"/runs","host":""#), "{}", claimed.as_str());
        assert!(claimed.as_str().ends_with(r#","slots":[1,4]}"#), "{}", claimed.as_str());
        let long = format!("/{}", "x".repeat(CLAIM_WORKER_BYTES));
        let claimed = SlotIdentity::all_in_claims(&slots, Some(Path::new(&long)));
        assert!(!claimed.as_str().contains("folder") && claimed.as_str().contains("slots"), "{}", claimed.as_str());
        let many = [SlotIdentity { number: 1000, ..slot() }; 1000];
        let claimed = SlotIdentity::all_in_claims(&many, Some(Path::new("/runs")));
        assert!(claimed.as_str().contains("/runs") && !claimed.as_str().contains("slots"), "{}", claimed.as_str());
        let claimed = SlotIdentity::all_in_claims(&many, Some(Path::new(&long)));
        assert!(
            claimed.as_str().starts_with("{\"host\":") && !claimed.as_str().contains("slots"),
            "{}",
            claimed.as_str()
        );
    }

    #[test]
    fn a_path_that_is_too_long_is_left_out() {
        let long = format!("/{}", "x".repeat(CLAIM_WORKER_BYTES));
        for none in [Some(Path::new(&long)), None] {
            let claimed = slot().in_claims(none);
            assert!(!claimed.as_str().contains("folder") && claimed.as_str().contains("host"), "{}", claimed.as_str());
        }
    }
}
