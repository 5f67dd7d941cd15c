//! `/metrics`: the format, what is counted, the bounds of labels, and answers without a database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::http::HeaderValue;
use taskqueue_server::metrics::list::{self, Metric};
use tokio::time::{Instant, advance};

use super::*;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The samples of a scrape: `name{labels}` and the value.
#[derive(Clone, Debug, PartialEq)]
struct Scrape {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    /// Fails if a line has no place in the format, a series occurs twice, or one has no type.
    fn read(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("the mark of the end");
        let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
        for line in body.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').unwrap();
                assert_eq!(types.insert(name.to_owned(), kind.to_owned()), None, "{name} twice");
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(samples.insert(series.to_owned(), value.parse().unwrap()), None, "{series} twice");
            }
        }
        let scrape = Self { types, samples };
        scrape.samples.keys().for_each(|series| assert!(!scrape.kind(series).is_empty(), "{series}"));
        scrape
    }

    fn kind(&self, series: &str) -> &str {
        let name = series.split('{').next().unwrap();
        let family = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let declared = self.types.get(name).or_else(|| self.types.get(family.unwrap_or_default()));
        declared.unwrap_or_else(|| panic!("{series} has no type"))
    }

    fn get(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The values of a label among all series.
    fn label_values(&self, label: &str) -> BTreeSet<&str> {
        let values = self.samples.keys().filter_map(|series| {
            let (_, rest) = series.split_once(&format!("{label}=\""))?;
            rest.split('"').next()
        });
        values.collect()
    }
}

/// The type of what is given to a client that takes this, and the text.
async fn accepting(http: &HttpService, accept: Option<&'static str>) -> (String, String) {
    let mut request = Request::get("/metrics").header("host", "localhost").body(Body::empty()).unwrap();
    let accept = accept.map(HeaderValue::from_static);
    accept.map(|accept| request.headers_mut().insert("accept", accept));
    let answered = send(http, request).await;
    assert_eq!((answered.status, answered.header("vary")), (200, Some("accept")));
    let given = answered.header("content-type").unwrap().to_owned();
    (given, String::from_utf8(answered.body).unwrap())
}

async fn scrape(http: &HttpService) -> Scrape {
    let (given, text) = accepting(http, Some("application/openmetrics-text")).await;
    assert_eq!(given, OPEN_METRICS);
    Scrape::read(&text)
}

/// The text is given to all for a second.
async fn next_scrape(http: &HttpService) -> Scrape {
    advance(Duration::from_secs(1)).await;
    scrape(http).await
}

