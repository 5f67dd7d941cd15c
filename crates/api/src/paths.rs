//! Every path of the API as a template, by the sections of the contract; a more special template comes before the general one. The
//! methods are in the route table of the server.

use std::sync::LazyLock;

listed_texts! {
    /// All of them.
    ALL;
    /// Liveness with a real check of the database.
    HEALTH = "/health";
    /// Probe: the process answers.
    LIVEZ = "/livez";
    /// Probe: the server takes requests.
    READYZ = "/readyz";
    /// The generated schema.
    OPENAPI = "/openapi.json";
    /// Metrics of what the server does and how its queues are, for monitoring.
    METRICS = "/metrics";
    /// Capabilities of the server beyond the contract.
    CAPABILITIES = "/api/v2/capabilities";
    /// All queues.
    QUEUES = "/api/v2/queues";
    /// One queue.
    QUEUE = "/api/v2/queues/{queue}";
    /// Figures of a queue, now and lately.
    STATS = "/api/v2/queues/{queue}/stats";
    /// Settings of a queue: how much of it is claimed, and how long ended tasks are kept.
    SETTINGS = "/api/v2/queues/{queue}/settings";
    /// The tasks of a queue.
    TASKS = "/api/v2/queues/{queue}/tasks";
    /// Count of tasks, perhaps by group.
    TASK_COUNT = "/api/v2/queues/{queue}/tasks/count";
    /// Takes the next task.
    CLAIM = "/api/v2/queues/{queue}/tasks/claim";
    /// Takes out all tasks that match.
    BULK_CANCEL = "/api/v2/queues/{queue}/tasks/bulk/cancel";
    /// Starts all tasks over that match.
    BULK_REQUEUE = "/api/v2/queues/{queue}/tasks/bulk/requeue";
    /// Deletes all tasks that match.
    BULK_DELETE = "/api/v2/queues/{queue}/tasks/bulk/delete";
    /// One task.
    TASK = "/api/v2/queues/{queue}/tasks/{task_id}";
    /// Takes a task out.
    CANCEL = "/api/v2/queues/{queue}/tasks/{task_id}/cancel";
    /// Starts a task over.
    REQUEUE = "/api/v2/queues/{queue}/tasks/{task_id}/requeue";
    /// Explanation why a task is not claimed.
    EXPLAIN = "/api/v2/queues/{queue}/tasks/{task_id}/explain";
    /// Renews a lease.
    HEARTBEAT = "/api/v2/queues/{queue}/tasks/{task_id}/heartbeat";
    /// Says how far a run is.
    PROGRESS = "/api/v2/queues/{queue}/tasks/{task_id}/progress";
    /// Output of a run.
    OUTPUT = "/api/v2/queues/{queue}/tasks/{task_id}/output";
    /// Ends a run with a result.
    COMPLETE = "/api/v2/queues/{queue}/tasks/{task_id}/complete";
    /// Ends a run with an error.
    FAIL = "/api/v2/queues/{queue}/tasks/{task_id}/fail";
    /// Gives a task back.
    UNCLAIM = "/api/v2/queues/{queue}/tasks/{task_id}/unclaim";
    /// Creates many tasks.
    BATCH_CREATE = "/api/v2/queues/{queue}/tasks/batch/create";
    /// Takes the next tasks.
    BATCH_CLAIM = "/api/v2/queues/{queue}/tasks/batch/claim";
    /// Renews the leases of runs and ends others.
    BATCH_REPORT = "/api/v2/queues/{queue}/tasks/batch/report";
    /// The observations of a queue.
    WORKERS = "/api/v2/queues/{queue}/workers";
    /// Count of observations, perhaps by group.
    WORKER_COUNT = "/api/v2/queues/{queue}/workers/count";
    /// One observation.
    WORKER = "/api/v2/queues/{queue}/workers/{id}";
    /// Measurements of a worker.
    TELEMETRY = "/api/v2/queues/{queue}/workers/{id}/telemetry";
}

/// More segments than this has no template.
const SEGMENTS_MAX: usize = 7;

/// The place of a template in [`ALL`], and its segments, the last one first: templates differ in their ends.
type Template = (usize, Vec<&'static str>);

/// The templates by their number of segments.
static TEMPLATES: LazyLock<[Vec<Template>; SEGMENTS_MAX + 1]> = LazyLock::new(|| {
    let mut templates = [const { Vec::new() }; SEGMENTS_MAX + 1];
    for (place, template) in ALL.into_iter().enumerate() {
        let segments: Vec<&str> = template.rsplit('/').take(template.matches('/').count()).collect();
        templates[segments.len()].push((place, segments));
    }
    templates
});

/// The template that a path matches; the values of its parameters are not checked.
pub fn template_of(path: &str) -> Option<&'static str> {
    template_place(path).map(|place| ALL[place])
}

/// The place of that template in [`ALL`]. Every request asks for it, so the path is looked through only once.
pub fn template_place(path: &str) -> Option<usize> {
    let (mut segments, mut count, mut start) = ([""; SEGMENTS_MAX], 0, 1);
    if !path.starts_with('/') {
        return None;
    }
    for (at, byte) in path.bytes().enumerate().skip(1) {
        if byte == b'/' {
            *segments.get_mut(count)? = &path[start..at];
            (count, start) = (count + 1, at + 1);
        }
    }
    *segments.get_mut(count)? = &path[start..];
    let given = segments[..=count].iter().rev();
    let fits = |(_, template): &&Template| {
        let is_parameter = |wanted: &str| wanted.starts_with('{');
        let mut pairs = template.iter().zip(given.clone());
        pairs.all(|(wanted, given)| if is_parameter(wanted) { !given.is_empty() } else { wanted == given })
    };
    TEMPLATES[count + 1].iter().find(fits).map(|(place, _)| *place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_fits_its_own_paths_and_the_special_one_comes_first() {
        for template in ALL {
            let path = template.replace("{queue}", "tasks").replace("{task_id}", "t_x").replace("{id}", "w_x");
            assert_eq!(template_of(&path), Some(template), "{path}");
        }
    }

    #[test]
    fn other_paths_fit_none() {
        for path in ["", "/", "/health/", "//health", "/api/v2/queues/", "/api/v2/queues/q/", "/api/v2/queues//tasks"] {
            assert_eq!(template_of(path), None, "{path}");
        }
        assert_eq!(template_of("/api/v2/queues/q/tasks/t/cancel/x"), None);
        assert_eq!(template_of("/api/v1/queues"), None);
    }
}
