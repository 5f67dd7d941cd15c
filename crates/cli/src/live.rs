//! Live views: full-screen displays that refresh until the user leaves. What all of them share: the terminal, keys, the refresh schedule,
//! and here the event loop: it handles keys, answers and timers, and draws. Requests run in a separate async task and the screen shows
//! the latest data, so that a slow server does not slow down the keys. Also the parts that every view has: the error line, the footer, the help,
//! the clock, the tables of list commands with the same columns, cells and layout, and the styles, with colours or without. What a view requests
//! and draws is in the module of its command.

mod controls;
#[cfg(test)]
pub(crate) mod tests;

use std::future::Future;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Effects};
use ratatui::layout::{self as screen, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use ratatui::{DefaultTerminal, Frame};
use taskqueue_client::Error;
use taskqueue_core::time::Timestamp;
use taskqueue_core::words;
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{interval, sleep_until};

pub(crate) use self::controls::{ConnectionState, Controls, FetchError, Key, RefreshSchedule};
use self::controls::{KeyResult, read_keys};
use crate::failure::{CommandError, Failure};
use crate::output::{self, Cell, Column, Layout, Record, Terminal, escape};

/// The time between drawings without an event: it shows ages in seconds.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

pub(crate) trait View {
    /// The request of a refresh. When it changes, a refresh starts at once.
    type Query: Clone + PartialEq;
    /// The result of a refresh.
    type Snapshot: Send + 'static;

    /// The keys that only this view has, and their meanings.
    const KEYS: &[(&str, &str)];

    fn query(&self) -> Self::Query;

    fn update(&mut self, snapshot: Self::Snapshot, at: Instant);

    /// Handles a key that `Controls` does not handle.
    fn handle_key(&mut self, key: Key);

    /// Closes what is open in the view. Without that the key leaves the view.
    fn go_back(&mut self) -> bool {
        false
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &DrawContext<'_>);
}

/// Draws the view, or the help instead.
pub(crate) fn draw<V: View>(view: &V, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    if context.controls.shows_help { help(frame, V::KEYS) } else { view.draw(frame, context) }
}

/// Shows the view until the user leaves it or a signal stops the process. If the server refuses the first refresh, the
/// command line is wrong and the view ends with that error. Later errors are shown and retried.
pub(crate) async fn run<V, F>(view: V, every: Duration, fetch: impl Fn(V::Query) -> F) -> Result<(), CommandError>
where
    V: View,
    F: Future<Output = Result<V::Snapshot, Error>> + Send + 'static,
{
    let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
    let mut screen = Screen::open()?;
    let mut inputs = read_keys().map_err(unusable)?;
    let mut redraw = interval(REDRAW_EVERY);
    let mut refreshes = JoinSet::new();
    let mut live = LiveView::new(view, every);
    loop {
        screen.draw(|frame| live.draw(frame))?;
        let next = live.connection.next_at;
        select! {
            input = inputs.recv() => match input {
                Some(Ok(Some(key))) if live.handle_key(key) == KeyResult::Leave => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(unusable(error).into()),
                None => return Ok(()),
            },
            Some(joined) = refreshes.join_next() => live.finish_refresh(joined)?,
            () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => drop(refreshes.spawn(fetch(live.start_refresh()))),
            _ = redraw.tick() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

/// A view with its controls, schedule and connection state.
struct LiveView<V: View> {
    view: V,
    controls: Controls,
    schedule: RefreshSchedule,
    connection: ConnectionState,
    last_query: Option<V::Query>,
    theme: Theme,
}

impl<V: View> LiveView<V> {
    fn new(view: V, interval: Duration) -> Self {
        let (controls, schedule) = (Controls::new(interval), RefreshSchedule::new(Instant::now()));
        let theme = Theme::of_stdout();
        let mut live =
            Self { view, controls, schedule, connection: ConnectionState::default(), last_query: None, theme };
        live.reschedule();
        live
    }

    /// Called after every event.
    fn reschedule(&mut self) {
        if self.last_query.as_ref().is_some_and(|last| *last != self.view.query()) {
            self.schedule.request_now();
        }
        self.connection.next_at = self.schedule.due(&self.controls);
    }

    fn handle_key(&mut self, key: Key) -> KeyResult {
        let pressed = match key {
            Key::Back if !self.controls.shows_help && self.view.go_back() => KeyResult::Handled,
            key => self.controls.handle_key(key),
        };
        match pressed {
            KeyResult::Refresh => self.schedule.request_now(),
            KeyResult::Unhandled => self.view.handle_key(key),
            KeyResult::Leave | KeyResult::Handled => {}
        }
        self.reschedule();
        pressed
    }

    fn start_refresh(&mut self) -> V::Query {
        let query = self.view.query();
        self.last_query = Some(query.clone());
        self.schedule.begin(Instant::now());
        self.reschedule();
        query
    }

    fn finish_refresh(&mut self, joined: Result<Result<V::Snapshot, Error>, JoinError>) -> Result<(), CommandError> {
        let outcome =
            joined.map_err(|error| Failure::Refused(format!("a refresh was aborted: {error}; this is a bug")))?;
        let now = Instant::now();
        self.schedule.end(outcome.is_ok(), now);
        match outcome {
            Ok(snapshot) => {
                self.view.update(snapshot, now);
                self.connection.answered_at = Some(now);
                self.connection.error = None;
            }
            Err(error) if self.connection.answered_at.is_none() && is_refusal(&error) => return Err(error.into()),
            Err(error) => self.connection.error = Some(FetchError::of(&error)),
        }
        self.reschedule();
        Ok(())
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let Self { controls, connection, theme, .. } = self;
        let context = DrawContext { now: Instant::now(), clock: output::now(), connection, controls, theme: *theme };
        draw(&self.view, frame, &context);
    }
}

/// Returns whether a retry cannot help: it is not a taskqueue server, or the request is wrong.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Api { status, .. } | Error::Protocol { status, .. } if *status < 500)
}

/// Refuses if standard output is not a terminal. `instead` is a command that works there.
pub(crate) fn require_terminal(what: &str, instead: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{what} needs a terminal, but standard output is not one; for programs use {instead}")))
}

fn unusable(error: io::Error) -> Failure {
    Failure::because("the terminal cannot be used")(error)
}

#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Enters full-screen mode. A panic leaves it before its message is printed.
    pub(super) fn open() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| {
            // It may have failed half-way.
            drop(ratatui::try_restore());
            unusable(error)
        })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.0.draw(draw).map(drop).map_err(|error| Failure::from_output(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If this fails, the terminal is closed already. The cursor is shown first: the library does that too late for a
        // terminal that is being closed.
        drop(self.0.show_cursor());
        drop(ratatui::try_restore());
    }
}

const KEYS: &[(&str, &str)] = &[
    ("space", "pause and go on"),
    ("+ -", "refresh more often, less often"),
    ("r", "refresh now"),
    ("q Esc ^C", "leave"),
];

/// The values that `View::draw` needs besides the state of the view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawContext<'a> {
    pub(crate) now: Instant,
    /// `now` as a timestamp.
    pub(crate) clock: Timestamp,
    pub(crate) connection: &'a ConnectionState,
    pub(crate) controls: &'a Controls,
    pub(crate) theme: Theme,
}

/// The line that is shown while refreshes fail. The most important comes first, because narrow screens cut the rest.
fn error_line(connection: &ConnectionState, now: Instant, theme: Theme) -> Option<Line<'static>> {
    let FetchError { headline, message } = connection.error.as_ref()?;
    let age =
        connection.age(now).map_or("no data yet".to_owned(), |age| format!("data {} old", words::span(age.as_secs())));
    let next = match connection.next_at {
        Some(at) => format!("next try in {}", words::short_duration(at.saturating_duration_since(now).as_secs_f64())),
        None => "trying".to_owned(),
    };
    Some(Line::styled(format!("{headline}, {age}, {next}: {}", escape(message)), theme.error()))
}

/// The last line: the pause or the interval, the notes of the view, and a few keys.
fn footer(controls: &Controls, theme: Theme, notes: &[String], keys: &str) -> Line<'static> {
    let state = if controls.paused {
        Span::styled("PAUSED".to_owned(), theme.warning())
    } else {
        Span::styled(format!("every {}", words::short_duration(controls.interval.as_secs_f64())), DIMMED)
    };
    let notes = notes.iter().map(|text| Span::styled(format!("  {text}"), DIMMED));
    std::iter::once(state).chain(notes).chain([Span::styled(format!("  {keys}"), DIMMED)]).collect()
}

