//! The model passes the suite that it is the oracle of.

use taskqueue_store::conformance::prelude::*;

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
taskqueue_store::conformance_module!(fresh bulk);
taskqueue_store::conformance_module!(fresh bulk_portions);

#[tokio::test]
async fn the_model_agrees_with_itself() {
    for seed in 0..20 {
        taskqueue_store::conformance::agreement::agree(&Memory, seed, 300, false).await;
    }
}
