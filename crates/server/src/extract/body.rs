//! Reads bodies within their limits of size and time, and discards bodies that are not read.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::EXPECT;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use taskqueue_core::limits::BATCH_BODY_BYTES;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::ApiError;
use crate::memory_budget::{Budget, NoRoom, Reservation, SMALL_BODY_BYTES};

/// How long a body may take to arrive (docs/reference/http-api.md §3.7).
const BODY_TIME: Duration = Duration::from_secs(30);
/// How much of a body is still read after the answer: a client that reads only after it has sent everything then gets the
/// answer instead of a reset connection.
const DISCARD_BYTES: usize = 2 * BATCH_BODY_BYTES;
/// How long that may take.
const DISCARD_TIME: Duration = Duration::from_secs(5);
/// The smallest reservation of a body, so that not every piece of it reserves more.
const RESERVATION_BYTES: usize = 64 * 1024;
/// The pace in bytes per second that a large body needs when memory is as scarce as it can be: that of the clients who take
/// answers then (`connection/activity.rs`).
const SCARCE_PACE: usize = 1_700_000;
/// How often to check whether memory has become scarce while a body is slow.
const RECHECK: Duration = Duration::from_millis(100);

/// A body with the memory that is reserved for it; none for a small one.
type HeldBody = (Bytes, Option<Reservation>);

/// Reads the whole body, of at most `limit` bytes. A body that announces more is refused without reading it, and a client that waits for
/// `100 Continue` does not get it. A body that is not small comes with the memory that is reserved for it.
pub(super) async fn read(
    mut body: Body,
    limit: usize,
    expects_continue: bool,
    budget: &Budget,
) -> Result<HeldBody, ApiError> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    if body.size_hint().lower() > limit as u64 {
        if !expects_continue {
            discard(body);
        }
        return Err(ApiError::request_too_large(limit));
    }
    let begun = Instant::now();
    match timeout_at(begun + BODY_TIME, collect(&mut body, begun, limit, budget)).await {
        Ok(Ok(collected)) => Ok(collected),
        Ok(Err(IncompleteBody::Refused(error))) => {
            discard(body);
            Err(error)
        }
        Ok(Err(IncompleteBody::Broken)) => {
            Err(ApiError::incomplete_body("send the whole body: it broke off or its framing is wrong"))
        }
        Err(_) => Err(ApiError::incomplete_body("send the body within 30 seconds")),
    }
}

/// The reason why a body was not read to its end.
enum IncompleteBody {
    /// The rest is not wanted.
    Refused(ApiError),
    /// The rest cannot be read.
    Broken,
}

impl From<NoRoom> for IncompleteBody {
    fn from(no_room: NoRoom) -> Self {
        Self::Refused(no_room.into())
    }
}

/// Collects the pieces within the limit. Most bodies arrive in one piece, which is not copied.
///
/// The reservation grows with the bytes that have arrived, not with the announced ones: otherwise clients that announce much
/// and send nothing would exclude the others. It is twice the size, for the body as sent and as parsed.
async fn collect(body: &mut Body, begun: Instant, limit: usize, budget: &Budget) -> Result<HeldBody, IncompleteBody> {
    let (mut first, mut more) = (Bytes::new(), BytesMut::new());
    let (mut total, mut reservation) = (0, None);
    while let Some(data) = next_data(body, begun, total, reservation.as_ref().map(|_| budget)).await? {
        total += data.len();
        if total > limit {
            return Err(IncompleteBody::Refused(ApiError::request_too_large(limit)));
        }
        if total > SMALL_BODY_BYTES {
            let needed = 2 * total.next_power_of_two().clamp(RESERVATION_BYTES, limit);
            match &mut reservation {
                None => reservation = Some(budget.reserve(needed).await?),
                Some(reservation) => budget.grow(reservation, needed).await?,
            }
        }
        if first.is_empty() && more.is_empty() {
            first = data;
            continue;
        }
        more.extend_from_slice(&std::mem::take(&mut first));
        more.extend_from_slice(&data);
    }
    Ok((if more.is_empty() { first } else { more.freeze() }, reservation))
}