/// Draws the error line, if refreshes fail, and the footer. Returns the lines above them, of which the view wants so many, and the area
/// between them.
pub(crate) fn draw_edges(
    frame: &mut Frame<'_>,
    context: &DrawContext<'_>,
    head_lines: u16,
    notes: &[String],
    keys: &str,
) -> [Rect; 2] {
    let error = error_line(context.connection, context.now, context.theme);
    let [head, error_area, body, last] = frame.area().layout(&screen::Layout::vertical([
        Constraint::Length(head_lines),
        Constraint::Length(error.is_some().into()),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]));
    frame.render_widget(error.unwrap_or_default(), error_area);
    frame.render_widget(footer(context.controls, context.theme, notes, keys), last);
    [head, body]
}

/// Draws the help over the whole screen. `keys` are those of the view.
fn help(frame: &mut Frame<'_>, keys: &[(&str, &str)]) {
    let line = |(key, meaning): &(&str, &str)| {
        Line::from_iter([Span::styled(format!("{key:<9} "), HEADING), Span::raw((*meaning).to_owned())])
    };
    let title = Line::styled("Keys (any key closes this)", HEADING);
    let lines: Vec<Line<'static>> = std::iter::once(title).chain(keys.iter().chain(KEYS).map(line)).collect();
    frame.render_widget(Clear, frame.area());
    frame.render_widget(Paragraph::new(lines), frame.area());
}

