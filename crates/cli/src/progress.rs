//! Progress bars on standard error, shown only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(200);

/// A bar, or a spinner if the total is unknown. It disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn of_tasks(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {human_pos}/{human_len} {elapsed} {msg}", verb)
    }

    pub(crate) fn of_bytes(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {percent}% {eta} {msg}", verb)
    }

    /// With the rate, for what is throttled.
    pub(crate) fn of_copied_bytes(verb: &'static str, total: u64) -> Self {
        Self::new(ProgressBar::new(total), "{prefix} {wide_bar} {percent}% {binary_bytes_per_sec} {eta}", verb)
    }

    pub(crate) fn spinner(verb: &'static str) -> Self {
        Self::new(ProgressBar::new_spinner(), "{prefix} {spinner} {elapsed} {msg}", verb)
    }

    fn new(bar: ProgressBar, template: &'static str, verb: &'static str) -> Self {
        // The templates are constants; if one is wrong, the default style is good enough.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(verb);
        // Without a terminal nothing is drawn, so the thread is not needed.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    pub(crate) fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Returns whether somebody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    pub(crate) fn set_message(&self, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(message());
        }
    }

    /// Hides the bar while `print` writes lines to standard error.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
