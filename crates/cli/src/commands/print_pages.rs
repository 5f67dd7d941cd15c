//! Prints lists that come from the server in pages.

use taskqueue_client::{Group, PageQuery, Walk};

use crate::args::{Format, LimitArgs};
use crate::client_context::ClientContext;
use crate::failure::CommandError;
use crate::output::{self, GroupRecord, Record};

/// Prints as many items as the limit allows, and a note if there are more.
pub(super) async fn print_items<Q>(
    context: &ClientContext,
    mut walk: Walk<Q>,
    limit: LimitArgs,
    noun: &str,
) -> Result<(), CommandError>
where
    Q: PageQuery<Item: Record>,
{
    let mut listing = context.printer.listing::<Q::Item>();
    let mut remaining = limit.max_items();
    while remaining != Some(0) {
        let Some(item) = walk.next().await? else {
            return Ok(listing.finish()?);
        };
        listing.push(&item)?;
        remaining = remaining.map(|count| count - 1);
    }
    listing.finish()?;
    if context.printer.format() == Format::Table && walk.next().await?.is_some() {
        output::note(&format!("there are more {noun}; show them with --all or a larger --limit"));
    }
    Ok(())
}

pub(super) async fn print_groups<Q>(
    context: &ClientContext,
    mut walk: Walk<Q>,
    dimensions: &[&'static str],
) -> Result<(), CommandError>
where
    Q: PageQuery<Item = Group>,
{
    let mut listing = context.printer.listing::<GroupRecord<'_>>();
    while let Some(group) = walk.next().await? {
        listing.push(&GroupRecord { dimensions, group })?;
    }
    Ok(listing.finish()?)
}
