//! A migrated database with random tasks in it, for the tests of this crate. Nothing is written through the product.

use std::sync::atomic::AtomicBool;

use futures_util::future::BoxFuture;
use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::task::{ActiveRun, LastRun};
use taskqueue_store::conformance::filters;
use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Cluster, Database};
use tokio_postgres::types::ToSql;
use tokio_postgres::{CancelToken, NoTls};

use crate::failure::failed;
use crate::readers::ConnectionSource;
use crate::rows::error_text;
use crate::session::{Param, Schema, Session};

/// The key of the queue `q`.
pub(crate) const QUEUE_KEY: i64 = 7;

/// The columns of `tasks` that every row has.
pub(crate) const REQUIRED_COLUMNS: &str = "task_key, queue_key, created_at, priority, pending_seq, attempt, max_attempts, \
    updated_at, definition_bytes, id, status, routes";

/// A migrated database with the queue `q`.
pub(crate) fn migrated(cluster: &Cluster) -> Database {
    let database = cluster.database();
    database.admin("CREATE SCHEMA taskqueue");
    database.admin(include_str!("migrations/0001_initial.sql"));
    database.admin(&format!("INSERT INTO taskqueue.queues (queue_key, name) VALUES ({QUEUE_KEY}, 'q')"));
    database
}

/// Connections to a database.
pub(crate) struct Plain {
    pub(crate) url: String,
}

impl ConnectionSource for Plain {
    fn connect(&self) -> BoxFuture<'_, Result<Session, StoreError>> {
        Box::pin(async {
            let connected = tokio_postgres::connect(&self.url, NoTls).await;
            let (client, connection) = connected.map_err(|error| failed("connecting", &error))?;
            tokio::spawn(connection);
            let unnamed = Arc::new(AtomicBool::new(false));
            Ok(Session::new(client, Schema::new("taskqueue")).preparing(unnamed))
        })
    }

    fn cancel(&self, token: CancelToken) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(token.cancel_query(NoTls).await) })
    }
}

/// A connection to a database.
pub(crate) async fn session(database: &Database) -> Session {
    Plain { url: database.url() }.connect().await.unwrap()
}

