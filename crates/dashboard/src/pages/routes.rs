//! Tasks against workers, by route.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "routes.html")]
struct RoutesPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn routes(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let shell = Shell::new(&dashboard, &visit, "Routes", Section::Routes, Some(&queue)).await?;
    layout::page(&visit, &RoutesPage { shell })
}
