//! Signing in and what the session opens.

use super::*;
use crate::support::lines::Lines;

/// What a cookie is set with, besides its value.
fn attributes(answered: &Answered) -> Vec<String> {
    let header = answered.header("set-cookie").unwrap();
    header.split("; ").skip(1).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn somebody_who_is_not_signed_in_is_sent_to_the_form_and_back() {
    let http = guarded().await;
    let answered = get(&http, "/ui/queues/mine/tasks?filter=args.lr%20%3E%200&x=%22", &[("accept", BROWSER)]).await;
    assert_eq!(answered.status, 303);
    let form = answered.header("location").unwrap().to_owned();
    assert!(form.starts_with("/ui/sign-in?next=%2Fui%2Fqueues%2Fmine%2Ftasks%3F"), "{form}");
    let form = get(&http, &form, &[]).await;
    assert_eq!(form.status, 200);
    assert_page(&form);
    let answered = post(&http, "/ui/sign-in", &[], "next=%2Fui%2Fqueues%2Fmine%2Ftasks%3Fa%3D1&token=s3cret").await;
    assert_eq!((answered.status, answered.header("location")), (303, Some("/ui/queues/mine/tasks?a=1")));
}

#[tokio::test]
async fn the_way_back_leads_to_no_other_place() {
    let http = guarded().await;
    for next in ["https://evil.example/", "//evil.example", "/api/v2/queues", "/ui", "/ui/%0d%0ax: y", "/ui/\\evil", ""]
    {
        let encoded: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answered = post(&http, "/ui/sign-in", &[], &format!("next={encoded}&token=s3cret")).await;
        let location = answered.header("location").unwrap();
        assert!(location == "/ui/" || (location == next && next.starts_with("/ui/")), "{next:?}: {location}");
    }
}

#[tokio::test]
async fn the_cookie_is_for_our_pages_only_and_for_twelve_hours() {
    let answered = post(&guarded().await, "/ui/sign-in", &[], "token=s3cret").await;
    let expected = ["Path=/ui/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"];
    assert_eq!(attributes(&answered), expected);
    let state = state_over(Arc::new(model()), Gate::new(Token::parse("s3cret"), None));
    let state = state.with_dashboard(secret(1), DashboardMode::Full, true);
    let with_tls = post(&service(state), "/ui/sign-in", &[], "token=s3cret").await;
    assert_eq!(attributes(&with_tls), [&expected[..], &["Secure"]].concat());
    let proxied = [("host", "tq.example"), ("origin", "https://tq.example")];
    let behind_proxy = post(&guarded().await, "/ui/sign-in", &proxied, "token=s3cret").await;
    assert_eq!(attributes(&behind_proxy), [&expected[..], &["Secure"]].concat());
}

#[tokio::test]
async fn the_token_is_nowhere_in_what_is_answered() {
    let http = guarded().await;
    let (hex, digest) = (|byte: &u8| format!("{byte:02x}"), digest(b"s3cret"));
    let digest: String = digest.iter().map(hex).collect();
    let mut answers = Vec::new();
    for form in ["token=s3cret", "token=s3cretx", "token=s3cret&next=/ui/system"] {
        answers.push(post(&http, "/ui/sign-in", &[], form).await);
    }
    let cookie = signed_in(&http, "s3cret").await;
    for path in ["/ui/", "/ui/system", "/ui/sign-in", "/ui/queues/mine/tasks"] {
        answers.push(get(&http, path, &[("cookie", &cookie)]).await);
    }
    for answered in answers {
        let all = format!("{:?} {}", answered.headers, text(&answered)).to_lowercase();
        assert!(!all.contains("s3cret") && !all.contains(&digest), "{all}");
    }
}

#[tokio::test]
async fn a_session_opens_the_pages_at_every_server_of_the_installation() {
    let (one, other) = (guarded().await, guarded().await);
    let cookie = signed_in(&one, "s3cret").await;
    for http in [&one, &other] {
        let page = get(http, "/ui/", &[("cookie", &cookie)]).await;
        assert_eq!(page.status, 200);
        assert_page(&page);
        assert!(text(&page).contains("Sign out"));
    }
    let state = state_over(Arc::new(model()), Gate::new(Token::parse("s3cret"), None));
    let state = state.with_dashboard(secret(2), DashboardMode::Full, false);
    let elsewhere = get(&service(state), "/ui/", &[("cookie", &cookie)]).await;
    assert_eq!(elsewhere.status, 303, "another installation");
}

#[tokio::test]
async fn only_a_session_opens_the_pages_and_it_opens_nothing_else() {
    let http = guarded().await;
    let cookie = signed_in(&http, "s3cret").await;
    for headers in [
        &[][..],
        &[("authorization", "Bearer s3cret")],
        &[("cookie", "taskqueue_session=")],
        &[("cookie", "taskqueue_session=s3cret")],
        &[("cookie", "other=1")],
    ] {
        assert_eq!(get(&http, "/ui/", headers).await.status, 303, "{headers:?}");
    }
    // A header that a program or a proxy adds does no harm, and neither do cookies of neighbours.
    let neighbours = format!("a=b; taskqueue_session=x; {cookie}");
    for authorization in ["Bearer s3cret", "Bearer wrong", "Basic eDp5"] {
        let headers = [("cookie", neighbours.as_str()), ("authorization", authorization)];
        assert_eq!(get(&http, "/ui/", &headers).await.status, 200, "{authorization}");
    }
    assert_eq!(get(&http, "/api/v2/queues", &[("cookie", &cookie)]).await.code(), "unauthorized");
    assert_eq!(get(&http, "/metrics", &[("cookie", &cookie)]).await.code(), "unauthorized");
}

#[tokio::test]
async fn a_token_for_some_queues_shows_these_and_no_others() {
    let http = guarded().await;
    let cookie = signed_in(&http, "limited").await;
    let overview = text(&get(&http, "/ui/", &[("cookie", &cookie)]).await);
    assert!(overview.contains("mine") && overview.contains("name-of-limited") && !overview.contains("theirs"));
    for section in ["tasks", "workers", "routes", "compare", "submit", "tasks/t_abcdefghijkl"] {
        let foreign = get(&http, &format!("/ui/queues/theirs/{section}"), &[("cookie", &cookie)]).await;
        let missing = get(&http, &format!("/ui/queues/missing/{section}"), &[("cookie", &cookie)]).await;
        assert_eq!((foreign.status, text(&foreign)), (404, text(&missing)), "{section}");
        assert_page(&foreign);
    }
    assert_eq!(get(&http, "/ui/queues/mine/tasks", &[("cookie", &cookie)]).await.status, 200);
}

#[tokio::test]
async fn a_token_that_cannot_read_is_told_so() {
    let http = guarded().await;
    let refused = post(&http, "/ui/sign-in", &[], "token=worker").await;
    assert_eq!((refused.status, refused.header("set-cookie")), (403, None));
    assert_page(&refused);
    assert!(text(&refused).contains("does not have the scope"));
    assert!(text(&post(&http, "/ui/sign-in", &[], "token=wrong").await).contains("wrong or has expired"));

    // It could read when the session began.
    let shared = SharedTokens::new([named("x", &[Scope::Read], "*")].into_iter().collect());
    let http = pages(Gate::new(None, Some(shared.clone())), DashboardMode::Full);
    let cookie = signed_in(&http, "x").await;
    shared.replace([named("x", &[Scope::Work], "*")].into_iter().collect());
    let page = get(&http, "/ui/", &[("cookie", &cookie)]).await;
    assert_eq!(page.status, 403);
    assert_page(&page);
    assert!(text(&page).contains("scope read") && text(&page).contains("href=\"/ui/sign-in\""));
}

#[tokio::test]
async fn signing_out_removes_the_cookie() {
    let http = guarded().await;
    let cookie = signed_in(&http, "s3cret").await;
    let page = get(&http, "/ui/", &[("cookie", &cookie)]).await;
    let form = format!("form_token={}", form_token(&page));
    let answered = post(&http, "/ui/sign-out", &[("cookie", &cookie)], &form).await;
    assert_eq!((answered.status, answered.header("location")), (303, Some("/ui/sign-in")));
    assert!(answered.header("set-cookie").unwrap().starts_with("taskqueue_session=; Path=/ui/; Max-Age=0;"));
}

#[tokio::test]
async fn without_a_token_everybody_looks_and_nobody_signs_in() {
    let http = open();
    let page = get(&http, "/ui/", &[]).await;
    assert_eq!(page.status, 200);
    assert!(!text(&page).contains("Sign out"));
    let form = get(&http, "/ui/sign-in?next=/ui/system", &[]).await;
    assert_eq!((form.status, form.header("location")), (303, Some("/ui/system")));
}

/// The browser keeps a cookie with `SameSite=Strict` to itself when a link of another site is followed.
#[tokio::test]
async fn a_link_of_another_site_is_opened_once_more_by_our_own_page() {
    let http = guarded().await;
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let again = get(&http, "/ui/queues/mine/tasks?a=%22", &link).await;
    assert_eq!(again.status, 200);
    assert_page(&again);
    assert!(text(&again).contains("content=\"0; url=/ui/queues/mine/tasks?a=%22\""), "{}", text(&again));
    let ours = [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(get(&http, "/ui/queues/mine/tasks", &ours).await.status, 303, "the second time it is the sign-in");
}

#[tokio::test]
async fn who_looks_is_in_the_log_and_what_was_sent_is_not() {
    let (lines, _guard) = Lines::collect();
    let http = guarded().await.log_requests(true);
    let cookie = signed_in(&http, "reader").await;
    post(&http, "/ui/sign-in", &[], "token=hidden&next=/ui/hidden").await;
    get(&http, "/ui/queues/hidden/tasks?filter=hidden", &[("cookie", &cookie)]).await;
    post(&http, "/ui/theme", &[("cookie", &cookie)], "form_token=hidden&theme=hidden").await;
    let text = lines.text();
    assert!(!text.contains("hidden") && !text.contains("token=reader"), "{text}");
    assert!(!text.contains(cookie.split_once('=').unwrap().1), "{text}");
    assert_eq!(text.matches("path=\"/ui/\"").count(), 4, "{text}");
    assert_eq!(text.matches("token=\"name-of-reader\"").count(), 2, "{text}");
}
