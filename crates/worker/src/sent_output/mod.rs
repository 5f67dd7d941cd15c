//! Sends what a run prints. Whoever reads the output of the command only puts it into a buffer, which never waits; a task per run sends
//! from there. So no server, however slow, slows the command or its log (docs/decisions/0051).

mod buffer;
mod line_state;
mod sender;
mod text;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use self::buffer::Buffer;
use crate::process::Stream;

pub(crate) use self::sender::LateOutput;

/// Which output of a run is sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutput {
    Off,
    On,
    /// The first so many bytes, and a line that says so.
    First(u64),
}

/// Takes what a run prints. When the last clone is dropped, the output has ended.
#[derive(Clone, Debug)]
pub struct RunOutput(Option<Arc<Feed>>);

impl RunOutput {
    /// Sends nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Never waits. What cannot be sent in time is left out.
    pub fn print(&self, stream: Stream, bytes: &[u8]) {
        if let Some(feed) = &self.0 {
            feed.0.print(stream, bytes);
        }
    }
}

/// Ends the output when it is dropped.
struct Feed(Arc<Shared>);

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.buffer.end();
        state.is_ended = true;
        drop(state);
        self.0.ended.notify_one();
    }
}

/// What the one who prints and the one who sends share.
struct Shared {
    state: Mutex<State>,
    printed: Notify,
    ended: Notify,
}

struct State {
    buffer: Buffer,
    is_ended: bool,
    /// Nothing more is to be sent.
    is_ignored: bool,
}

impl Shared {
    fn new(send: SendOutput, buffer_bytes: usize) -> Arc<Self> {
        let buffer = Buffer::new(buffer_bytes, matches!(send, SendOutput::First(_)));
        let state = State { buffer, is_ended: false, is_ignored: false };
        Arc::new(Self { state: Mutex::new(state), printed: Notify::new(), ended: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        if !state.is_ignored {
            state.buffer.push(stream, bytes);
            drop(state);
            self.printed.notify_one();
        }
    }

    /// Waits until there is something to send.
    async fn printed(&self) {
        while self.state().buffer.len() == 0 {
            self.printed.notified().await;
        }
    }

    async fn ended(&self) {
        while !self.state().is_ended {
            self.ended.notified().await;
        }
    }
}