/// The time of day in UTC.
pub(crate) fn clock(at: Timestamp) -> String {
    // The format of the contract: `2026-11-15T07:15:25.123456Z`.
    at.to_string().get(11..19).map(|time| format!("{time} UTC")).unwrap_or_default()
}

#[derive(Debug)]
pub(crate) struct Table<'h> {
    columns: Vec<Column<'h>>,
    rows: Vec<Vec<Cell>>,
    /// The heads of columns that are left out where there is no room, first the least important.
    leave_out: &'static [&'static str],
}

impl<'h> Table<'h> {
    pub(crate) fn new(columns: &[Column<'h>], rows: Vec<Vec<Cell>>, leave_out: &'static [&'static str]) -> Self {
        Self { columns: columns.to_vec(), rows, leave_out }
    }

    /// The table that a list command prints.
    pub(crate) fn of<'r, R: Record + 'r>(records: impl IntoIterator<Item = &'r R>, now: Timestamp) -> Self {
        Self::new(R::COLUMNS, records.into_iter().map(|record| record.cells(now)).collect(), R::LEAVE_OUT)
    }

    /// The head and the rows as lines of at most `width`. Columns are left out in the order of `leave_out` until the others
    /// fit.
    fn lines(self, width: u16, theme: Theme) -> (Line<'static>, Vec<Line<'static>>) {
        let terminal = Terminal { colour: false, width: Some(width.into()) };
        let layout = Layout::fitting(&self.columns, &self.rows, self.leave_out, terminal);
        let line = |pieces: Vec<(String, anstyle::Style)>| -> Line<'static> {
            pieces.into_iter().map(|(text, style)| Span::styled(text, theme.cell(style))).collect()
        };
        (line(layout.head_pieces()), self.rows.iter().map(|row| line(layout.row_pieces(row))).collect())
    }

    /// Draws as many rows as fit, so that the marked one is among them.
    pub(crate) fn draw(self, frame: &mut Frame<'_>, area: Rect, marked: Option<usize>, theme: Theme) {
        let first = |rows, height| first_visible_row(marked.unwrap_or(0), rows, height);
        self.draw_from(first, |row| Some(row) == marked, frame, area, theme);
    }

    /// Draws as many rows as fit. `first` is given the number of rows and how many fit, and says where to begin.
    pub(crate) fn draw_from(
        self,
        first: impl FnOnce(usize, usize) -> usize,
        is_marked: impl Fn(usize) -> bool,
        frame: &mut Frame<'_>,
        area: Rect,
        theme: Theme,
    ) {
        let (head, lines) = self.lines(area.width, theme);
        let start = first(lines.len(), area.height.saturating_sub(1).into());
        let mark = |(row, line): (usize, Line<'static>)| if is_marked(row) { line.patch_style(MARKED) } else { line };
        let shown = lines.into_iter().enumerate().map(mark).skip(start);
        for (line, row) in std::iter::once(head).chain(shown).zip(area.rows()) {
            frame.render_widget(line, row);
        }
    }
}

/// The index of the first row to show, so that row `marked` is visible and the window is as full as possible.
fn first_visible_row(marked: usize, rows: usize, height: usize) -> usize {
    let last_start = rows.saturating_sub(height);
    marked.saturating_sub(height / 2).min(last_start)
}

// Styles that are the same with and without colours.
pub(crate) const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const DIMMED: Style = Style::new().add_modifier(Modifier::DIM);
/// What is selected or has changed: readable on light and dark terminals.
pub(crate) const MARKED: Style = Style::new().add_modifier(Modifier::REVERSED);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(super) colour: bool,
}

impl Theme {
    pub(crate) fn of_stdout() -> Self {
        Self { colour: Terminal::of_stdout().colour }
    }

