//! Prints lists that come from the server in pages, and says when they are cut or empty.

use std::time::Duration;

use taskqueue_api::lists::Count;
use taskqueue_client::{Error, GroupQuery, Selection, Walk};
use taskqueue_core::words;
use tokio::time::timeout;

use crate::args::Format;
use crate::client_context::ClientContext;
use crate::failure::{CommandError, Failure};
use crate::field_path::FieldPath;
use crate::output::{self, GroupRecord, Listing, Record};

/// The time for which a list that is already printed waits for the number of what it left out.
const COUNT_PATIENCE: Duration = Duration::from_secs(2);

/// The part of a list that was printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed {
    pub(super) count: u64,
    /// True if a table left something out.
    pub(super) is_cut: bool,
}

/// Prints at most `max_items` items as records, which `push` makes of them.
pub(super) async fn print_items<T, R: Record>(
    context: &ClientContext,
    mut walk: Walk<T>,
    max_items: Option<u64>,
    fields: Option<&[FieldPath]>,
    push: impl Fn(&mut Listing<'_>, &T) -> Result<(), Failure>,
) -> Result<Printed, CommandError> {
    let mut listing = context.printer.listing_of::<R>(fields);
    while max_items.is_none_or(|max_items| listing.count() < max_items) {
        let Some(item) = walk.next().await? else { break };
        push(&mut listing, &item)?;
    }
    let count = listing.finish()?;
    // Programs that give a limit know that there may be more.
    let may_be_cut = context.printer.format() == Format::Table && max_items == Some(count);
    Ok(Printed { count, is_cut: may_be_cut && walk.next().await?.is_some() })
}

/// Says how much a table left out. `total` is the number of all items; if it takes too long or fails, none is given.
pub(super) async fn note_cut(printed: Printed, noun: &str, total: impl Future<Output = Result<u64, Error>>) {
    let shown = words::number(printed.count);
    let total = timeout(COUNT_PATIENCE, total).await.ok().and_then(Result::ok);
    // Items may have been deleted meanwhile; a number that cannot be right is left out.
    output::note(&match total.filter(|total| *total > printed.count) {
        Some(total) => format!("{shown} of {} {noun} shown; --all shows them all", words::number(total)),
        None => format!("{shown} {noun} shown, there are more; --all shows them all"),
    });
}

/// Prints how many there are, in all or of each group. Returns false if there was no group to print.
pub(super) async fn print_count<S: Selection>(
    context: &ClientContext,
    selection: S,
    group_by: Option<&[S::Dimension]>,
) -> Result<bool, CommandError>
where
    S::Dimension: Copy,
{
    let Some(dimensions) = group_by else {
        let count = context.client.count(&context.queue, &selection).await?;
        context.printer.one(&Count { count })?;
        return Ok(true);
    };
    let words: Vec<&'static str> = dimensions.iter().copied().map(S::WORD).collect();
    let mut walk = context.client.walk(&context.queue, GroupQuery::by(dimensions.iter().copied(), selection));
    let mut listing = context.printer.listing::<GroupRecord<'_>>();
    while let Some(group) = walk.next().await? {
        listing.push(&GroupRecord { dimensions: &words, group })?;
    }
    Ok(listing.finish()? > 0)
}
