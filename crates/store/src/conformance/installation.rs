//! The secret of an installation (docs/decisions/0061): every store of one database has the same, as long as the database is there.

use super::prelude::*;

pub async fn the_secret_is_the_same_whenever_it_is_asked_for(storage: &impl Storage) {
    let store = Fixture::open(storage).await.store;
    let secret = store.parts().secret.unwrap();
    assert_ne!(secret.as_bytes(), [0; 32]);
    assert_eq!(store.parts().secret, Some(secret));
}

pub async fn a_fresh_store_has_no_queue(storage: &impl Storage) {
    let store = Fixture::open(storage).await.store;
    assert_eq!(store.list_queues().await, Ok(vec![]));
    assert_eq!(store.check().await, Ok(vec![]));
}
