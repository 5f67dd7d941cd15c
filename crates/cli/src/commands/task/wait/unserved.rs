//! Warns of routes that tasks wait for and no live worker serves: such a wait may never end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taskqueue_client::{
    Error, GroupQuery, Routes, Status, TaskDimension, TaskSelection, WorkerDimension, WorkerSelection,
};
use taskqueue_core::limits::FILTER_BYTES;
use taskqueue_core::words;
use tokio::time::{Instant, timeout};

use super::watched::Watched;
use crate::client_context::ClientContext;

/// The warnings are optional: the wait goes on without them.
const CHECK_TIME: Duration = Duration::from_secs(10);
/// Workers come and go; a worker that ended without a word is forgotten after five minutes.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Which routes were warned of.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    warned: BTreeSet<String>,
    checked: Option<Instant>,
}

impl Unserved {
    /// The warnings that are due now, each route once; none if the server does not tell. `filter` is that of the command.
    pub(super) async fn check(
        &mut self,
        context: &ClientContext,
        watched: &Watched,
        filter: Option<&str>,
    ) -> Vec<String> {
        if self.checked.is_some_and(|checked| checked.elapsed() < CHECK_INTERVAL) {
            return Vec::new();
        }
        let unserved = timeout(CHECK_TIME, unserved_routes(context, watched, filter)).await;
        self.checked = Some(Instant::now());
        let Ok(Ok(unserved)) = unserved else { return Vec::new() };
        let new = unserved.into_iter().filter(|(route, _)| self.warned.insert(route.clone()));
        new.map(|(route, count)| warning(&route, count)).collect()
    }
}

async fn unserved_routes(
    context: &ClientContext,
    watched: &Watched,
    filter: Option<&str>,
) -> Result<BTreeMap<String, u64>, Error> {
    let served = served_routes(context).await?;
    match watched {
        Watched::Followed(followed) => Ok(without_worker(followed.pending_routes(), &served)),
        Watched::Counted(selection) => counted_without_worker(context, selection, filter, &served).await,
    }
}

fn warning(route: &str, count: u64) -> String {
    let wait = if count == 1 { "waits" } else { "wait" };
    format!(
        "no live worker serves the route {route}, which {} {wait} for; start one with: taskqueue loop --route {route} -- COMMAND",
        words::count(count, "task")
    )
}

async fn served_routes(context: &ClientContext) -> Result<BTreeSet<String>, Error> {
    let query = GroupQuery::by([WorkerDimension::Route], WorkerSelection::all());
    let mut walk = context.client.walk_worker_groups(&context.queue, query);
    let mut served = BTreeSet::new();
    while let Some(group) = walk.next().await? {
        served.extend(group.key);
    }
    Ok(served)
}

/// The routes of tasks that none of these workers can claim, with the number of such tasks.
fn without_worker<'r>(pending: impl Iterator<Item = &'r Routes>, served: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let mut unserved = BTreeMap::new();
    for routes in pending.filter(|routes| !routes.iter().any(|route| served.contains(route))) {
        for route in routes.iter() {
            *unserved.entry(route.to_owned()).or_default() += 1;
        }
    }
    unserved
}

/// The same, counted by the server.
async fn counted_without_worker(
    context: &ClientContext,
    selection: &TaskSelection,
    filter: Option<&str>,
    served: &BTreeSet<String>,
) -> Result<BTreeMap<String, u64>, Error> {
    let Some(selection) = beyond(selection, filter, served) else { return Ok(BTreeMap::new()) };
    let query = GroupQuery::by([TaskDimension::Routes], selection.status(Status::Pending));
    let mut walk = context.client.walk_task_groups(&context.queue, query);
    let mut unserved = BTreeMap::new();
    while let Some(group) = walk.next().await? {
        unserved.extend(group.key.into_iter().map(|route| (route, group.count)));
    }
    Ok(unserved)
}

/// The selected tasks with none of the served routes; nothing if that takes a longer filter than a server accepts.
fn beyond(selection: &TaskSelection, filter: Option<&str>, served: &BTreeSet<String>) -> Option<TaskSelection> {
    // Routes have neither quotes nor backslashes.
    let conditions = served.iter().map(|route| format!("\"{route}\" not in routes"));
    let conditions: Vec<String> = filter.map(|filter| format!("({filter})")).into_iter().chain(conditions).collect();
    let joined = conditions.join(" and ");
    match conditions.len() {
        0 => Some(selection.clone()),
        _ if joined.len() > FILTER_BYTES => None,
        _ => Some(selection.clone().filter(joined)),
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::ids::Route;

    use super::*;

    fn routes(words: &[&str]) -> Routes {
        Routes::requested(words.iter().filter_map(|word| Route::parse(word)).collect()).unwrap()
    }

    #[test]
    fn a_task_with_one_served_route_waits_for_none() {
        let served: BTreeSet<String> = ["cpu".to_owned()].into();
        let pending = [routes(&["cpu", "gpu"]), routes(&["tpu"]), routes(&["gpu", "tpu"])];
        let expected = [("gpu".to_owned(), 1), ("tpu".to_owned(), 2)].into();
        assert_eq!(without_worker(pending.iter(), &served), expected);
    }

    #[test]
    fn the_server_is_asked_for_the_same_tasks_within_the_length_of_a_filter() {
        let served: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let all = TaskSelection::all();
        assert_eq!(beyond(&all, None, &BTreeSet::new()), Some(all.clone()));
        assert_eq!(
            beyond(&all, Some("x == 1 or y == 2"), &served),
            Some(all.clone().filter("(x == 1 or y == 2) and \"a\" not in routes and \"b\" not in routes"))
        );
        let many: BTreeSet<String> = (0..1000).map(|number| format!("route-{number}")).collect();
        assert_eq!(beyond(&all, None, &many), None);
    }
}
