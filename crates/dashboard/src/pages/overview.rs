//! All queues at one glance.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn overview(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let shell = Shell::new(&dashboard, &visit, "Overview", Section::Overview, None).await?;
    layout::page(&visit, &OverviewPage { shell })
}
