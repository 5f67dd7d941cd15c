//! Who works for a queue.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn workers(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let shell = Shell::new(&dashboard, &visit, "Workers", Section::Workers, Some(&queue)).await?;
    layout::page(&visit, &WorkersPage { shell })
}
