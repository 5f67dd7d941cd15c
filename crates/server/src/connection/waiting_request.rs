//! A request that waits outside of hyper. While it waits, its connection needs no buffers, and a disconnect of the client
//! is noticed, which hyper would not do. `response_writer.rs` writes its response.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use tokio::select;
use tokio::sync::watch;

use super::disconnect::Disconnect;
use super::io::ConnectionIo;
use super::response_writer::ResponseFormat;
use super::{Handler, StopSignal};

/// How much a client may send behind a waiting request: several requests of a worker. With 10,000 waiting requests, the
/// most there may be, this is 40 MiB.
const PIPELINED_BYTES: usize = 4096;

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request that may begin to wait.
pub(super) struct WaitingRequest {
    response: ResponseFuture,
    disconnect: Disconnect,
    pub(super) format: ResponseFormat,
}

/// Where hyper's service puts such a request, so that the connection can take it away from hyper. Both run in one task.
#[derive(Clone, Default)]
pub(super) struct WaitingSlot(Arc<Mutex<Option<WaitingRequest>>>);

impl WaitingSlot {
    fn lock(&self) -> MutexGuard<'_, Option<WaitingRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put<H: Handler>(&self, handler: H, mut request: Request<Body>) {
        let disconnect = Disconnect::default();
        let format = ResponseFormat::new(&request);
        request.extensions_mut().insert(disconnect.clone());
        let response = Box::pin(async move { handler.handle(request).await });
        *self.lock() = Some(WaitingRequest { response, disconnect, format });
    }

    /// Polls the handler of the request. Pending for ever once the request was taken.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Response<Body>> {
        let mut slot = self.lock();
        let Some(request) = slot.as_mut() else { return Poll::Pending };
        let polled = request.response.as_mut().poll(context);
        if polled.is_ready() {
            *slot = None;
        }
        polled
    }

    /// Whether the request waits for something that may take long.
    pub(super) fn is_waiting(&self) -> bool {
        self.lock().as_ref().is_some_and(|request| request.disconnect.is_watched())
    }

    pub(super) fn take(&self) -> Option<WaitingRequest> {
        self.lock().take()
    }
}

/// Waits for the response; with it come the bytes that the client has sent behind the request. Nothing when the server
/// stops at once.
///
/// Bytes that arrive meanwhile are read, because the end of the stream comes behind them. A client that sends more than
/// [`PIPELINED_BYTES`] gets its response now: its disconnect would stay hidden behind unread bytes.
pub(super) async fn wait(
    request: WaitingRequest,
    io: &mut ConnectionIo,
    stop: &mut watch::Receiver<StopSignal>,
) -> Option<(Response<Body>, Bytes)> {
    let WaitingRequest { mut response, disconnect, .. } = request;
    let mut pipelined = Vec::from(io.take_unread());
    let response = {
        let response = poll_fn(|context| response.as_mut().poll(context));
        let watch_client = async {
            while pipelined.len() < PIPELINED_BYTES {
                match io.stream.next_bytes().await {
                    Ok(bytes) if !bytes.is_empty() => pipelined.extend_from_slice(&bytes),
                    _ => break,
                }
            }
            disconnect.report();
            pending::<()>().await;
        };
        select! {
            // A disconnect is noticed before the handler goes on and claims a task for the client.
            biased;
            () = watch_client => None,
            response = response => Some(response),
            _ = stop.wait_for(|stop| *stop == StopSignal::Abort) => None,
        }
    };
    response.map(|response| (response, pipelined.into()))
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::listener::Stream;

    #[tokio::test]
    async fn that_a_client_has_gone_is_seen_before_its_request_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        drop(client);
        assert_eq!(server.peek(&mut [0]).await.unwrap(), 0);

        let disconnect = Disconnect::default();
        let watched = disconnect.clone();
        let response = Box::pin(async move {
            let disconnected = select! {
                biased;
                () = watched.wait() => true,
                () = std::future::ready(()) => false,
            };
            Response::new(Body::from(disconnected.to_string()))
        });
        let format = ResponseFormat::new(&Request::new(()));
        let request = WaitingRequest { response, disconnect, format };
        let stream = Stream::Tcp(server);
        let (mut io, (_stop, mut stop)) = (ConnectionIo::new(stream, Arc::default()), watch::channel(StopSignal::None));
        let (response, _) = wait(request, &mut io, &mut stop).await.unwrap();
        assert_eq!(axum::body::to_bytes(response.into_body(), 9).await.unwrap(), "true");
    }
}
