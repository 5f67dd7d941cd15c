//! The secret of an installation where storage outlives a store.

use super::prelude::*;

pub async fn the_secret_outlives_the_store(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    let secret = fixture.store.parts().secret.unwrap();
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.store.parts().secret, Some(secret));
}