/// Returns the next piece of a body of which `arrived` bytes are there. A body with a reservation of `budget` has the less time the
/// scarcer that budget is.
async fn next_data(
    body: &mut Body,
    begun: Instant,
    arrived: usize,
    budget: Option<&Budget>,
) -> Result<Option<Bytes>, IncompleteBody> {
    loop {
        let frame = match budget {
            // The caller has a timeout for all of it.
            None => body.frame().await,
            Some(budget) if begun.elapsed() >= body_time(budget.scarcity(), arrived) => return Err(NoRoom.into()),
            Some(_) => match timeout(RECHECK, body.frame()).await {
                Ok(frame) => frame,
                Err(_) => continue,
            },
        };
        match frame {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.map_err(|_| IncompleteBody::Broken)?.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Returns how long a large body may take to arrive when memory is scarce. What keeps the pace has time: a body of a batch may be what
/// makes memory scarce.
fn body_time(scarcity: u32, arrived: usize) -> Duration {
    let at_pace = Duration::from_micros(arrived as u64 * 1_000_000 / SCARCE_PACE as u64);
    BODY_TIME / 2_u32.saturating_pow(scarcity) + at_pace
}

/// Reads and drops the rest of a body, in the background and within limits.
pub(crate) fn discard(mut body: Body) {
    if body.is_end_stream() {
        return;
    }
    tokio::spawn(timeout(DISCARD_TIME, async move {
        let mut discarded = 0;
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, Bytes::len);
            if discarded > DISCARD_BYTES {
                break;
            }
        }
    }));
}

/// Makes the rest of a body be discarded when its reader is done with it. Not for a client that waits for `100 Continue`, which reading
/// would send.
pub(crate) async fn discard_the_rest(request: Request) -> Request {
    let waits = request.headers().contains_key(EXPECT);
    request.map(|body| if waits { body } else { Body::new(DiscardedBody(body)) })
}

struct DiscardedBody(Body);

impl HttpBody for DiscardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl Drop for DiscardedBody {
    fn drop(&mut self) {
        discard(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use axum::response::IntoResponse;
    use hyper::StatusCode;
    use hyper::body::Frame;
    use taskqueue_core::limits::REQUEST_BODY_BYTES;
    use tokio::time::{Instant, Interval, interval_at};

    use super::*;

    /// Pieces of a body whose length nobody announced; then silence, or the end.
    struct Pieces {
        sizes: Vec<usize>,
        ends: bool,
    }

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.sizes.pop() {
                Some(size) => Poll::Ready(Some(Ok(Frame::data(vec![b'x'; size].into())))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    async fn outcome(body: Body) -> Result<usize, StatusCode> {
        let read = read(body, REQUEST_BODY_BYTES, false, &Budget::new(REQUEST_BODY_BYTES)).await;
        read.map(|(bytes, _)| bytes.len()).map_err(|error| error.into_response().status())
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_stay_within_their_budget_and_small_ones_need_none() {
        let budget = Budget::new(4 * REQUEST_BODY_BYTES);
        let large = || Body::from(vec![0; REQUEST_BODY_BYTES]);
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(read(large(), REQUEST_BODY_BYTES, false, &budget).await.unwrap());
        }
        let unannounced = Body::new(Pieces { sizes: vec![1; SMALL_BODY_BYTES + 1], ends: true });
        for refused in [large(), unannounced] {
            let error = read(refused, REQUEST_BODY_BYTES, false, &budget).await.unwrap_err();
            assert_eq!(error.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        assert!(read(Body::from(vec![0; SMALL_BODY_BYTES]), REQUEST_BODY_BYTES, false, &budget).await.is_ok());
        held.pop();
        assert!(read(large(), REQUEST_BODY_BYTES, false, &budget).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_holds_what_has_arrived_of_it_and_not_what_may_come() {
        let budget = Budget::new(4 * REQUEST_BODY_BYTES);
        for (sizes, held_bytes) in [
            (vec![SMALL_BODY_BYTES], 0),
            (vec![SMALL_BODY_BYTES, 1], 2 * RESERVATION_BYTES),
            (vec![1, RESERVATION_BYTES], 4 * RESERVATION_BYTES),
            (vec![1, RESERVATION_BYTES, RESERVATION_BYTES], 8 * RESERVATION_BYTES),
        ] {
            let body = Body::new(Pieces { sizes, ends: false });
            let mut reading = tokio::spawn({
                let budget = budget.clone();
                async move { read(body, REQUEST_BODY_BYTES, false, &budget).await.map(drop) }
            });
            assert!(timeout(RECHECK, &mut reading).await.is_err());
            assert_eq!(4 * REQUEST_BODY_BYTES - budget.free_bytes(), held_bytes);
            reading.abort();
            drop(reading.await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_scarcer_room_is_the_less_time_a_large_body_has() {
        for (others_hold, seconds) in [(0, 30), (3 * REQUEST_BODY_BYTES, 15), (4 * REQUEST_BODY_BYTES, 0)] {
            let budget = Budget::new(4 * REQUEST_BODY_BYTES + 2 * RESERVATION_BYTES);
            let _others = budget.reserve(others_hold).await.unwrap();
            let begun = Instant::now();
            let slow = Body::new(Pieces { sizes: vec![2 * SMALL_BODY_BYTES], ends: false });
            assert!(read(slow, REQUEST_BODY_BYTES, false, &budget).await.is_err());
            assert_eq!(begun.elapsed().as_secs(), seconds, "{others_hold} bytes are held by others");
        }
    }

    #[tokio::test]
    async fn a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
        let pieces = |sizes: &[usize]| Body::new(Pieces { sizes: sizes.to_vec(), ends: true });
        let cases = [
            (Body::empty(), Ok(0)),
            (Body::from(vec![0; REQUEST_BODY_BYTES]), Ok(REQUEST_BODY_BYTES)),
            (Body::from(vec![0; REQUEST_BODY_BYTES + 1]), Err(StatusCode::PAYLOAD_TOO_LARGE)),
            (pieces(&[1, 0, 2, 3]), Ok(6)),
            (pieces(&[REQUEST_BODY_BYTES - 1, 1]), Ok(REQUEST_BODY_BYTES)),
            (pieces(&[REQUEST_BODY_BYTES, 1]), Err(StatusCode::PAYLOAD_TOO_LARGE)),
        ];
        for (body, expected) in cases {
            assert_eq!(outcome(body).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up_after_30_seconds() {
        let begun = tokio::time::Instant::now();
        let body = Body::new(Pieces { sizes: vec![1], ends: false });
        assert_eq!(outcome(body).await, Err(StatusCode::UNPROCESSABLE_ENTITY));
        assert_eq!(begun.elapsed().as_secs(), 30);
    }

    /// A byte each `pause`, for ever.
    struct Trickle {
        ticks: Interval,
        bytes: Arc<AtomicUsize>,
    }

    impl Trickle {
        fn body(pause: Duration, bytes: Arc<AtomicUsize>) -> Body {
            Body::new(Self { ticks: interval_at(Instant::now() + pause, pause), bytes })
        }
    }

    impl HttpBody for Trickle {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            std::task::ready!(self.ticks.poll_tick(cx));
            self.bytes.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_30_seconds_of_a_body_do_not_begin_again_with_each_piece() {
        for pause in [1, 7, 20, 29].map(Duration::from_secs) {
            let begun = tokio::time::Instant::now();
            let outcome = timeout(Duration::from_secs(600), outcome(Trickle::body(pause, Arc::default()))).await;
            assert_eq!(outcome, Ok(Err(StatusCode::UNPROCESSABLE_ENTITY)), "a byte each {pause:?}");
            assert_eq!(begun.elapsed().as_secs(), 30, "a byte each {pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_body_that_trickles_has_no_more_time_than_one_that_stops() {
        let budget = Budget::new(4 * REQUEST_BODY_BYTES + 2 * RESERVATION_BYTES);
        let _others = budget.reserve(4 * REQUEST_BODY_BYTES).await.unwrap();
        let begun = Instant::now();
        let trickle = Trickle::body(Duration::from_millis(1), Arc::default());
        assert!(read(trickle, REQUEST_BODY_BYTES, false, &budget).await.is_err());
        // It becomes large after some four seconds.
        assert!(begun.elapsed().as_secs() < 6, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn neither_do_the_5_seconds_in_which_the_rest_of_a_body_is_discarded() {
        let bytes = Arc::new(AtomicUsize::new(0));
        discard(Trickle::body(Duration::from_secs(2), Arc::clone(&bytes)));
        assert!(timeout(Duration::from_secs(600), std::future::pending::<()>()).await.is_err());
        assert_eq!(bytes.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&bytes), 1, "the body is dropped");
    }
}
