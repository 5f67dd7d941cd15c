//! One task.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "task.html")]
struct TaskPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn task(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let shell = Shell::new(&dashboard, &visit, "Tasks", Section::Tasks, Some(&queue)).await?;
    layout::page(&visit, &TaskPage { shell })
}
