//! The first line: which server, how it is, and the time.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use crate::commands::top::view::TopView;
use crate::live::{Moment, clock, seconds};
use crate::output::escape;

/// Narrower screens have room for the address only.
const NAME_FROM_WIDTH: u16 = 60;

pub(super) fn draw(view: &TopView, frame: &mut Frame<'_>, area: Rect, moment: &Moment<'_>) {
    let time = clock(moment.clock);
    let server = server(view, area.width, moment);
    // Where both have no room, the time goes.
    let time_width = u16::try_from(time.len()).unwrap_or(u16::MAX);
    let has_room = server.width() + time.len() < usize::from(area.width);
    let [left, right] = area
        .layout(&Layout::horizontal([Constraint::Fill(1), Constraint::Length(if has_room { time_width } else { 0 })]));
    frame.render_widget(server, left);
    frame.render_widget(Span::styled(time, moment.theme.quiet()), right);
}

fn server(view: &TopView, width: u16, moment: &Moment<'_>) -> Line<'static> {
    let version = view.snapshot.as_ref().and_then(|snapshot| snapshot.version);
    let name = match version {
        _ if width < NAME_FROM_WIDTH => String::new(),
        Some(version) => format!("taskqueue {version} at "),
        None => "taskqueue at ".to_owned(),
    };
    let url = Span::styled(format!("{}  ", escape(&view.url)), moment.theme.heading());
    Line::from_iter([Span::raw(name), url, health(view, moment)])
}

fn health(view: &TopView, moment: &Moment<'_>) -> Span<'static> {
    let theme = moment.theme;
    if let Some(trouble) = &moment.contact.trouble {
        return Span::styled(trouble.headline, theme.alarm());
    }
    // A round that takes long has not failed yet, and a pause is easily forgotten.
    if let Some(age) = moment.contact.late(moment.now, moment.controls.interval) {
        return Span::styled(format!("data {} old", seconds(age)), theme.notice());
    }
    match &view.snapshot {
        None => Span::styled("connecting", theme.quiet()),
        Some(snapshot) if snapshot.health.is_ok => Span::styled("ok", theme.well()),
        Some(_) => Span::styled("its database does not work", theme.alarm()),
    }
}
