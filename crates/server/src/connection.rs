//! One connection from its first byte to its end: timeouts, parking, orderly stop. The handler decides what a request
//! means. Hyper's own head timeout is not used: it cannot tell a slow head from an idle connection.

mod activity;
mod ends;
mod handler;
mod io;
mod waiting;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::select;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use self::activity::{Activity, BodyState, TimerAction};
pub(crate) use self::ends::open_tls;
pub(crate) use self::handler::{Disconnect, Handler, Orders, StopSignal};
use self::io::{ConnectionIo, READ_BUFFER_BYTES};
use self::waiting::{ExchangeEnd, TrackedService, WaitingSlot};
use crate::config::Timeouts;
use crate::idle_connections::IdleEntry;
use crate::listener::Stream;
use crate::memory_budget::Budgets;

/// How hyper describes a request whose target it cannot parse. It has no other way to tell; a test holds it.
const INVALID_TARGET: &str = "invalid URI";

/// Serves one connection until it ends.
///
/// While a connection waits for a request it holds no buffers and nothing of hyper (16 KiB and more); the next bytes
/// allocate them again. So ten thousand idle workers cost little more than their sockets. For the same reason the large
/// futures live on the heap, and only while they run.
pub(crate) async fn serve(
    stream: Stream,
    handler: impl Handler,
    budgets: Arc<Budgets>,
    idle_entry: Arc<IdleEntry>,
    timeouts: Timeouts,
    mut stop: Orders,
) {
    let mut io = ConnectionIo::new(stream, budgets);
    loop {
        let idle_since = io.activity.lock().since;
        if !io.has_unread() {
            idle_entry.set_idle();
            match first_bytes(&mut io, &timeouts, &mut stop).await {
                Some(bytes) => io.unread(bytes),
                None => return,
            }
        }
        let timeouts = with_park_time(timeouts, idle_since.elapsed());
        let service = TrackedService {
            handler: handler.clone(),
            activity: io.activity.clone(),
            idle_entry: Arc::clone(&idle_entry),
            waiting_slot: WaitingSlot::default(),
        };
        let (mut end, socket) = Box::pin(exchange(io, service, &timeouts, &mut stop)).await;
        io = socket;
        if let ExchangeEnd::Waiting(request) = end {
            let format = request.format;
            let Some((response, pipelined)) = waiting::wait_for_response(request, &mut io, &mut stop).await else {
                return;
            };
            end = Box::pin(waiting::write_response(response, format, &mut io, &timeouts, &mut stop)).await;
            io.unread(pipelined);
        }
        match end {
            ExchangeEnd::Parked | ExchangeEnd::Waiting(_) => {}
            ExchangeEnd::Finished => {
                idle_entry.set_idle();
                return Box::pin(ends::linger(io, &handler, &timeouts, &mut stop)).await;
            }
            ExchangeEnd::Abandoned => {
                if io.activity.lock().is_send_blocked() {
                    // Otherwise the system would keep the rest of the response for a client that does not take it.
                    io.stream.reset_when_closed();
                }
                return;
            }
        }
    }
}

/// Returns the timeouts with the time after which buffers are freed. A client that was idle for long will be so again: a worker
/// that polls once a second. Its buffers are freed as soon as its response is sent, without a timer for each request.
fn with_park_time(timeouts: Timeouts, idle_time: Duration) -> Timeouts {
    let park = if idle_time < timeouts.park { timeouts.park } else { Duration::ZERO };
    Timeouts { park, ..timeouts }
}

/// Waits for the first bytes of a request; `None` when the connection is to be closed instead.
async fn first_bytes(io: &mut ConnectionIo, timeouts: &Timeouts, stop: &mut Orders) -> Option<Bytes> {
    let deadline = io.activity.lock().since + timeouts.idle;
    select! {
        // A request that has arrived before the server stops is still answered.
        biased;
        bytes = io.stream.next_bytes() => bytes.ok().filter(|bytes| !bytes.is_empty()),
        _ = stop.wait_for(|stop| *stop != StopSignal::None) => None,
        () = sleep_until(deadline) => {
            debug!("closed a connection that was idle for too long");
            None
        }
    }
}

