//! New tasks: one by a form, many as a sweep, or many as lines of JSON. What a sweep, a name and a line mean is decided in `core` and
//! `api`, as for the command line; here they are shown before anything is created. Ids are in the form or derived from the tasks, so
//! a form that is sent twice creates nothing twice.

mod create;
mod frame;
mod lines;
mod one;
mod sweep;

use axum::body::Body;
use taskqueue_core::access::Scope;

use self::frame::Way;
use crate::layout::PageResult;
use crate::visit::{LargeForm, Visit};

/// The largest form: browsers write most signs of JSON as three characters.
const FORM_BYTES: usize = 3 * lines::LINES_BYTES + 256 * 1024;

/// The page of the way that the address chooses.
pub(crate) async fn form(visit: Visit) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    match Way::of(&visit.query) {
        Way::One => one::form(&visit, &queue).await,
        Way::Sweep => sweep::form(&visit, &queue).await,
        Way::Lines => lines::form(&visit, &queue).await,
    }
}

/// Checks what a form has, or creates it.
pub(crate) async fn submit(visit: Visit, body: Body) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    let LargeForm { fields: form, turn, reserved: _reserved } = visit.large_form(body, FORM_BYTES).await?;
    match Way::of(&form) {
        Way::One => one::submit(&visit, &queue, &form, turn).await,
        // Its values stay parsed as long as tasks are made of them.
        Way::Sweep => sweep::submit(&visit, &queue, &form).await,
        Way::Lines => lines::submit(&visit, &queue, form, turn).await,
    }
}
