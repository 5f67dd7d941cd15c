//! The output of one task over the whole screen: the task and its progress, then the latest lines.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use taskqueue_client::{Task, TaskId};
use taskqueue_core::time::Timestamp;

use super::{header, line_count};
use crate::commands::top::view::{OpenOutput, TopView};
use crate::live::{self, DrawContext, Theme};
use crate::output::escape;
use crate::progress_view::ProgressView;

const BAR_WIDTH: usize = 20;
const FEW_KEYS: &str = "Esc back  up down scroll  ? keys  q leave";

pub(super) fn draw(view: &TopView, open: &OpenOutput, frame: &mut Frame<'_>, context: &DrawContext<'_>) {
    let error = live::error_line(context.connection, context.now, context.theme);
    let output = view.output();
    let progress = output.and_then(|output| output.task.as_ref()).and_then(|task| progress(task, context.clock));
    let [header, error_area, title, progress_area, lines, footer] = frame.area().layout(&Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(error.is_some().into()),
        Constraint::Length(1),
        Constraint::Length(progress.is_some().into()),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]));
    header::draw(view, frame, header, context);
    frame.render_widget(error.unwrap_or_default(), error_area);
    let task = output.map(|output| output.task.as_ref());
    frame.render_widget(task_line(open.id, task, context.theme), title);
    frame.render_widget(Line::styled(progress.unwrap_or_default(), context.theme.bars()), progress_area);
    let footer_line = live::footer(context.controls, context.theme, &[], FEW_KEYS);
    frame.render_widget(footer_line, footer);
    let shown = output.map_or(&[][..], |output| &output.lines);
    if shown.is_empty() {
        let words = if output.is_some() { "nothing that it printed is kept" } else { "reading" };
        return frame.render_widget(Line::styled(words, context.theme.dimmed()), lines);
    }
    // As many of the latest lines as fit, unless somebody scrolls.
    let height = usize::from(lines.height);
    let start = shown.len().saturating_sub(height).saturating_sub(open.scroll);
    for (text, row) in shown.iter().skip(start).zip(lines.rows()) {
        // Tabs have no width of their own here.
        frame.render_widget(Line::raw(text.replace('\t', "    ")), row);
    }
    let hidden = shown.len().saturating_sub(start + height);
    if hidden > 0 && line_count(hidden) > 0 {
        let more = Line::styled(format!(" {hidden} more below "), context.theme.marked()).right_aligned();
        frame.render_widget(more, title);
    }
}

fn task_line(id: TaskId, task: Option<Option<&Task>>, theme: Theme) -> Line<'static> {
    let id = Span::styled(id.to_string(), theme.heading());
    let rest = match task {
        None => String::new(),
        Some(None) => "  does not exist any more".to_owned(),
        Some(Some(task)) => {
            let name = task.name.as_deref().map(|name| format!("  {}", escape(name))).unwrap_or_default();
            format!("{name}  {}  attempt {}/{}", task.status.as_str(), task.attempt, task.max_attempts)
        }
    };
    Line::from_iter([id, Span::raw(rest)])
}

fn progress(task: &Task, now: Timestamp) -> Option<String> {
    let view = ProgressView::of(task, now)?;
    let parts = [view.bar(BAR_WIDTH), Some(view.measures()), Some(view.said())];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    Some(escape(&parts.join("  ")).into_owned())
}
