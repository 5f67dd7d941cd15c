//! Work that takes longer than others should wait for it, on a thread of its own.

use crate::problem::Problem;

/// Does it there. It goes on when nobody waits for it any more.
pub(crate) async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a part of a page could not be made");
        Problem::mistake()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_go_on_meanwhile_and_a_panic_is_a_page() {
        let (send, receive) = std::sync::mpsc::channel();
        // On the thread of the others this would wait for itself.
        let work = elsewhere(move || receive.recv_timeout(std::time::Duration::from_secs(20)));
        let (done, sent) = tokio::join!(work, async move { send.send(7) });
        assert_eq!((done, sent), (Ok(Ok(7)), Ok(())));
        assert!(elsewhere::<u8>(|| panic!("a mistake")).await.is_err());
    }
}
