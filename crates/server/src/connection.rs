//! One connection from its first byte to its end: timeouts, parking, orderly stop. What a request means is the
//! handler's business. Hyper's own head timeout is not used: it cannot tell a slow head from an idle connection.

mod activity;
mod client_check;
mod close;
mod disconnect;
mod io;
mod request_body;
mod send_pace;
mod service;
mod waiting_request;

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use self::activity::Verdict;
pub(crate) use self::disconnect::Disconnect;
use self::io::Io;
use self::service::Observed;
pub(crate) use self::service::{Authenticated, Handler};
use self::waiting_request::{WaitingRequest, WaitingSlot};
use crate::config::Timeouts;
use crate::idle_connections::IdleEntry;
use crate::listener::Stream;
use crate::memory_budget::Budgets;

/// Largest request head, and how much of a body is read at once. The longest URI of the contract (a filter and a
/// cursor, percent-encoded) takes 72 KiB.
const READ_BUFFER_BYTES: usize = 128 * 1024;

/// What the server wants of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Go on.
    Run,
    /// Finish the request under way, then close.
    Drain,
    /// Close at once.
    Abort,
}

/// Why hyper's part of a connection is over.
enum End {
    /// It is idle and can wait without buffers.
    Parked,
    /// Its request waits for something that may take long.
    Waiting(WaitingRequest),
    /// Its last answer is out, or the client is gone.
    Finished,
    /// It was too slow, its client left in the middle of a read, or the server stops: close it without ado.
    Abandoned,
}

/// Serves one connection until it ends.
///
/// While a connection waits for a request it holds no buffers and nothing of hyper (16 KiB and more): the next
/// bytes build that anew. Ten thousand idle workers cost little more than their sockets. For the same reason
/// the two large futures live on the heap, and only while they run.
pub(crate) async fn serve(
    stream: Stream,
    handler: impl Handler,
    budgets: Arc<Budgets>,
    idle_entry: Arc<IdleEntry>,
    timeouts: Timeouts,
    mut stop: watch::Receiver<Stop>,
) {
    let (mut io, mut answer) = (Io::new(stream, budgets), None);
    loop {
        let resting_since = io.activity.get().since();
        if !io.has_unread() {
            idle_entry.rests();
            match request_arrives(&io, &timeouts, &mut stop).await {
                Some(bytes) => io.unread(bytes),
                None => return,
            }
        }
        let timeouts = after_rest(resting_since.elapsed(), timeouts);
        let service = Observed {
            handler: handler.clone(),
            activity: io.activity.clone(),
            idle_entry: Arc::clone(&idle_entry),
            waiting_slot: WaitingSlot::default(),
            answer: Mutex::new(answer.take()),
        };
        let (end, socket) = Box::pin(exchange(io, service, &timeouts, &mut stop)).await;
        match end {
            End::Parked => io = socket,
            End::Waiting(waiting_request) => {
                io = socket;
                answer = waiting_request::wait(waiting_request, &mut io, &mut stop).await;
                if answer.is_none() {
                    return;
                }
            }
            End::Finished => {
                idle_entry.rests();
                return Box::pin(close::linger(socket, &timeouts, &mut stop)).await;
            }
            End::Abandoned => return,
        }
    }
}

/// Who let us wait for long will do so again: a worker that asks once a second. Its buffers go as soon as it has its answer,
/// and no timer has to ring for them after each of its requests.
fn after_rest(rested: Duration, timeouts: Timeouts) -> Timeouts {
    let park = if rested < timeouts.park { timeouts.park } else { Duration::ZERO };
    Timeouts { park, ..timeouts }
}

/// Waits for the first bytes of a request; none when the connection is to be closed instead.
async fn request_arrives(io: &Io, timeouts: &Timeouts, stop: &mut watch::Receiver<Stop>) -> Option<Bytes> {
    let deadline = io.activity.get().idle_deadline(timeouts);
    select! {
        // A request that is already here when the server stops is still answered.
        biased;
        bytes = io.stream.next_bytes() => bytes.ok().filter(|bytes| !bytes.is_empty()),
        _ = stop.wait_for(|stop| *stop != Stop::Run) => None,
        () = sleep_until(deadline) => {
            debug!("closed a connection that was idle for too long");
            None
        }
    }
}

