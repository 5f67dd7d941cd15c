//! How much is loaded for pages and metrics about queues: only those that the viewer may see, and of each a few routes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use taskqueue_core::limits::TASK_ROUTES;
use taskqueue_core::stats::RouteSelection;
use taskqueue_store::conformance::model::variant::ModelVariant;
use taskqueue_store::transaction::QueueKey;

use super::*;

/// Tasks of each queue, with as many routes as each may have.
const TASKS: usize = 10;
/// The most that any read may tell one by one, of all its queues.
const TOLD_AT_ONCE: usize = 10_000;

/// A store that takes note of whose figures are asked for, and of how many routes.
struct WatchedStore {
    model: ModelStore,
    asked: Mutex<Vec<(Vec<QueueKey>, usize)>>,
}

impl ModelVariant for WatchedStore {
    fn model(&self) -> &ModelStore {
        &self.model
    }
    fn asked_for_figures(&self, queues: &[QueueKey], routes: &RouteSelection) {
        self.asked.lock().unwrap().push((queues.to_vec(), routes.most()));
    }
}

impl WatchedStore {
    /// Of which queues figures were asked for since the last time.
    async fn queues_asked_for(&self) -> BTreeSet<String> {
        let keys = self.list_queue_keys().await.unwrap();
        let name = |key: &QueueKey| keys.iter().find(|(known, _)| known == key).unwrap().1.to_string();
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let too_much: Vec<_> =
            asked.iter().filter(|(keys, most)| keys.len().saturating_mul(*most) > TOLD_AT_ONCE).collect();
        assert!(too_much.is_empty(), "{too_much:?}");
        asked.iter().flat_map(|(keys, _)| keys.iter().map(name)).collect()
    }
}

/// A server whose queues `mine` and `theirs` have thousands of routes that nobody serves.
async fn with_many_routes() -> (HttpService, Arc<WatchedStore>) {
    let store = Arc::new(WatchedStore { model: model(), asked: Mutex::default() });
    let gate = Gate::new(Token::parse("s3cret"), Some(SharedTokens::new(tokens())));
    let state = state_over(Arc::clone(&store) as Arc<dyn Store>, gate);
    let http = service(state.with_dashboard(secret(1), DashboardMode::Full, false));
    let sent = async |path: String, body: String| {
        let headers = [("authorization", "Bearer s3cret"), ("content-type", "application/json")];
        let answered = asked(&http, "PUT", &path, &headers, &body).await;
        assert_eq!(answered.status, 201, "{path}: {}", text(&answered));
    };
    for queue in ["mine", "theirs"] {
        sent(format!("/api/v2/queues/{queue}"), String::new()).await;
        for task in 0..TASKS {
            let names: Vec<String> = (0..TASK_ROUTES).map(|n| format!("{queue}-{task:02}-{n:03}")).collect();
            let body = serde_json::json!({ "routes": names }).to_string();
            sent(format!("/api/v2/queues/{queue}/tasks/t_{task:0>12}"), body).await;
        }
    }
    (http, store)
}

#[tokio::test]
async fn the_overview_loads_what_its_viewer_sees_and_tells_how_much_more_there_is() {
    let (http, store) = with_many_routes().await;
    for (token, queues, starving) in [("limited", &["mine"][..], 2_560), ("s3cret", &["mine", "theirs"], 5_120)] {
        let cookie = signed_in(&http, token).await;
        let page = get(&http, "/ui/", &[("cookie", &cookie)]).await;
        assert_eq!(page.status, 200);
        assert!(page.body.len() < 64 * 1024, "{}", page.body.len());
        let page = text(&page);
        assert_eq!(page.matches("no worker serves this route").count(), 8);
        assert!(page.contains(&format!("And {} more.", starving - 8)), "{page}");
        assert_eq!(store.queues_asked_for().await, queues.iter().map(|name| (*name).to_owned()).collect());
    }
}

#[tokio::test]
async fn the_other_pages_and_metrics_load_a_few_routes_and_count_all() {
    let (http, store) = with_many_routes().await;
    let cookie = signed_in(&http, "s3cret").await;
    let system = text(&get(&http, "/ui/system", &[("cookie", &cookie)]).await);
    assert_eq!(system.matches(">2560<").count(), 2, "{system}");
    let routes = text(&get(&http, "/ui/queues/mine/routes?find=-255", &[("cookie", &cookie)]).await);
    assert!(routes.contains("<b class=\"error\">2560</b>") && routes.contains("mine-09-255"), "{routes}");
    assert!(!routes.contains("mine-09-254") && !routes.contains("more routes are not shown"));
    let routes = text(&get(&http, "/ui/queues/mine/routes", &[("cookie", &cookie)]).await);
    assert!(routes.contains("2060 more routes are not shown"), "{routes}");
    store.queues_asked_for().await;
    let metrics = text(&get(&http, "/metrics", &[("authorization", "Bearer s3cret")]).await);
    assert_eq!(store.queues_asked_for().await.len(), 2);
    let pending = metrics.lines().filter(|line| line.starts_with("taskqueue_route_tasks{") && line.contains("pending"));
    let counts: Vec<u64> = pending.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    let expected = (100 + 2, 5_120_u64);
    assert_eq!((counts.len(), counts.iter().sum()), expected, "a hundred names, and the rest of each queue");
}
