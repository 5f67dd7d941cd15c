//! What is going on in a queue. Only for a server that has [`STATS`](taskqueue_api::capabilities::STATS).

use taskqueue_api::paths;
use taskqueue_api::stats::{Series, Stats};
use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::SeriesSelection;

use super::of_queue;
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Tasks, routes and workers of a queue now, and what happened lately.
    pub async fn queue_stats(&self, queue: &QueueName) -> Result<Stats, Error> {
        let call = Call::read("read the stats", of_queue(paths::STATS, queue));
        self.perform(call, |answer| answer.read(&[200], Stats::read)).await
    }

    /// What happened in each minute or hour.
    pub async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> Result<Series, Error> {
        let SeriesSelection { unit, from, to } = selection;
        let mut query = vec![("series", unit.as_str().to_owned())];
        query.extend(from.map(|from| ("from", from.to_string())));
        query.extend(to.map(|to| ("to", to.to_string())));
        let call = Call::read("read the activity", of_queue(paths::STATS, queue)).query(query);
        self.perform(call, |answer| answer.read(&[200], |value| Series::read(value, unit))).await
    }
}