    fn tinted(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    pub(crate) fn error(self) -> Style {
        self.tinted(Color::Red, Modifier::REVERSED).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn ok(self) -> Style {
        self.tinted(Color::Green, Modifier::empty())
    }

    pub(crate) fn warning(self) -> Style {
        self.tinted(Color::Yellow, Modifier::BOLD)
    }

    pub(crate) fn bars(self) -> Style {
        self.tinted(Color::Cyan, Modifier::empty())
    }

    /// The style of a cell in printed tables.
    pub(super) fn cell(self, style: anstyle::Style) -> Style {
        let mut converted = Style::new();
        if style.get_effects().contains(Effects::BOLD) {
            converted = converted.add_modifier(Modifier::BOLD);
        }
        if style.get_effects().contains(Effects::DIMMED) {
            converted = converted.add_modifier(Modifier::DIM);
        }
        match style.get_fg_color() {
            Some(anstyle::Color::Ansi(colour)) if self.colour => converted.fg(ansi(colour)),
            _ => converted,
        }
    }
}

/// Converts the colours that our tables use.
fn ansi(colour: AnsiColor) -> Color {
    match colour {
        AnsiColor::Red => Color::Red,
        AnsiColor::Green => Color::Green,
        AnsiColor::Yellow => Color::Yellow,
        AnsiColor::Cyan => Color::Cyan,
        AnsiColor::BrightBlack => Color::DarkGray,
        _ => Color::Reset,
    }
}

#[cfg(test)]
mod loop_tests {
    use std::time::Duration;

    use taskqueue_core::task::Status;

    use super::*;

    #[test]
    fn only_what_will_not_get_better_is_a_refusal() {
        let protocol = |status| Error::Protocol { status, message: String::new(), from_taskqueue: false };
        let lost = Error::Transport { message: String::new(), may_have_arrived: false };
        assert!(is_refusal(&protocol(200)) && is_refusal(&protocol(404)));
        assert!(!is_refusal(&protocol(503)) && !is_refusal(&lost));
    }

    fn state(error: Option<&str>, answered_at: Option<Instant>, next_at: Option<Instant>) -> ConnectionState {
        let error = error.map(|message| FetchError { headline: "NO ANSWER", message: message.to_owned() });
        ConnectionState { answered_at, error, next_at }
    }

    fn line_text(connection: &ConnectionState, now: Instant) -> Option<String> {
        error_line(connection, now, Theme::PLAIN).map(|line| line.to_string())
    }

    #[test]
    fn the_error_line_has_the_age_of_the_data_and_the_next_try() {
        let start = Instant::now();
        let now = start + Duration::from_secs(14);
        assert_eq!(line_text(&state(None, Some(start), None), now), None);
        let waiting = state(Some("refused\u{1b}[2J"), Some(start), Some(now + Duration::from_secs(3)));
        let expected = r"NO ANSWER, data 14s old, next try in 3s: refused\u{1b}[2J";
        assert_eq!(line_text(&waiting, now).as_deref(), Some(expected));
        let asking = state(Some("timed out"), None, None);
        assert_eq!(line_text(&asking, now).as_deref(), Some("NO ANSWER, no data yet, trying: timed out"));
    }

    #[test]
    fn the_clock_has_the_time_of_day() {
        assert_eq!(clock(Timestamp::from_micros(1_800_000_000_000_001)), "08:00:00 UTC");
    }

    #[test]
    fn the_least_important_columns_go_first_and_only_where_there_is_no_room() {
        let columns = [Column::text("ID"), Column::number("RUNNING"), Column::number("CANCELLED")];
        let shown = |width| {
            let cells = vec![vec![Cell::new("t_1"), Cell::number(7), Cell::number(8)]];
            let table = Table::new(&columns, cells, &["CANCELLED", "RUNNING"]);
            let (head, rows) = table.lines(width, Theme::PLAIN);
            [head.to_string(), rows[0].to_string()]
        };
        assert_eq!(shown(23), ["ID   RUNNING  CANCELLED", "t_1        7          8"]);
        assert_eq!(shown(22), ["ID   RUNNING", "t_1        7"]);
        assert_eq!(shown(5), ["ID", "t_1"]);
    }

    #[test]
    fn the_marked_row_is_always_in_the_window() {
        let cases =
            [(0, 10, 4, 0), (1, 10, 4, 0), (5, 10, 4, 3), (9, 10, 4, 6), (3, 4, 9, 0), (0, 0, 3, 0), (2, 5, 1, 2)];
        for (marked, rows, height, expected) in cases {
            assert_eq!(first_visible_row(marked, rows, height), expected, "{marked} {rows} {height}");
        }
    }

    #[test]
    fn without_colours_nothing_is_coloured_and_errors_still_stand_out() {
        let styles = [Theme::PLAIN.error(), Theme::PLAIN.warning(), Theme::PLAIN.bars(), Theme::PLAIN.ok()];
        assert!(styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()));
        assert!(Theme::PLAIN.error().add_modifier.contains(Modifier::REVERSED));
        assert_eq!(Theme::PLAIN.cell(Cell::status(Status::Failed).pieces(0, false)[0].1).fg, None);
        assert_eq!(Theme::COLOURED.error().fg, Some(Color::Red));
    }

    #[test]
    fn every_status_has_the_colour_of_printed_tables() {
        let colours = Status::ALL.map(|status| Theme::COLOURED.cell(Cell::status(status).pieces(0, false)[0].1).fg);
        let expected = [Color::Yellow, Color::Cyan, Color::Green, Color::Red, Color::DarkGray];
        assert_eq!(colours, expected.map(Some));
    }
}