async fn create(http: &HttpService, queue: &str, number: usize, route: &str) {
    let path = format!("/api/v2/queues/{queue}/tasks/t_{number:012}");
    expect(http, StatusCode::CREATED, "PUT", &path, &format!(r#"{{"routes":["{route}"]}}"#)).await;
}

#[tokio::test]
async fn metrics_answer_get_and_head_without_the_version() {
    let http = server();
    let get = call(&http, "GET", "/metrics", "").await;
    let head = call(&http, "HEAD", "/metrics", "").await;
    assert_eq!((get.status, head.status, head.body.len()), (200, 200, 0));
    assert_eq!(head.header("content-type"), Some(PLAIN));
    assert_eq!(get.header(VERSION), None);
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let refused = call(&http, method, "/metrics", "").await;
        assert_eq!((refused.status, refused.code().as_str()), (405, "method_not_allowed"), "{method}");
    }
    for path in ["/metrics/", "/metrics/x", "/api/metrics"] {
        assert_eq!(call(&http, "GET", path, "").await.status, 404, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_format_follows_accept_and_both_have_the_same_series() {
    let http = with_queue().await;
    create(&http, "q", 1, "r").await;
    scrape(&http).await;
    let open = next_scrape(&http).await;
    for accept in [None, Some("text/plain"), Some("*/*"), Some("text/plain;q=1,application/openmetrics-text;q=0.5")] {
        let (given, text) = accepting(&http, accept).await;
        assert_eq!(given, PLAIN, "{accept:?}");
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{accept:?}");
        let plain = Scrape::read(&(text + "# EOF\n"));
        assert!(plain.samples.keys().eq(open.samples.keys()), "{accept:?}");
        let listed: BTreeMap<String, String> =
            list::ALL.iter().map(|metric| (metric.name.to_owned(), metric.kind.as_str().to_owned())).collect();
        assert_eq!(plain.types, listed, "counters are declared with their whole name");
    }
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    assert_eq!(accepting(&http, Some(prometheus)).await.0, OPEN_METRICS);
}

#[tokio::test(start_paused = true)]
async fn pending_tasks_are_shown_by_what_they_wait_for_and_limits_beside_them() {
    let http = with_queue().await;
    create(&http, "q", 1, "r").await;
    for (number, waits) in [(2, r#""not_before":"2100-01-01T00:00:00Z""#), (3, r#""dependencies":["t_000000000001"]"#)]
    {
        let path = format!("/api/v2/queues/q/tasks/t_{number:012}");
        expect(&http, StatusCode::CREATED, "PUT", &path, &format!(r#"{{"routes":["other-r"],{waits}}}"#)).await;
    }
    let open = scrape(&http).await;
    let settings = r#"{"paused":true,"max_running":5,"route_limits":{"r":2}}"#;
    expect(&http, StatusCode::OK, "PATCH", "/api/v2/queues/q/settings", settings).await;
    let paused = next_scrape(&http).await;
    let cases = [
        (r#"taskqueue_pending_tasks{queue="q",state="claimable"}"#, Some(1.0), Some(0.0)),
        (r#"taskqueue_pending_tasks{queue="q",state="delayed"}"#, Some(1.0), Some(1.0)),
        (r#"taskqueue_pending_tasks{queue="q",state="blocked"}"#, Some(1.0), Some(1.0)),
        (r#"taskqueue_pending_tasks{queue="q",state="paused"}"#, Some(0.0), Some(1.0)),
        (r#"taskqueue_queue_paused{queue="q"}"#, Some(0.0), Some(1.0)),
        (r#"taskqueue_queue_running_limit{queue="q"}"#, None, Some(5.0)),
        (r#"taskqueue_route_running_limit{queue="q",route="r"}"#, None, Some(2.0)),
        (r#"taskqueue_route_running_limit{queue="q",route="other-r"}"#, None, None),
        (r#"taskqueue_oldest_claimable_seconds{queue="q",route="other-r"}"#, None, None),
    ];
    for (series, before, after) in cases {
        assert_eq!((open.get(series), paused.get(series)), (before, after), "{series}");
    }
    let oldest = |scrape: &Scrape, name: &str| scrape.get(&format!(r#"{name}{{queue="q",route="r"}}"#)).is_some();
    for (scrape, is_claimable) in [(&open, true), (&paused, false)] {
        assert!(oldest(scrape, "taskqueue_oldest_pending_seconds"));
        assert_eq!(oldest(scrape, "taskqueue_oldest_claimable_seconds"), is_claimable);
    }
    assert_eq!(open.get("taskqueue_tls_certificate_expires_seconds"), None, "there is no TLS");
}

#[tokio::test]
async fn metrics_need_the_token_where_there_is_one() {
    let http = guarded_server();
    let request = |path: &str, authorization: Option<&str>| {
        let request = Request::get(path).header("host", "localhost");
        let request = authorization.into_iter().fold(request, |request, value| request.header("authorization", value));
        request.body(Body::empty()).unwrap()
    };
    for (path, authorization) in
        [("/metrics", None), ("/metrics", Some("Bearer wrong")), ("/%6detrics", None), ("/metrics?x=s3cret", None)]
    {
        let answered = send(&http, request(path, authorization)).await;
        assert_eq!((answered.status, answered.code().as_str()), (401, "unauthorized"), "{path} {authorization:?}");
        assert_eq!((answered.header("www-authenticate"), answered.header(VERSION)), (Some("Bearer"), None));
    }
    let answered = send(&http, request("/metrics", Some("Bearer s3cret"))).await;
    assert_eq!((answered.status, answered.header(VERSION)), (200, None));
}

#[tokio::test(start_paused = true)]
async fn every_metric_of_the_list_is_shown_and_no_other() {
    let http = with_queue().await;
    create(&http, "q", 1, "r").await;
    let scrape = scrape(&http).await;
    let family = |metric: &Metric| metric.name.strip_suffix("_total").unwrap_or(metric.name).to_owned();
    let listed: BTreeMap<String, String> =
        list::ALL.iter().map(|metric| (family(metric), metric.kind.as_str().to_owned())).collect();
    assert_eq!(scrape.types, listed);
    for series in scrape.samples.keys() {
        let name = series.split('{').next().unwrap();
        let metric = list::ALL.iter().find(|metric| {
            let suffixes = ["_bucket", "_sum", "_count"].iter().filter_map(|suffix| name.strip_suffix(suffix));
            [name].into_iter().chain(suffixes).any(|name| name == metric.name)
        });
        let metric = metric.unwrap_or_else(|| panic!("{series}"));
        let labels = series.split_once('{').map_or("", |(_, labels)| labels);
        let labels: BTreeSet<&str> = labels.split("\",").filter_map(|label| Some(label.split_once("=\"")?.0)).collect();
        let known: BTreeSet<&str> = metric.labels.iter().copied().collect();
        assert_eq!(labels.difference(&BTreeSet::from(["le"])).copied().collect::<BTreeSet<_>>(), known, "{series}");
    }
}

#[test]
fn the_reference_has_every_metric_with_its_type_labels_and_meaning() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reference/metrics.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = list::ALL
        .iter()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
            format!("| `{}` | {} | {labels} | {} |", metric.name, metric.kind.as_str(), metric.help)
        })
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn names_follow_the_conventions() {
    for metric in list::ALL {
        let Metric { name, kind, labels, help } = metric;
        assert!(name.starts_with("taskqueue_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), kind.as_str() == "counter", "{name}");
        assert!(help.ends_with('.') && !help.contains(['\n', '\\', '|']), "{name}: {help}");
        assert!(!labels.iter().any(|label| label.ends_with("id") || *label == "le"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_tasks_and_requests_is_counted() {
    let http = with_queue().await;
    create(&http, "q", 1, "gpu").await;
    create(&http, "q", 2, "gpu").await;
    let claim = format!(r#"{{"route":"gpu","run_id":"{RUN}"}}"#);
    expect(&http, StatusCode::OK, "POST", "/api/v2/queues/q/tasks/claim", &claim).await;
    let report = r#"{"route":"gpu","status":"busy","task_id":"t_000000000001"}"#;
    expect(&http, StatusCode::NO_CONTENT, "PUT", &format!("/api/v2/queues/q/workers/{WORKER}"), report).await;
    expect(&http, StatusCode::NOT_FOUND, "GET", "/api/v2/queues/q/tasks/t_000000000009", "").await;
    expect(&http, StatusCode::NOT_FOUND, "GET", "/secret/path", "").await;
    let scrape = scrape(&http).await;
    let expected = [
        (r#"taskqueue_tasks{queue="q",status="pending"}"#, 1.0),
        (r#"taskqueue_tasks{queue="q",status="running"}"#, 1.0),
        (r#"taskqueue_tasks{queue="q",status="failed"}"#, 0.0),
        (r#"taskqueue_route_tasks{queue="q",route="gpu",status="running"}"#, 1.0),
        (r#"taskqueue_oldest_pending_seconds{queue="q",route="gpu"}"#, 0.0),
        (r#"taskqueue_workers{queue="q",route="gpu",status="busy"}"#, 1.0),
        (r#"taskqueue_workers{queue="q",route="gpu",status="idle"}"#, 0.0),
        (r#"taskqueue_task_events_total{queue="q",event="created"}"#, 2.0),
        (r#"taskqueue_task_events_total{queue="q",event="claimed"}"#, 1.0),
        (r#"taskqueue_task_events_total{queue="q",event="expired"}"#, 0.0),
        (r#"taskqueue_task_wait_seconds_count{queue="q"}"#, 1.0),
        (r#"taskqueue_task_run_seconds_count{queue="q"}"#, 0.0),
        (r#"taskqueue_http_requests_total{method="POST",path="/api/v2/queues/{queue}/tasks/claim",status="200"}"#, 1.0),
        (r#"taskqueue_http_requests_total{method="GET",path="unmatched",status="404"}"#, 1.0),
        (r#"taskqueue_http_errors_total{code="task_not_found"}"#, 1.0),
        (r#"taskqueue_http_errors_total{code="database_busy"}"#, 0.0),
        ("taskqueue_ready", 1.0),
        ("taskqueue_figures_up", 1.0),
        (r#"taskqueue_waiting_requests{kind="claim"}"#, 0.0),
    ];
    for (series, value) in expected {
        assert_eq!(scrape.get(series), Some(value), "{series}");
    }
    let text = format!("{:?}", scrape.samples.keys());
    for secret in ["t_0000", RUN, WORKER, "secret"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[tokio::test(start_paused = true)]
async fn counters_never_shrink_and_buckets_add_up() {
    let http = with_queue().await;
    create(&http, "q", 1, "r").await;
    let before = scrape(&http).await;
    for (number, status) in [(2, StatusCode::CREATED), (2, StatusCode::OK)] {
        let path = format!("/api/v2/queues/q/tasks/t_{number:012}");
        expect(&http, status, "PUT", &path, r#"{"routes":["r"]}"#).await;
    }
    let after = next_scrape(&http).await;
    for (series, value) in &before.samples {
        if before.kind(series) != "gauge" {
            assert!(after.get(series).unwrap() >= *value, "{series}");
        }
    }
    for (series, count) in
        after.samples.iter().filter(|(series, _)| series.contains("_bucket{") && series.contains("+Inf"))
    {
        let total = series.replace("_bucket{", "_count{").replace(r#"le="+Inf","#, "").replace(r#"{le="+Inf"}"#, "");
        assert_eq!(after.get(&total), Some(*count), "{series} {total}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scrape_is_shared_for_a_second() {
    let http = server();
    let first = scrape(&http).await;
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    advance(Duration::from_millis(999)).await;
    assert_eq!(scrape(&http).await, first);
    advance(Duration::from_millis(1)).await;
    assert!(scrape(&http).await.label_values("queue").contains("q"));
}

#[tokio::test]
async fn without_a_database_the_rest_is_shown() {
    let http = service(state_over(Arc::new(FailingStore::new(Some(StoreError::Unavailable))), Gate::default()));
    assert_eq!(call(&http, "GET", "/health", "").await.status, 503);
    let scrape = scrape(&http).await;
    let expected = [
        ("taskqueue_ready", Some(0.0)),
        ("taskqueue_figures_up", Some(0.0)),
        ("taskqueue_database_bytes", None),
        (r#"taskqueue_http_requests_total{method="GET",path="/health",status="503"}"#, Some(1.0)),
    ];
    for (series, value) in expected {
        assert_eq!(scrape.get(series), value, "{series}");
    }
    assert!(scrape.get("process_resident_memory_bytes").unwrap() > 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_hangs_is_asked_once_for_all_and_given_up_after_five_seconds() {
    let store = Arc::new(FailingStore::stuck());
    let http = service(state_over(store.clone(), Gate::default()));
    let begun = Instant::now();
    let scrapers: Vec<_> = (0..20)
        .map(|_| {
            let http = http.clone();
            tokio::spawn(async move { scrape(&http).await })
        })
        .collect();
    for scraper in scrapers {
        assert_eq!(scraper.await.unwrap().get("taskqueue_figures_up"), Some(0.0));
    }
    assert!((5..6).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(store.asked_for_figures.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_scraper_that_leaves_lets_the_next_one_ask() {
    let store = Arc::new(FailingStore::stuck());
    let http = service(state_over(store.clone(), Gate::default()));
    let first = tokio::time::timeout(Duration::from_secs(1), scrape(&http)).await;
    assert!(first.is_err());
    assert_eq!(scrape(&http).await.get("taskqueue_ready"), Some(0.0));
    assert_eq!(store.asked_for_figures.load(Ordering::SeqCst), 2);
}
