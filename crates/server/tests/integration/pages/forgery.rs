//! Forms that did not come from a page of the viewer are refused, whoever has sent them.

use super::*;

const FORM: &str = "theme=dark";

/// A viewer of a server: what their browser sends, and what their forms carry.
struct Viewer {
    http: HttpService,
    cookie: String,
    form_token: String,
}

impl Viewer {
    async fn at(http: HttpService, cookie: String) -> Self {
        let form_token = form_token(&get(&http, "/ui/", &[("cookie", &cookie)]).await);
        Self { http, cookie, form_token }
    }

    /// Sends a form of their own with these headers.
    async fn send(&self, headers: &[(&str, &str)]) -> Answered {
        let headers = [&[("cookie", self.cookie.as_str())], headers].concat();
        post(&self.http, "/ui/theme", &headers, &format!("{FORM}&form_token={}", self.form_token)).await
    }
}

/// With the server-wide token, with one that has a name, and without any.
async fn viewers() -> Vec<Viewer> {
    let mut viewers = vec![Viewer::at(open(), "other=1".to_owned()).await];
    for token in ["s3cret", "limited"] {
        let http = guarded().await;
        let cookie = signed_in(&http, token).await;
        viewers.push(Viewer::at(http, cookie).await);
    }
    viewers
}

#[tokio::test]
async fn a_form_of_our_own_page_is_taken() {
    for viewer in viewers().await {
        for headers in [
            &[][..],
            &[("origin", "http://localhost:8000")],
            &[("origin", "http://localhost:8000"), ("sec-fetch-site", "same-origin")],
        ] {
            let answered = viewer.send(headers).await;
            assert_eq!(answered.status, 303, "{headers:?}: {}", text(&answered));
            assert!(answered.header("set-cookie").unwrap().starts_with("taskqueue_theme=dark;"));
        }
    }
}

#[tokio::test]
async fn a_form_of_another_origin_or_site_is_refused_even_with_everything_else_right() {
    let foreign = [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:9000"),
        ("origin", "http://localhost"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];
    for viewer in viewers().await {
        for header in foreign {
            let answered = viewer.send(&[header]).await;
            assert_eq!((answered.status, answered.header("set-cookie")), (403, None), "{header:?}");
            assert_page(&answered);
        }
    }
}

/// Otherwise a foreign page could sign a browser in with a token of its own, and watch what is done with it.
#[tokio::test]
async fn a_foreign_page_cannot_sign_anybody_in() {
    let http = guarded().await;
    for header in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let answered = post(&http, "/ui/sign-in", &[header], "token=s3cret").await;
        assert_eq!((answered.status, answered.header("set-cookie")), (403, None), "{header:?}");
        assert_page(&answered);
    }
}

#[tokio::test]
async fn a_form_without_the_secret_of_its_viewer_is_refused() {
    let all = viewers().await;
    for viewer in &all {
        let cut = &viewer.form_token[1..];
        let others = all.iter().map(|other| other.form_token.as_str()).filter(|other| *other != viewer.form_token);
        for wrong in ["", "x", cut].into_iter().chain(others) {
            let form = format!("{FORM}&form_token={wrong}");
            let answered = post(&viewer.http, "/ui/theme", &[("cookie", &viewer.cookie)], &form).await;
            assert_eq!((answered.status, answered.header("set-cookie")), (403, None), "{wrong:?}");
            assert_page(&answered);
        }
        let without = post(&viewer.http, "/ui/theme", &[("cookie", &viewer.cookie)], FORM).await;
        assert_eq!((without.status, without.header("set-cookie")), (403, None));
    }
}

/// A page may send plain text anywhere without being asked; only forms are read.
#[tokio::test]
async fn other_content_than_a_form_is_refused() {
    for viewer in viewers().await {
        let body = format!("{FORM}&form_token={}", viewer.form_token);
        for kind in ["text/plain", "application/json", "multipart/form-data; boundary=x"] {
            let headers = [("cookie", viewer.cookie.as_str()), ("content-type", kind)];
            let answered = asked(&viewer.http, "POST", "/ui/theme", &headers, &body).await;
            assert_eq!((answered.status, answered.header("set-cookie")), (422, None), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_form_of_somebody_without_a_session_leads_to_the_sign_in_and_does_nothing() {
    let http = guarded().await;
    let answered = post(&http, "/ui/theme", &[], FORM).await;
    assert_eq!((answered.status, answered.header("location")), (303, Some("/ui/sign-in")));
    assert_eq!(answered.header("set-cookie"), None);
}

/// Without a token a page that is opened by a link shows itself to whoever opened it; what fetches it for another page is refused.
#[tokio::test]
async fn without_a_token_links_may_lead_here_and_foreign_pages_fetch_nothing() {
    let http = open();
    let sent = |mode: &'static str, dest: &'static str| {
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]
    };
    assert_eq!(get(&http, "/ui/", &sent("navigate", "document")).await.status, 200);
    for (mode, dest) in [("navigate", "iframe"), ("no-cors", "image"), ("no-cors", "script"), ("cors", "empty")] {
        let answered = get(&http, "/ui/", &sent(mode, dest)).await;
        assert_eq!(answered.status, 403, "{mode} {dest}");
        assert_page(&answered);
    }
    let rebound = [("host", "evil.example"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(get(&http, "/ui/", &rebound).await.status, 403);
}
