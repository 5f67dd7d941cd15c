//! A request that waits, away from hyper: while it rests, a connection needs no buffers, and hyper would not notice that its
//! client has gone. When the answer is there, hyper writes it as the answer to a stand-in for the request.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, Version};
use hyper::header::{CONNECTION, TRANSFER_ENCODING};
use tokio::select;
use tokio::sync::watch;

use super::disconnect::Disconnect;
use super::io::Io;
use super::{Handler, Stop};

/// What is kept of what a client sends behind a waiting request: several requests of a worker. All who may wait, 10,000,
/// hold 40 MiB with this.
const MORE_BYTES: usize = 4096;

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request that may come to wait.
pub(super) struct WaitingRequest {
    answering: Answering,
    disconnect: Disconnect,
    /// What hyper is to answer in its place, later.
    stand_in: &'static [u8],
}

/// The place of such a request, seen by hyper's service and by whoever runs the connection; both in one task.
#[derive(Clone, Default)]
pub(super) struct WaitingSlot(Arc<Mutex<Option<WaitingRequest>>>);

impl WaitingSlot {
    fn seat(&self) -> MutexGuard<'_, Option<WaitingRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seats a request.
    pub(super) fn take_in<H: Handler>(&self, handler: H, mut request: Request<Body>) {
        let (disconnect, stand_in) = (Disconnect::default(), stand_in(request.version(), request.headers()));
        request.extensions_mut().insert(disconnect.clone());
        let answering = Box::pin(async move { handler.handle(request).await });
        *self.seat() = Some(WaitingRequest { answering, disconnect, stand_in });
    }

    /// Goes on with it. Once it was taken out, nothing comes of this any more.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Response<Body>> {
        let mut seat = self.seat();
        let Some(waiting_request) = seat.as_mut() else { return Poll::Pending };
        let polled = waiting_request.answering.as_mut().poll(context);
        if polled.is_ready() {
            *seat = None;
        }
        polled
    }

    /// Whether it waits for something that may take long.
    pub(super) fn waits(&self) -> bool {
        self.seat().as_ref().is_some_and(|waiting_request| waiting_request.disconnect.is_awaited())
    }

    /// Takes it out.
    pub(super) fn take_out(&self) -> Option<WaitingRequest> {
        self.seat().take()
    }
}

/// Waits for the answer, and puts the stand-in before whatever the client has sent since. Nothing when the server stops
/// too hastily.
///
/// Whatever comes meanwhile is read, because the end of the stream comes behind it. Who sends more than is kept is not
/// waited with any longer: behind unread bytes nobody could see it go.
pub(super) async fn wait(
    waiting_request: WaitingRequest,
    io: &mut Io,
    stop: &mut watch::Receiver<Stop>,
) -> Option<Response<Body>> {
    let WaitingRequest { mut answering, disconnect, stand_in } = waiting_request;
    let mut more = Vec::from(io.take_unread());
    let answer = {
        let answer = poll_fn(|context| answering.as_mut().poll(context));
        let watch = async {
            while more.len() < MORE_BYTES {
                match io.stream.next_bytes().await {
                    Ok(bytes) if !bytes.is_empty() => more.extend_from_slice(&bytes),
                    _ => break,
                }
            }
            disconnect.end();
            pending::<()>().await;
        };
        select! {
            // A client that has gone is noticed before its request goes on and takes something for it.
            biased;
            () = watch => None,
            answer = answer => Some(answer),
            _ = stop.wait_for(|stop| *stop == Stop::Abort) => None,
        }
    };
    io.unread([stand_in, &more].concat().into());
    answer
}

/// A head that is as long-lived as the one it stands for.
fn stand_in(version: Version, headers: &HeaderMap) -> &'static [u8] {
    let says = |word: &str| {
        let values = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case(word))
    };
    // Where both a length and an encoding were sent, hyper believes the encoding, hides the length, and closes: somebody in
    // between may have believed the length. It cannot be seen here any more whether that was so.
    let closes = says("close") || headers.contains_key(TRANSFER_ENCODING);
    match version {
        Version::HTTP_10 if says("keep-alive") && !closes => b"POST / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        Version::HTTP_10 => b"POST / HTTP/1.0\r\n\r\n",
        _ if closes => b"POST / HTTP/1.1\r\nconnection: close\r\n\r\n",
        _ => b"POST / HTTP/1.1\r\n\r\n",
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::listener::Stream;

    #[test]
    fn a_stand_in_ends_the_connection_where_its_request_would_have() {
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        type Case<'a> = (Version, &'a [(&'a str, &'a str)], bool);
        let cases: [Case<'_>; 7] = [
            (new, &[], true),
            (new, &[("connection", "Close")], false),
            (new, &[("connection", "x, close")], false),
            (new, &[("transfer-encoding", "chunked")], false),
            (old, &[], false),
            (old, &[("connection", "keep-alive")], true),
            (old, &[("connection", "keep-alive, close")], false),
        ];
        for (version, fields, stays) in cases {
            let header = |(name, value): &(&str, &str)| (name.parse().unwrap(), value.parse().unwrap());
            let head = std::str::from_utf8(stand_in(version, &fields.iter().map(header).collect())).unwrap();
            let says_so = if version == old { head.contains("keep-alive") } else { !head.contains("close") };
            assert_eq!(says_so, stays, "{version:?} {fields:?}");
        }
    }

    #[tokio::test]
    async fn that_a_client_has_gone_is_seen_before_its_request_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        drop(client);
        assert_eq!(server.peek(&mut [0]).await.unwrap(), 0);

        let disconnect = Disconnect::default();
        let asked = disconnect.clone();
        let answering = Box::pin(async move {
            let gone = select! {
                biased;
                () = asked.gone() => true,
                () = std::future::ready(()) => false,
            };
            Response::new(Body::from(gone.to_string()))
        });
        let waiting_request = WaitingRequest { answering, disconnect, stand_in: b"" };
        let (mut io, (_run, mut stop)) = (Io::new(Stream::Tcp(server), Arc::default()), watch::channel(Stop::Run));
        let answer = wait(waiting_request, &mut io, &mut stop).await.unwrap();
        assert_eq!(axum::body::to_bytes(answer.into_body(), 9).await.unwrap(), "true");
    }
}