/// Lets hyper read and answer requests until the connection is idle, waits or ends, and gives the socket back.
async fn exchange<H: Handler>(
    io: ConnectionIo,
    service: TrackedService<H>,
    timeouts: &Timeouts,
    stop: &mut Orders,
) -> (ExchangeEnd, ConnectionIo) {
    let (activity, waiting_slot, budgets) = (service.activity.clone(), service.waiting_slot.clone(), io.budgets());
    let idle_entry = Arc::clone(&service.idle_entry);
    // Hyper may hold nothing of an earlier request when a waiting one is taken from it.
    let can_wait = || waiting_slot.is_waiting() && activity.lock().is_settled();
    // Scarcity concerns only blocked responses, which are few: others need not ask.
    let scarcity =
        |activity: &Activity| if activity.is_send_blocked() { budgets.answers.sending_scarcity() } else { 0 };
    let keep_alive = *stop.borrow_and_update() == StopSignal::None;
    let mut connection = http1::Builder::new()
        .max_buf_size(READ_BUFFER_BYTES)
        .keep_alive(keep_alive)
        // A client that has closed its sending side may still want its response.
        .half_close(true)
        .serve_connection(TokioIo::new(io), service);
    let (mut is_http2, mut has_invalid_target) = (false, false);
    let mut timer = Box::pin(sleep_until(Instant::now() + timeouts.head));
    let end = loop {
        let fires_at = timer.deadline();
        // Requests move the deadline all the time. The timer is set again only when it would fire too late, or when it has
        // fired too early, so a busy connection hardly ever touches it.
        let progress = poll_fn(|cx| {
            let dropped = activity.lock().request_body.dropped();
            if let Poll::Ready(result) = connection.poll_without_shutdown(cx) {
                return Poll::Ready(Some(result));
            }
            let (is_waiting, mut activity) = (waiting_slot.is_waiting(), activity.lock());
            dropped.into_iter().for_each(|request| activity.request_body.set(BodyState::Consumed, request));
            let is_due = is_waiting && activity.is_settled()
                || activity.deadline(timeouts, scarcity(&activity)).is_some_and(|at| at < fires_at)
                || activity.client_has_disconnected()
                || activity.is_skipping_body() && !idle_entry.is_idle();
            if is_due { Poll::Ready(None) } else { Poll::Pending }
        });
        let over = select! {
            biased;
            result = progress => result,
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow_and_update() == StopSignal::Abort {
                    break ExchangeEnd::Abandoned;
                }
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                None
            }
            () = timer.as_mut() => None,
        };
        if let Some(result) = over {
            if let Err(error) = result {
                is_http2 = error.is_parse_version_h2();
                has_invalid_target = error.is_parse() && error.to_string() == INVALID_TARGET;
                debug!(%error, "a connection ended early");
            }
            break ExchangeEnd::Finished;
        }
        if let Some(request) = can_wait().then(|| waiting_slot.take()).flatten() {
            // From now on whoever waits with it sees a disconnect.
            activity.lock().client_check = None;
            break ExchangeEnd::Waiting(request);
        }
        if activity.lock().client_has_disconnected() {
            debug!("dropped a read whose client has disconnected");
            break ExchangeEnd::Abandoned;
        }
        if !activity.lock().has_request() {
            idle_entry.set_idle();
        }
        let action = {
            let mut activity = activity.lock();
            let scarcity = scarcity(&activity);
            activity.timer_action(Instant::now(), timeouts, scarcity)
        };
        match action {
            TimerAction::Wait(until) => timer.as_mut().reset(until),
            TimerAction::Park => break ExchangeEnd::Parked,
            TimerAction::Close(slow) => {
                debug!("closed a connection that was too slow {slow}");
                break ExchangeEnd::Abandoned;
            }
        }
    };
    let parts = connection.into_parts();
    let mut io = parts.io.into_inner();
    io.unread(parts.read_buf);
    io.free_head();
    io.has_invalid_target = has_invalid_target;
    if is_http2 {
        io.refused_status = io.refused_status.or(Some(400));
    }
    (end, io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_kept_for_those_who_were_quick_the_last_time() {
        let timeouts = Timeouts { park: Duration::from_millis(100), ..Timeouts::default() };
        let kept = |idle_millis| with_park_time(timeouts, Duration::from_millis(idle_millis)).park;
        assert_eq!([0, 99, 100, 5_000].map(kept), [timeouts.park, timeouts.park, Duration::ZERO, Duration::ZERO]);
        // Where no buffers are kept at all, a quick one gets none either.
        let none = Timeouts { park: Duration::ZERO, ..timeouts };
        assert_eq!(with_park_time(none, Duration::ZERO).park, Duration::ZERO);
    }
}
