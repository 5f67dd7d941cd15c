//! Forms that were sent: read within a limit, and taken only from our own pages.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;

use crate::address::{PARAMETERS_MAX, Query};
use crate::problem::Problem;
use crate::visit::Visit;

/// The field in which every form carries the secret of its viewer.
pub(crate) const FORM_TOKEN: &str = "form_token";
/// Enough for a selection of a page of tasks and a filter.
pub(crate) const SMALL_FORM_BYTES: usize = 64 * 1024;
/// How long a browser may take to send a form.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the form of a visit, if it came from one of the pages of this viewer.
pub(crate) async fn read(visit: &Visit, body: Body, most_bytes: usize) -> Result<Query, Problem> {
    let form =
        read_fields(visit.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()), body, most_bytes).await?;
    if form.get(FORM_TOKEN).is_some_and(|sent| visit.viewer.has_form_token(sent)) {
        return Ok(form.without(FORM_TOKEN));
    }
    Err(Problem::forbidden(
        "The form is not from a page of yours, or you signed in anew since. Go back, reload the page, and try again.",
    ))
}

/// Reads a form of somebody who is not known.
pub(crate) async fn read_fields(content_type: Option<&str>, body: Body, most_bytes: usize) -> Result<Query, Problem> {
    let is_form = content_type.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if !is_form {
        return Err(Problem::invalid("This is not a form", "Use the buttons of the page."));
    }
    let collected = timeout(READ_TIMEOUT, Limited::new(body, most_bytes).collect()).await;
    let Ok(Ok(bytes)) = collected.map(|body| body.map(|body| body.to_bytes())) else {
        let advice =
            format!("It may have {} KiB, and its sending {} seconds.", most_bytes / 1024, READ_TIMEOUT.as_secs());
        return Err(Problem::invalid("The form is too large or came too slowly", advice));
    };
    // Nothing is done with a part of a form.
    if bytes.iter().filter(|byte| **byte == b'&').count() >= PARAMETERS_MAX {
        return Err(Problem::invalid("The form has too many fields", "Use the buttons of the page."));
    }
    Ok(Query::parse(&String::from_utf8_lossy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_of_a_million_fields_is_refused_and_not_read_in_part() {
        let kind = Some("application/x-www-form-urlencoded");
        let many = Body::from("a&".repeat(1_000_000));
        assert!(read_fields(kind, many, 4_000_000).await.is_err());
        let few = read_fields(kind, Body::from("a=1&b=2"), 100).await;
        assert_eq!(few.map(|form| form.to_string()), Ok("a=1&b=2".to_owned()));
    }
}
