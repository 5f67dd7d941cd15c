//! `/livez` and `/readyz`: what they say without a token, about a storage that fails, and how often they ask it.

use tokio::time::{Instant, advance};

use crate::support::*;

fn over(store: &Arc<FailingStore>) -> HttpService {
    service(state_over(Arc::<FailingStore>::clone(store), Gate::default()))
}

#[tokio::test]
async fn a_server_that_works_is_alive_and_ready_for_everybody() {
    for http in [server(), guarded_server()] {
        for path in ["/livez", "/readyz"] {
            let answered = call(&http, "GET", path, "").await;
            assert_eq!((answered.status, answered.json()), (200, json!({"status": "ok"})), "{path}");
            assert_eq!(answered.header(VERSION), None);
            assert_eq!(call(&http, "HEAD", path, "").await.body, b"");
            assert_eq!(call(&http, "POST", path, "").await.status, 405);
        }
    }
}

#[tokio::test]
async fn a_server_whose_storage_fails_is_alive_and_not_ready_and_does_not_say_why() {
    let errors = [StoreError::Busy, StoreError::Unavailable, StoreError::Broken("secret of the bug")];
    for error in errors {
        let http = over(&Arc::new(FailingStore::new(Some(error))));
        assert_eq!(call(&http, "GET", "/livez", "").await.status, 200);
        let answered = call(&http, "GET", "/readyz", "").await;
        assert_eq!((answered.status, answered.code().as_str()), (503, "database_unavailable"));
        assert_eq!(answered.details(), json!({}));
        assert_eq!(answered.header("retry-after"), Some("5"));
        assert!(!String::from_utf8_lossy(&answered.body).contains("secret"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_storage_is_asked_once_a_second_however_many_want_to_know() {
    let store = Arc::new(FailingStore::new(Some(StoreError::Unavailable)));
    let http = over(&store);
    for second in 1..=3 {
        for _ in 0..50 {
            assert_eq!(call(&http, "GET", "/readyz", "").await.status, 503);
        }
        assert_eq!(store.checks.load(Ordering::Relaxed), second);
        advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_does_not_answer_is_not_waited_for_for_long() {
    let store = Arc::new(FailingStore::stuck());
    let (http, begun) = (over(&store), Instant::now());
    let (first, second) = tokio::join!(call(&http, "GET", "/readyz", ""), call(&http, "GET", "/readyz", ""));
    assert_eq!([first.status, second.status], [503, 503]);
    assert_eq!((begun.elapsed(), store.checks.load(Ordering::Relaxed)), (Duration::from_secs(2), 1));
}
