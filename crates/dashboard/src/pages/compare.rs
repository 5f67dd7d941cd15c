//! Tasks side by side.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    shell: Shell,
}

/// The page.
pub(crate) async fn compare(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let shell = Shell::new(&dashboard, &visit, "Compare", Section::Compare, Some(&queue)).await?;
    layout::page(&visit, &ComparePage { shell })
}
