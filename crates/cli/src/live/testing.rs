//! Screens as text, for tests of how views look.

use std::time::{Duration, Instant};

use ratatui::backend::TestBackend;
use ratatui::{Frame, Terminal};
use taskqueue_client::{Definition, JsonObject, QueueName, Status, Task, TaskId};
use taskqueue_core::time::Timestamp;

use super::{Contact, Controls, Moment, Theme};

/// What is drawn on a screen of this size, without the blanks at the ends of lines.
pub(crate) fn screen(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let cell = |x, y| buffer.cell((x, y)).unwrap().symbol();
    let line = |y| (0..width).map(|x| cell(x, y)).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

/// A moment at `now`, 08:00 by the clock, with an interval of two seconds and data of this moment.
pub(crate) fn at_eight<T>(now: Instant, test: impl FnOnce(&Moment<'_>) -> T) -> T {
    let controls = Controls::new(Duration::from_secs(2));
    let contact = Contact { answered_at: Some(now), ..Contact::default() };
    test(&Moment { now, clock: EIGHT, contact: &contact, controls: &controls, theme: Theme::PLAIN })
}

/// Eight o'clock.
pub(crate) const EIGHT: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// A task that nothing happened to, with this number as its id, created a minute before eight.
pub(crate) fn task(number: u64) -> Task {
    let Definition { name, args, metadata, priority, max_attempts, routes } = Definition::default();
    let at = EIGHT.plus_seconds(-60);
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
    }
}