/// How a statement would be executed.
pub(crate) async fn plan(session: &Session, text: &str, params: &[Param<'_>]) -> String {
    let rows = session.client().query_typed(&format!("EXPLAIN {text}"), params).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

fn time(random: &mut Random) -> Timestamp {
    let start = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    start.plus_seconds(i64::try_from(random.below(1_200)).unwrap())
}

fn text(random: &mut Random) -> Arc<str> {
    random.pick(&["", "a", "b", "é", "a\0b", "\"", "null"]).into()
}

fn scheduling(random: &mut Random) -> Scheduling {
    let fields = SchedulingFields {
        retry_delay: random.percent(20).then(|| RetryDelay::new(1.5, None, Some(60.0))).flatten(),
        timeout_seconds: random.percent(20).then_some(7_200),
        dependencies: Dependencies::new((0..random.below(3)).map(task_id).collect()).unwrap_or_default(),
        on_dependency_failure: random.pick(&[OnDependencyFailure::Wait, OnDependencyFailure::Cancel]),
    };
    fields.into()
}

/// A random task. It need not be one that actions could have made.
pub(crate) fn random_task(random: &mut Random, number: usize) -> Task {
    let run = random.percent(20).then(|| ActiveRun {
        run_id: run_id(number),
        lease_expires_at: time(random),
        times_out_at: random.percent(20).then(|| time(random)),
    });
    let end = random.pick(&RunEnd::ALL);
    let last_error = random.percent(40).then(|| LastError {
        failure: Failure {
            kind: text(random),
            message: text(random),
            traceback: random.percent(50).then(|| text(random)),
        },
        occurred_at: time(random),
        attempt: random.pick(&[1, 2, 3]),
        run_id: random.percent(80).then(|| run_id(number)),
    });
    let last_run =
        random.percent(40).then(|| LastRun { attempt: random.pick(&[1, 2, i64::MAX]), worker: filters::json(random) });
    let progress = random.percent(40).then(|| Progress {
        value: filters::json(random),
        updated_at: time(random),
        attempt: random.pick(&[1, 2, i64::MAX]),
    });
    Task {
        queue: queue("q"),
        id: task_id(number),
        definition: Definition {
            name: filters::name(random).map(Into::into),
            args: filters::json(random),
            metadata: filters::json(random),
            priority: random.pick(&[0, 1, -1, 2, 3, 9_007_199_254_740_993, i64::MAX, i64::MIN]),
            max_attempts: random.pick(&[1, 2, 3, i64::MAX]),
            routes: routes(random.pick(&[&["default"][..], &["a"], &["a", "b"], &["B", "default"], &["a.b"]])),
            scheduling: scheduling(random),
        },
        lifecycle: Lifecycle {
            status: random.pick(&Status::ALL),
            attempt: random.pick(&[0, 1, 2]),
            last_route: random.percent(50).then(|| route(random.pick(&["a", "b", "B"]))),
            updated_at: time(random),
            started_at: random.percent(50).then(|| time(random)),
            finished_at: random.percent(50).then(|| time(random)),
            finished_run: random.percent(50).then(|| FinishedRun { run_id: run_id(number), end }),
            run,
            archived: random.percent(20),
            not_before: random.percent(20).then(|| time(random)),
            unmet: random.pick(&[0, 0, 0, 1, 1_000]),
            ..Lifecycle::created(time(random), number as i64)
        },
        outcome: Outcome { result: filters::json(random), last_error, last_run, progress },
    }
}

/// Puts tasks into the queue `q`, without what is derived of them.
pub(crate) async fn insert(session: &Session, tasks: &[Task]) {
    for (number, task) in tasks.iter().enumerate() {
        insert_task(session, number as i64, task).await;
    }
}

async fn insert_task(session: &Session, key: i64, task: &Task) {
    let (definition, lifecycle) = (&task.definition, &task.lifecycle);
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
    let params: [&(dyn ToSql + Sync); 26] = [
        &key,
        &QUEUE_KEY,
        &lifecycle.created_at.as_micros(),
        &definition.priority,
        &lifecycle.pending_seq,
        &lifecycle.attempt,
        &definition.max_attempts,
        &lifecycle.updated_at.as_micros(),
        &(definition.stored_bytes() as i64),
        &micros(lifecycle.started_at),
        &micros(lifecycle.finished_at),
        &micros(lifecycle.not_before),
        &micros(lifecycle.run.map(|run| run.lease_expires_at)),
        &micros(lifecycle.run.and_then(|run| run.times_out_at)),
        &task.outcome.progress.as_ref().map(|_| task.outcome.progress_bytes() as i64),
        &(lifecycle.unmet > 0).then_some(lifecycle.unmet as i32),
        &lifecycle.archived.then_some(true),
        &task.id.as_str(),
        &lifecycle.status.as_str(),
        &definition.routes.as_json(),
        &lifecycle.last_route.as_ref().map(|route| route.as_str()),
        &lifecycle.run.map(|run| run.run_id.to_string()),
        &lifecycle.finished_run.map(|run| run.run_id.to_string()),
        &lifecycle.finished_run.map(|run| run.end.as_str()),
        &definition.name.as_deref(),
        &definition.scheduling.as_json(),
    ];
    let places: Vec<String> = (1..=params.len()).map(|number| format!("${number}")).collect();
    let sql = format!("INSERT INTO taskqueue.tasks VALUES ({})", places.join(", "));
    session.client().execute(&sql, &params).await.unwrap();
    let sql = "INSERT INTO taskqueue.definitions VALUES ($1, $2, $3, $4)";
    let identity = &definition.identity(lifecycle.not_before)[..];
    let params: [&(dyn ToSql + Sync); 4] = [&key, &identity, &definition.args.as_str(), &definition.metadata.as_str()];
    session.client().execute(sql, &params).await.unwrap();
    let (result, error) =
        (Some(task.outcome.result.as_str()).filter(|text| *text != "{}"), task.outcome.last_error.as_ref());
    let (last_run, progress) = (task.outcome.last_run.as_ref(), task.outcome.progress.as_ref());
    if result.is_some() || error.is_some() || last_run.is_some() || progress.is_some() {
        let sql = "INSERT INTO taskqueue.outcomes VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let params: [&(dyn ToSql + Sync); 11] = [
            &key,
            &error.map(|error| error.occurred_at.as_micros()),
            &error.map(|error| error.attempt),
            &last_run.map(|run| run.attempt),
            &progress.map(|progress| progress.updated_at.as_micros()),
            &progress.map(|progress| progress.attempt),
            &error.and_then(|error| error.run_id).map(|run_id| run_id.to_string()),
            &last_run.map(|run| run.worker.as_str()),
            &error.map(|error| error_text(&error.failure)),
            &result,
            &progress.map(|progress| progress.value.as_str()),
        ];
        session.client().execute(sql, &params).await.unwrap();
    }
}
