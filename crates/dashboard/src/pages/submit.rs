//! New tasks.

use askama::Template;
use axum::extract::State;

use crate::layout::{self, PageResult, Section, Shell};
use crate::state::Dashboard;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "submit.html")]
struct SubmitPage {
    shell: Shell,
}

/// The page.
pub(crate) async fn form(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let shell = Shell::new(&dashboard, &visit, "Submit", Section::Submit, Some(&queue)).await?;
    layout::page(&visit, &SubmitPage { shell })
}
