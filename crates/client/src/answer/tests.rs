//! Error envelopes are read whole, and everything else that is no success is refused.

use taskqueue_api::error::Code;

use super::*;

#[test]
fn an_error_envelope_keeps_code_message_and_details() {
    let answer = |status, body: &str| Answer {
        status,
        server_version: None,
        retry_after: None,
        server: None,
        wait_applied: None,
        body: body.into(),
    };
    let known = answer(409, r#"{"error":{"code":"stale_run","message":"m","details":{"b":1,"a":2.0}}}"#);
    let Err(Error::Api { status: 409, code, message, details, .. }) = known.no_content() else { panic!("{known:?}") };
    assert_eq!(code, Code::Known(taskqueue_api::ErrorCode::StaleRun));
    assert_eq!((message.as_str(), details.as_str()), ("m", r#"{"a":2.0,"b":1}"#));

    let newer = answer(418, r#"{"error":{"code":"teapot","message":"m"}}"#).no_content().unwrap_err();
    assert_eq!(newer.code(), None);
    assert!(matches!(newer, Error::Api { code: Code::Other(text), .. } if text == "teapot"));

    for (status, body) in [(500, "<html>"), (404, "{}"), (409, r#"{"error":"x"}"#), (302, ""), (200, "{}"), (202, "")] {
        let error = answer(status, body).no_content().unwrap_err();
        assert!(matches!(error, Error::Protocol { status: found, .. } if found == status), "{error:?}");
    }
}

#[test]
fn an_answer_of_another_program_is_described() {
    let answer = |server: Option<&str>, body: &str| Answer {
        status: 404,
        server_version: None,
        retry_after: None,
        server: server.map(str::to_owned),
        wait_applied: None,
        body: body.into(),
    };
    let long = "x".repeat(100);
    let cases = [
        (None, "", "status 404 with an empty body".to_owned()),
        (Some("nginx/1.25"), " \n<!DOCTYPE html>\n<p>", "status 404 with a web page from nginx/1.25".to_owned()),
        (None, "404 page not found\n", "status 404 with the text \"404 page not found\"".to_owned()),
        (None, &long, format!("status 404 with the text \"{}…\"", "x".repeat(60))),
    ];
    for (server, body, expected) in cases {
        let Err(Error::Protocol { message, .. }) = answer(server, body).no_content() else { panic!("{body}") };
        assert_eq!(message, expected);
    }
}
