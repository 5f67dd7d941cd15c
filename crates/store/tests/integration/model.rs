//! The model passes the suite that it is the oracle of, and the suite leaves none of its own tests out.

use std::sync::Arc;

use taskqueue_store::Store;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::Storage;
use taskqueue_store::conformance::model::ModelStore;

struct Memory;

impl Storage for Memory {
    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(ModelStore::new(Arc::new(clock)))
    }
}

fn fresh() -> Memory {
    Memory
}

taskqueue_store::conformance_suite!(fresh);
taskqueue_store::bulk_suite!(fresh);

#[tokio::test]
async fn the_model_agrees_with_itself() {
    for seed in 0..20 {
        taskqueue_store::conformance::agreement::agree(&Memory, seed, 300, false).await;
    }
}

#[test]
fn every_test_of_the_suite_is_listed_in_its_macro() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
    let lists =
        ["mod.rs", "special_suites.rs"].map(|file| std::fs::read_to_string(format!("{folder}/{file}")).unwrap());
    let listed: Vec<&str> = lists.iter().flat_map(|list| list.lines()).map(str::trim).collect();
    let mut tests = 0;
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let source = std::fs::read_to_string(path).unwrap();
        for line in source.lines() {
            let Some(name) = line.strip_prefix("pub async fn ") else { continue };
            let Some(name) = name.strip_suffix("(storage: &impl Storage) {") else { continue };
            assert!(listed.contains(&name), "{name} is not listed");
            tests += 1;
        }
    }
    assert!(tests > 80, "{tests}");
}
