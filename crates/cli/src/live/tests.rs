//! Renders views as text, for tests.

use std::time::{Duration, Instant};

use ratatui::backend::TestBackend;
use ratatui::{Frame, Terminal};
use taskqueue_client::{Definition, JsonObject, QueueName, Status, Task, TaskId};
use taskqueue_core::time::Timestamp;

use super::{ConnectionState, Controls, DrawContext, Theme};

impl Theme {
    pub(crate) const PLAIN: Self = Self { colour: false };
    pub(crate) const COLOURED: Self = Self { colour: true };
}

/// The lines of a screen of this size, without trailing blanks.
pub(crate) fn screen(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let cell = |x, y| buffer.cell((x, y)).unwrap().symbol();
    let line = |y| (0..width).map(|x| cell(x, y)).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

/// A context at `now`, which is 08:00 UTC, with an interval of two seconds and data of that moment.
pub(crate) fn at_test_time<T>(now: Instant, test: impl FnOnce(&DrawContext<'_>) -> T) -> T {
    let controls = Controls::new(Duration::from_secs(2));
    let connection = ConnectionState { answered_at: Some(now), ..ConnectionState::default() };
    test(&DrawContext { now, clock: TEST_TIME, connection: &connection, controls: &controls, theme: Theme::PLAIN })
}

/// 08:00 UTC.
pub(crate) const TEST_TIME: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// A pending task with this number as its id, created a minute before `TEST_TIME`.
pub(crate) fn task(number: u64) -> Task {
    let Definition { name, args, metadata, priority, max_attempts, routes, scheduling } = Definition::default();
    let at = TEST_TIME.plus_seconds(-60);
    Task {
        id: TaskId::parse(&format!("t_{number:012}")).unwrap(),
        queue: QueueName::parse("default").unwrap(),
        status: Status::Pending,
        name,
        args,
        metadata,
        priority,
        attempt: 0,
        max_attempts,
        routes,
        result: JsonObject::empty(),
        last_error: None,
        last_route: None,
        created_at: at,
        updated_at: at,
        started_at: None,
        finished_at: None,
        last_run: None,
        progress: None,
        progress_updated_at: None,
        progress_attempt: None,
        not_before: None,
        scheduling,
        archived: false,
    }
}
