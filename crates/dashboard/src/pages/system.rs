//! The server and its database.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn system(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let shell = Shell::new(&dashboard, &visit, "System", Section::System, None).await?;
    layout::page(&visit, &SystemPage { shell })
}
