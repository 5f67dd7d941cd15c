//! The pages of the dashboard as the server gives them out: who sees them, which forms are taken, what a browser keeps, and that
//! programs notice nothing of it.

mod actions;
mod commands;
mod figures;
mod forgery;
mod sessions;

use taskqueue_core::access::{Grant, QueuePattern, Scope};
use taskqueue_server::DashboardMode;
use taskqueue_server::auth::{Gate, NamedToken, SharedTokens, Token, TokenDigest, TokenSet, digest};
use taskqueue_store::InstallationSecret;

use crate::support::*;

/// What a browser accepts.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

fn secret(byte: u8) -> InstallationSecret {
    InstallationSecret::from_bytes(&[byte; 32]).unwrap()
}

fn named(token: &str, scopes: &[Scope], queue: &str) -> (TokenDigest, NamedToken) {
    let queues = QueuePattern::parse(queue).into_iter().collect();
    let grant = Grant { scopes: scopes.iter().copied().collect(), queues };
    (digest(token.as_bytes()), NamedToken::new(&format!("name-of-{token}"), grant, None))
}

/// `reader` sees all queues, `limited` one of them, `worker` none.
fn tokens() -> TokenSet {
    let all = [named("reader", &[Scope::Read], "*"), named("limited", &[Scope::Read, Scope::Submit], "mine")];
    all.into_iter().chain([named("worker", &[Scope::Work], "*")]).collect()
}

fn pages(gate: Gate, mode: DashboardMode) -> HttpService {
    service(state_over(Arc::new(model()), gate).with_dashboard(secret(1), mode, false))
}

/// A server without a token.
fn open() -> HttpService {
    pages(Gate::default(), DashboardMode::Full)
}

/// A server with the token `s3cret` and those of [`tokens`], and with the queues `mine` and `theirs`.
async fn guarded() -> HttpService {
    guarded_in(DashboardMode::Full).await
}

async fn guarded_in(mode: DashboardMode) -> HttpService {
    let http = pages(Gate::new(Token::parse("s3cret"), Some(SharedTokens::new(tokens()))), mode);
    for queue in ["mine", "theirs"] {
        let request = Request::put(format!("/api/v2/queues/{queue}")).header("authorization", "Bearer s3cret");
        assert_eq!(send(&http, request.header("host", "localhost").body(Body::empty()).unwrap()).await.status, 201);
    }
    http
}

async fn get(http: &HttpService, path: &str, headers: &[(&str, &str)]) -> Answered {
    asked(http, "GET", path, headers, "").await
}

/// Sends a form.
async fn post(http: &HttpService, path: &str, headers: &[(&str, &str)], form: &str) -> Answered {
    let headers = [&[("content-type", "application/x-www-form-urlencoded")], headers].concat();
    asked(http, "POST", path, &headers, form).await
}

