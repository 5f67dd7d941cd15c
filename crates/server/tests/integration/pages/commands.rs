//! Commands that pages show to be copied, and what the forms for new tasks say before and after tasks were created.

use super::*;

#[tokio::test]
async fn commands_to_copy_name_the_server_and_the_queue_of_the_page() {
    let http = guarded().await;
    let cookie = signed_in(&http, "s3cret").await;
    for path in ["workers", "routes", "tasks", "submit", "submit?way=sweep", "submit?way=lines"] {
        let headers = [("cookie", cookie.as_str()), ("host", "queue.example:8000")];
        let page = text(&get(&http, &format!("/ui/queues/mine/{path}"), &headers).await);
        assert!(page.contains(" --queue mine --url http://queue.example:8000"), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_form_does_not_deny_what_it_has_just_created() {
    const DENIAL: &str = "Nothing is created yet";
    let http = guarded().await;
    let cookie = signed_in(&http, "s3cret").await;
    for way in ["sweep", "lines"] {
        let page = |rest: &str| format!("/ui/queues/mine/submit?way={way}{rest}");
        assert!(text(&get(&http, &page(""), &[("cookie", &cookie)]).await).contains(DENIAL), "{way}");
        assert!(!text(&get(&http, &page("&created=16"), &[("cookie", &cookie)]).await).contains(DENIAL), "{way}");
    }
}
