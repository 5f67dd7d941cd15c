//! The first line: the server, its state and the time.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use taskqueue_core::words;

use crate::commands::top::view::TopView;
use crate::live::{DrawContext, clock};
use crate::output::escape;

/// Narrower screens show the address only.
const NAME_FROM_WIDTH: u16 = 60;

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, area: Rect, context: &DrawContext<'_>) {
    let time = clock(context.clock);
    let server = server(view, area.width, context);
    // If both do not fit, the time is left out.
    let time_width = u16::try_from(time.len()).unwrap_or(u16::MAX);
    let has_room = server.width() + time.len() < usize::from(area.width);
    let [left, right] = area
        .layout(&Layout::horizontal([Constraint::Fill(1), Constraint::Length(if has_room { time_width } else { 0 })]));
    frame.render_widget(server, left);
    frame.render_widget(Span::styled(time, context.theme.dimmed()), right);
}

fn server(view: &TopView, width: u16, context: &DrawContext<'_>) -> Line<'static> {
    let version = view.snapshot.as_ref().and_then(|snapshot| snapshot.version);
    let name = match version {
        _ if width < NAME_FROM_WIDTH => String::new(),
        Some(version) => format!("taskqueue {version} at "),
        None => "taskqueue at ".to_owned(),
    };
    let url = Span::styled(format!("{}  ", escape(&view.url)), context.theme.heading());
    Line::from_iter([Span::raw(name), url, health(view, context)])
}

fn health(view: &TopView, context: &DrawContext<'_>) -> Span<'static> {
    let theme = context.theme;
    if let Some(error) = &context.connection.error {
        return Span::styled(error.headline, theme.error());
    }
    // A slow refresh has not failed yet, and a pause is easily forgotten.
    if let Some(age) = context.connection.stale_age(context.now, context.controls.interval) {
        return Span::styled(format!("data {} old", words::span(age.as_secs())), theme.warning());
    }
    match &view.snapshot {
        None => Span::styled("connecting", theme.dimmed()),
        Some(snapshot) if snapshot.health.is_ok => Span::styled("ok", theme.ok()),
        Some(_) => Span::styled("its database does not work", theme.error()),
    }
}