async fn asked(http: &HttpService, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answered {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost:8000");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(http, request.body(Body::from(body.to_owned())).unwrap()).await
}

/// Signs in and returns the header that the browser sends from then on.
async fn signed_in(http: &HttpService, token: &str) -> String {
    let answered = post(http, "/ui/sign-in", &[], &format!("token={token}")).await;
    assert_eq!(answered.status, 303, "{}", text(&answered));
    answered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

fn text(answered: &Answered) -> String {
    String::from_utf8_lossy(&answered.body).into_owned()
}

/// The secret that the forms of a page carry.
fn form_token(answered: &Answered) -> String {
    let page = text(answered);
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A page for people: HTML that no other page can frame and that executes nothing of others.
fn assert_page(answered: &Answered) {
    assert_eq!(answered.header("content-type"), Some("text/html; charset=utf-8"), "{}", text(answered));
    let policy = answered.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(answered.header("x-frame-options"), Some("DENY"));
    assert_eq!(answered.header("x-content-type-options"), Some("nosniff"));
    assert!(text(answered).starts_with("<!doctype html>"));
}

#[tokio::test]
async fn browsers_get_from_the_root_to_the_pages_and_programs_get_what_they_always_got() {
    for http in [open(), guarded().await] {
        for path in ["/", "/ui"] {
            let answered = get(&http, path, &[("accept", BROWSER)]).await;
            assert_eq!((answered.status, answered.header("location")), (303, Some("/ui/")), "{path}");
        }
        assert_eq!(asked(&http, "HEAD", "/", &[("accept", BROWSER)], "").await.status, 303);
        for accept in [None, Some("*/*"), Some("application/json"), Some("application/json, text/html")] {
            let headers: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
            let answered = get(&http, "/", &headers).await;
            assert_eq!((answered.status, answered.code().as_str()), (404, "not_found"), "{accept:?}");
            let without = get(&server(), "/", &headers).await;
            assert_eq!(answered.body, without.body);
            let names = |answered: &Answered| answered.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(names(&answered), names(&without));
        }
        assert_eq!(asked(&http, "POST", "/", &[("accept", BROWSER)], "").await.code(), "not_found");
    }
}

#[tokio::test]
async fn an_asset_has_one_type() {
    let http = open();
    let style = get(&http, "/ui/assets/x/style.css", &[("accept", BROWSER)]).await;
    let types: Vec<_> = style.headers.get_all("content-type").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!((style.status, types.as_slice()), (200, &["text/css; charset=utf-8"][..]));
}

#[tokio::test]
async fn without_a_dashboard_there_is_nothing_under_ui() {
    let http = pages(Gate::new(Token::parse("s3cret"), None), DashboardMode::Off);
    for path in ["/", "/ui", "/ui/", "/ui/sign-in", "/ui/system", "/ui/assets/x/style.css"] {
        let answered = get(&http, path, &[("accept", BROWSER)]).await;
        assert_eq!((answered.status, answered.code().as_str()), (404, "not_found"), "{path}");
    }
    assert_eq!(post(&http, "/ui/sign-in", &[], "token=s3cret").await.code(), "not_found");
}

#[tokio::test]
async fn every_refusal_is_a_page_under_ui_and_json_elsewhere() {
    let http = open();
    let cases = [
        ("GET", "/ui/nothing-here", 404),
        ("GET", "/ui//x", 404),
        ("GET", "/ui/a%2fb", 404),
        ("POST", "/ui", 404),
        ("DELETE", "/ui/", 405),
        ("PUT", "/ui/sign-in", 405),
    ];
    for (method, path, status) in cases {
        let answered = asked(&http, method, path, &[], "").await;
        assert_eq!(answered.status, status, "{method} {path}");
        assert_page(&answered);
    }
    let foreign = get(&http, "/ui/", &[("host", "evil.example")]).await;
    assert_eq!(foreign.status, 403);
    assert_page(&foreign);
    assert!(text(&foreign).contains("--allow-host"));
    let without_host = send(&http, Request::get("/ui/").body(Body::empty()).unwrap()).await;
    assert_eq!(without_host.status, 400);
    assert_page(&without_host);
    assert_eq!(get(&http, "/api/v2/queues", &[("host", "evil.example")]).await.code(), "forbidden");
    assert_eq!(asked(&http, "DELETE", "/health", &[], "").await.code(), "method_not_allowed");
}

#[tokio::test]
async fn a_page_that_panics_is_a_page_that_says_so() {
    let state = state_over(Arc::new(FailingStore::new(None)), Gate::default());
    let http = service(state.with_dashboard(secret(1), DashboardMode::Full, false));
    let answered = get(&http, "/ui/queues/q/workers", &[]).await;
    assert_eq!(answered.status, 500);
    assert_page(&answered);
    assert!(!text(&answered).contains("secret of the panic"));
}

#[tokio::test]
async fn pages_are_counted_under_one_name() {
    let http = open();
    for path in ["/ui/", "/ui/system", "/ui/queues/some-name/tasks", "/ui/nothing"] {
        get(&http, path, &[]).await;
    }
    let metrics = text(&get(&http, "/metrics", &[]).await);
    assert!(metrics.contains("path=\"/ui/\""), "{metrics}");
    assert!(!metrics.contains("some-name") && !metrics.contains("path=\"/ui/system\""));
}