/// Lets hyper read and answer requests until the connection is idle or over, and gives the socket back.
async fn exchange<H: Handler>(
    io: Io,
    service: Observed<H>,
    timeouts: &Timeouts,
    stop: &mut watch::Receiver<Stop>,
) -> (End, Io) {
    let (activity, waiting_slot, budgets) = (service.activity.clone(), service.waiting_slot.clone(), io.budgets());
    let idle_entry = Arc::clone(&service.idle_entry);
    // Nothing of an earlier exchange may be left behind in hyper.
    let can_wait = || waiting_slot.waits() && activity.get().is_settled();
    // How scarce room is concerns only answers that wait, which are few: others need not ask.
    let scarcity = || if activity.get().is_waiting() { budgets.answers.sending_scarcity() } else { 0 };
    let is_late = |rings_at| {
        let scarcity = scarcity();
        activity.get().deadline(timeouts, scarcity).is_some_and(|at| at < rings_at)
    };
    let draining = *stop.borrow_and_update() != Stop::Run;
    let mut connection = http1::Builder::new()
        .max_buf_size(READ_BUFFER_BYTES)
        .keep_alive(!draining)
        // A client that has said all it has to say still wants to hear the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(io), service);
    let mut timer = Box::pin(sleep_until(Instant::now() + timeouts.head));
    let end = loop {
        let rings_at = timer.deadline();
        // Requests move the deadline all the time. The timer follows only when it would ring too late; when it
        // rings too early it is set again. A busy connection hardly ever touches it.
        let progress = poll_fn(|cx| {
            let dropped = activity.get().with_dropped_body();
            if let Poll::Ready(result) = connection.poll_without_shutdown(cx) {
                return Poll::Ready(Some(result));
            }
            dropped.into_iter().for_each(|request| activity.get().body_ends(request));
            let is_due = can_wait() || is_late(rings_at) || {
                let activity = activity.get();
                activity.client_is_gone() || activity.is_skipping_body() && !idle_entry.is_resting()
            };
            if is_due { Poll::Ready(None) } else { Poll::Pending }
        });
        let over = select! {
            biased;
            result = progress => result,
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow_and_update() == Stop::Abort {
                    break End::Abandoned;
                }
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                None
            }
            () = timer.as_mut() => None,
        };
        if let Some(result) = over {
            if let Err(error) = result {
                if error.is_parse_version_h2() {
                    activity.get().refused(b"HTTP/1.1 400");
                }
                debug!(%error, "a connection ended early");
            }
            break End::Finished;
        }
        if let Some(waiting_request) = can_wait().then(|| waiting_slot.take_out()).flatten() {
            break End::Waiting(waiting_request);
        }
        if activity.get().client_is_gone() {
            debug!("dropped a read whose client has gone");
            break End::Abandoned;
        }
        if activity.get().is_resting() {
            idle_entry.rests();
        }
        let scarcity = scarcity();
        let verdict = activity.get().verdict(Instant::now(), timeouts, scarcity);
        match verdict {
            Verdict::Wait(until) => timer.as_mut().reset(until),
            Verdict::Park => break End::Parked,
            Verdict::Close(slow) => {
                debug!("closed a connection that was too slow {slow}");
                break End::Abandoned;
            }
        }
    };
    let parts = connection.into_parts();
    let mut io = parts.io.into_inner();
    io.unread(parts.read_buf);
    io.forget_head();
    if matches!(end, End::Abandoned) && io.activity.get().is_waiting() {
        // Otherwise the system would hold what is left of the answer, for a client that does not want it.
        io.stream.reset_when_closed();
    }
    (end, io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_kept_for_those_who_were_quick_the_last_time() {
        let timeouts = Timeouts { park: Duration::from_millis(100), ..Timeouts::default() };
        let kept = |rested| after_rest(Duration::from_millis(rested), timeouts).park;
        assert_eq!([0, 99, 100, 5_000].map(kept), [timeouts.park, timeouts.park, Duration::ZERO, Duration::ZERO]);
        // Where no buffers are kept at all, a quick one gets none either.
        let none = Timeouts { park: Duration::ZERO, ..timeouts };
        assert_eq!(after_rest(Duration::ZERO, none).park, Duration::ZERO);
    }
}
