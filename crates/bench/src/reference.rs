//! The reference: the HTTP stack of the server without the server. It answers the same requests with bodies of the
//! same size, stores nothing and knows no rule. What it can do is the bare-HTTP limit of the machine.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::request::{self, TASKS};
use crate::{Result, figures};

/// Where nothing is ever pending.
const OTHER_CLAIM: &str = "/api/v2/queues/other/tasks/claim";
const INSTANT: &str = r#""2026-01-01T00:00:00.000000Z""#;

/// Serves until the program is ended, or until its parent has ended.
pub(crate) fn run() -> Result<()> {
    // As many threads as the server has: one per core.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let orphaned = runtime.spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        figures::line(&format!("http://{}", listener.local_addr()?));
        tokio::select! {
            ended = accept(listener) => ended,
            _ = orphaned => Ok(()),
        }
    })
}

async fn accept(listener: TcpListener) -> Result<()> {
    let answers = Arc::new(answers());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answers = answers.clone();
        tokio::spawn(async move {
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(request, &answers[..]).await));
            // A connection that breaks is counted by the generator, which sees it too.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(request: Request<Incoming>, answers: &[Canned]) -> Response<Full<Bytes>> {
    let (method, path) = (request.method(), request.uri().path());
    let found = answers.iter().find(|(of, end, ..)| of == method && path.ends_with(end));
    let (status, body) = found.map_or((404, Bytes::new()), |(.., status, body)| (*status, body.clone()));
    // The body is read to its end, as every server must.
    let read = request.into_body().collect().await;
    let mut response = Response::builder().status(if read.is_ok() { status } else { 400 });
    response = response.header("taskqueue-server-version", env!("CARGO_PKG_VERSION"));
    if status != 204 {
        response = response.header("content-type", "application/json");
    }
    response.body(Full::new(body)).unwrap_or_default()
}

/// An answer, rendered once: the method and the end of the path for which it is.
type Canned = (&'static str, &'static str, u16, Bytes);

/// All answers; the first one that fits is the right one.
fn answers() -> [Canned; 9] {
    let created = task("pending", "null", "null");
    let claimed = task("running", r#""default""#, INSTANT);
    let claimed = format!(r#"{{"task":{claimed},"run_id":"r_000000000000","lease_expires_at":{INSTANT}}}"#);
    let page = vec![created.clone(); 100].join(",");
    [
        ("POST", OTHER_CLAIM, 204, Bytes::new()),
        ("POST", "/claim", 200, claimed.into()),
        ("POST", "/heartbeat", 200, format!(r#"{{"lease_expires_at":{INSTANT}}}"#).into()),
        ("POST", "", 204, Bytes::new()),
        ("PUT", "", 201, created.clone().into()),
        ("GET", "/tasks", 200, format!(r#"{{"items":[{page}],"next_cursor":"{}"}}"#, "x".repeat(100)).into()),
        ("GET", "/count", 200, r#"{"count":10000}"#.into()),
        ("GET", "/health", 200, r#"{"count":10000}"#.into()),
        ("GET", "", 200, created.into()),
    ]
}

/// A task as the server writes it.
fn task(status: &str, last_route: &str, started_at: &str) -> String {
    let (id, args) = (TASKS.id(0), request::args());
    format!(
        r#"{{"id":"{id}","queue":"claims","status":"{status}","name":"bench","args":{args},"metadata":{{}},"priority":0,"attempt":1,"max_attempts":3,"routes":["default"],"result":{{}},"last_error":null,"last_route":{last_route},"created_at":{INSTANT},"updated_at":{INSTANT},"started_at":{started_at},"finished_at":null}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Answer;
    use crate::request::{OTHER, tasks};

    #[test]
    fn bodies_are_json_and_say_what_the_generator_reads() {
        let answers = answers();
        for (method, end, status, body) in &answers {
            let is_json = serde_json::from_slice::<serde_json::Value>(body).is_ok();
            assert_eq!(is_json, *status != 204, "{method} {end}");
        }
        let claimed = Answer::of(200, "", std::str::from_utf8(&answers[1].3).unwrap());
        assert_eq!(claimed.claimed_task(), Some(0));
        assert_eq!(OTHER_CLAIM, tasks(OTHER, "/claim"));
    }
}
