//! The reference: the HTTP stack of the server without the server. It answers the same requests with bodies of the
//! same size, stores nothing and knows no rule. What it can do is the bare-HTTP limit of the machine.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::failure::Result;
use crate::{figures, request};

const VERSION_HEADER: HeaderName = HeaderName::from_static("taskqueue-server-version");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const VERSION: HeaderValue = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));

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
    let bodies = Arc::new(Bodies::new());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream, bodies.clone()));
    }
}

async fn serve(stream: TcpStream, bodies: Arc<Bodies>) {
    let service = service_fn(|request| {
        let bodies = bodies.clone();
        async move { Ok::<_, Infallible>(answer(request, &bodies).await) }
    });
    // A connection that breaks is counted by the generator, which sees it too.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(request: Request<Incoming>, bodies: &Bodies) -> Response<Full<Bytes>> {
    let (status, body) = bodies.find(request.method(), request.uri().path());
    // The body is read to its end, as every server must.
    let read = request.into_body().collect().await;
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = if read.is_ok() { status } else { StatusCode::BAD_REQUEST };
    let headers = response.headers_mut();
    headers.insert(VERSION_HEADER, VERSION);
    if status != StatusCode::NO_CONTENT {
        headers.insert(CONTENT_TYPE, JSON);
    }
    response
}

/// Every answer, rendered once.
#[derive(Debug)]
struct Bodies {
    created: Bytes,
    claimed: Bytes,
    task: Bytes,
    page: Bytes,
    count: Bytes,
    lease: Bytes,
    updated: Bytes,
}

impl Bodies {
    fn new() -> Self {
        const INSTANT: &str = "\"2026-01-01T00:00:00.000000Z\"";
        let created = task("pending", "null", "null");
        let claimed = task("running", "\"default\"", INSTANT);
        let page = vec![created.clone(); 100].join(",");
        Self {
            claimed: format!(r#"{{"task":{claimed},"run_id":"r_000000000000","lease_expires_at":{INSTANT}}}"#).into(),
            task: created.clone().into(),
            page: format!(r#"{{"items":[{page}],"next_cursor":"{}"}}"#, "x".repeat(100)).into(),
            count: r#"{"count":10000}"#.into(),
            lease: format!(r#"{{"lease_expires_at":{INSTANT}}}"#).into(),
            updated: r#"{"matched":100,"updated":100}"#.into(),
            created: created.into(),
        }
    }

    fn find(&self, method: &Method, path: &str) -> (StatusCode, Bytes) {
        let last = path.rsplit('/').next().unwrap_or_default();
        match (method, last) {
            (&Method::POST, "claim") if path.contains(&format!("/{}/", request::OTHER)) => {
                (StatusCode::NO_CONTENT, Bytes::new())
            }
            (&Method::POST, "claim") => (StatusCode::OK, self.claimed.clone()),
            (&Method::POST, "heartbeat") => (StatusCode::OK, self.lease.clone()),
            (&Method::POST, _) => (StatusCode::NO_CONTENT, Bytes::new()),
            (&Method::PUT, _) => (StatusCode::CREATED, self.created.clone()),
            (&Method::PATCH, _) => (StatusCode::OK, self.updated.clone()),
            (_, "tasks") => (StatusCode::OK, self.page.clone()),
            (_, "count" | "health") => (StatusCode::OK, self.count.clone()),
            _ => (StatusCode::OK, self.task.clone()),
        }
    }
}

/// A task as the server writes it.
fn task(status: &str, last_route: &str, started_at: &str) -> String {
    let args = request::args();
    format!(
        r#"{{"id":"t_000000000000","queue":"claims","status":"{status}","name":"bench","args":{args},"metadata":{{}},"priority":0,"attempt":1,"max_attempts":3,"routes":["default"],"result":{{}},"last_error":null,"last_route":{last_route},"created_at":"2026-01-01T00:00:00.000000Z","updated_at":"2026-01-01T00:00:00.000000Z","started_at":{started_at},"finished_at":null}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_and_say_what_the_generator_reads() {
        let bodies = Bodies::new();
        let all = [&bodies.created, &bodies.claimed, &bodies.task, &bodies.page, &bodies.count, &bodies.updated];
        for body in all {
            serde_json::from_slice::<serde_json::Value>(body).unwrap();
        }
        let claimed = crate::client::Answer { status: 200, head: b"", body: &bodies.claimed };
        assert_eq!(claimed.claimed_task(), Some(0));
    }
}
