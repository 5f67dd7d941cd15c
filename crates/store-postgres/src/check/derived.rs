//! Checks what holds over all tasks, by statements that list what differs: counts, the pending order, the list of running tasks,
//! run ids, rows that belong to nothing; and observations. The list of unsuccessful tasks is left out: it may differ without
//! harm, and older servers leave it so (docs/decisions/0004).

use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt};
use taskqueue_core::soundness::{self, Rule};
use taskqueue_store::check::Step;
use tokio_postgres::Row;

use super::{Checked, Stop};
use crate::rows;
use crate::session::Sql;
use crate::{settings, statements as sql};

/// A statement that lists what is wrong and the key of a row.
const DIFFERENCES: &[(Rule, &Sql)] = &[
    (Rule::References, &sql::CHECK_REFERENCES),
    (Rule::PendingOrder, &sql::CHECK_PENDING_ORDER),
    (Rule::Running, &sql::CHECK_RUNNING),
    (Rule::RunIds, &sql::CHECK_RUN_IDS),
    (Rule::Dependencies, &sql::CHECK_DEPENDENCIES),
    (Rule::Settings, &sql::CHECK_LIMITED),
    (Rule::Settings, &sql::CHECK_ENDED),
];

pub(super) async fn check(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    checked.row(Step::Derived, 0)?;
    each(checked, &sql::CHECK_TALLY, |checked, row| {
        let what = rows::wrong_count(row).unwrap_or_else(|_| "a count cannot be read".to_owned());
        checked.findings.add(Rule::Tally, what);
    })
    .await?;
    each(checked, &sql::CHECK_SETTINGS, |checked, row| {
        if let Some(what) = settings::wrong_settings(row) {
            checked.findings.add(Rule::Settings, what);
        }
    })
    .await?;
    for (rule, statement) in DIFFERENCES {
        checked.row(Step::Derived, 0)?;
        each(checked, statement, |checked, row| {
            let what = rows::difference(row).unwrap_or_else(|_| "a row cannot be read".to_owned());
            checked.findings.add(*rule, what);
        })
        .await?;
    }
    check_observations(checked).await
}

/// Passes the rows of a statement one by one: of a badly damaged database there are many.
async fn each(
    checked: &mut Checked<'_, '_>,
    statement: &'static Sql,
    mut visit: impl FnMut(&mut Checked<'_, '_>, &Row),
) -> Result<(), Stop> {
    let session = checked.session;
    let mut found = pin!(session.stream(&statement.text, &[]).await?);
    while let Some(row) = found.try_next().await? {
        visit(checked, &row);
        if checked.watch.is_stopped() {
            return Err(Stop::Interrupted);
        }
    }
    Ok(())
}

async fn check_observations(checked: &mut Checked<'_, '_>) -> Result<(), Stop> {
    let queues: Vec<_> = checked.queues.iter().map(|(key, name)| (key.0, name.clone())).collect();
    for (key, queue) in queues {
        let params = [(&key as &(dyn tokio_postgres::types::ToSql + Sync), tokio_postgres::types::Type::INT8)];
        let mut found = pin!(checked.session.stream(&sql::CHECK_OBSERVATIONS.text, &params).await?);
        while let Some(row) = found.next().await.transpose()? {
            let Ok(observation) = rows::observation(&row, &queue) else {
                checked.findings.add(Rule::Readable, format!("an observation of queue {queue} cannot be read"));
                continue;
            };
            for (rule, what) in soundness::observation(&observation) {
                checked.findings.add(rule, format!("the observation of {} in queue {queue} {what}", observation.id));
            }
        }
    }
    Ok(())
}
