//! Who may not change anything sees no button for it, and is refused if they send its form all the same.

use super::*;

/// Forms that change nothing but what the browser keeps, or how a page is shown.
const OWN: [&str; 3] = ["/ui/theme", "/ui/sign-out", "/ui/sign-in"];

const PAGES: &str = "/ui/ /ui/system /ui/queues/mine/tasks /ui/queues/mine/tasks/t_abcdefghijkl \
     /ui/queues/mine/workers /ui/queues/mine/routes /ui/queues/mine/compare /ui/queues/mine/submit /ui/nothing";

/// The paths of the dashboard that take forms, with a queue and a task that are there.
fn form_paths() -> Vec<String> {
    let table = include_str!("../../../../dashboard/src/router.rs");
    let routes = table.split(".route(").skip(1).filter(|route| route.contains("post("));
    let paths = routes.filter_map(|route| route.trim_start().strip_prefix('"')?.split('"').next());
    let paths = paths.map(|path| path.replace("{queue}", "mine").replace("{task}", TASK));
    paths.filter(|path| !OWN.contains(&path.as_str())).collect()
}

/// What a page offers to change: the paths of its forms that are sent, and the words of its buttons for actions.
fn offered(page: &str) -> Vec<&str> {
    let tags = |name: &'static str| page.split(name).skip(1).filter_map(|rest| rest.split('>').next());
    let attribute = |tag, name| -> Option<&str> { str::split(tag, name).nth(1)?.split('"').next() };
    let forms =
        tags("<form").filter(|tag| tag.contains("method=\"post\"")).filter_map(|tag| attribute(tag, "action=\""));
    let actions =
        tags("<button").filter(|tag| tag.contains("name=\"action\"")).filter_map(|tag| attribute(tag, "value=\""));
    forms.chain(actions).filter(|offer| !OWN.contains(offer)).collect()
}

/// A viewer who sees everything and may change nothing: for lack of scopes, or because of the mode.
async fn lookers() -> [(HttpService, String); 2] {
    let (guarded, read_only) = (guarded().await, guarded_in(DashboardMode::ReadOnly).await);
    let cookies = (signed_in(&guarded, "reader").await, signed_in(&read_only, "s3cret").await);
    for http in [&guarded, &read_only] {
        let headers = [("authorization", "Bearer s3cret"), ("content-type", "application/json")];
        let created = asked(http, "PUT", &format!("/api/v2/queues/mine/tasks/{TASK}"), &headers, "{}").await;
        assert_eq!(created.status, 201, "{}", text(&created));
    }
    [(guarded, cookies.0), (read_only, cookies.1)]
}

#[tokio::test]
async fn who_may_only_look_sees_no_button_that_changes_something() {
    for (http, cookie) in lookers().await {
        for path in PAGES.split(' ') {
            let page = text(&get(&http, path, &[("cookie", &cookie)]).await);
            assert_eq!(offered(&page), Vec::<&str>::new(), "{path}");
            assert!(!page.contains("href=\"/ui/queues/mine/submit\""), "{path} leads to the form for new tasks");
        }
    }
    let http = guarded().await;
    let cookie = signed_in(&http, "s3cret").await;
    assert!(!offered(&text(&get(&http, "/ui/", &[("cookie", &cookie)]).await)).is_empty(), "others see them");
}

#[tokio::test]
async fn every_form_that_changes_something_is_refused_to_who_may_only_look() {
    assert!(!form_paths().is_empty());
    for (http, cookie) in lookers().await {
        let token = form_token(&get(&http, "/ui/", &[("cookie", &cookie)]).await);
        for path in form_paths() {
            let answered = post(&http, &path, &[("cookie", &cookie)], &format!("form_token={token}&name=new")).await;
            assert_eq!(answered.status, 403, "{path}: {}", text(&answered));
            assert_page(&answered);
        }
    }
}

#[tokio::test]
async fn a_read_only_dashboard_says_how_to_get_another_one() {
    let http = guarded_in(DashboardMode::ReadOnly).await;
    let cookie = signed_in(&http, "s3cret").await;
    let token = form_token(&get(&http, "/ui/", &[("cookie", &cookie)]).await);
    let answered = post(&http, "/ui/queues", &[("cookie", &cookie)], &format!("form_token={token}&name=new")).await;
    assert!(text(&answered).contains("--dashboard full"), "{}", text(&answered));
}
