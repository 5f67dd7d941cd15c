//! The tasks of a queue.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn list(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let shell = Shell::new(&dashboard, &visit, "Tasks", Section::Tasks, Some(&queue)).await?;
    layout::page(&visit, &TasksPage { shell })
}
