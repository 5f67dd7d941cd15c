//! What is stored before a shape is sent: what all reads share, once, and what belongs to one turn of one shape. A turn has queues and
//! identifiers of its own, and its queues are deleted behind it.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskqueue_core::limits::{BATCH_ITEMS, OUTPUT_TEXT_BYTES, PAGE_LIMIT_MAX, TASK_OUTPUT_BYTES, TASK_ROUTES};

use super::exchange::{Answer, Connection};
use super::fields::{self, Place, Size, largest, long_name, route};
use super::shape::{Before, Shape, World};
use crate::failure::{Failure, Result};
use crate::request;

/// How long something is tried again that the server has no room for.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
/// The most that a batch of prepared tasks holds.
const BATCH_BYTES: usize = 1 << 20;
/// Of what all reads share: tasks of each kind.
pub(super) const LARGE_TASKS: usize = 30;
const SMALL_TASKS: usize = 2_000;
pub(super) const ROUTED_TASKS: usize = 40;
const DEPENDENT_TASKS: usize = 200;
pub(super) const STORED_TASKS: usize = LARGE_TASKS + SMALL_TASKS + ROUTED_TASKS + DEPENDENT_TASKS;
/// Workers of two pages, so that there is a full one behind the first.
pub(super) const WORKERS: usize = 2 * PAGE_LIMIT_MAX as usize;
/// Queues with as many routes as `ROUTED_TASKS` have.
const ROUTED_QUEUES: usize = 60;

/// Tasks that wait for one, of which the search for a circle reads no more; and of each of these.
pub(super) const DEPENDENTS_READ: usize = 100;

/// The queue of a turn, or of one client of it; its name is as long as can be.
pub(super) fn queue(turn: usize, client: Option<usize>) -> String {
    long_name(&client.map_or(format!("s{turn}"), |client| format!("s{turn}-{client}")))
}

/// The first of the tasks of a kind that all reads share. They have the same name, so the last ones come first where that is the order,
/// and pages hold the large ones.
pub(super) fn stored(part: World, size: Size) -> Place<'static> {
    let (item, heavy) = match part {
        World::Large => (300_000, "args"),
        World::Routes => (100_000, "distinct"),
        World::Dependent => (200_000, "dependencies"),
    };
    Place { size, heavy, turn: 0, client: 0, item, matching: 0, cursor: None }
}

/// Tasks whose routes fill two pages of groups, so that there is a full one behind the first.
fn routed_tasks(size: Size) -> usize {
    let groups = 2 * size.of(PAGE_LIMIT_MAX.into());
    size.of(ROUTED_TASKS).max(groups / size.of(TASK_ROUTES) + 1)
}

/// Prepares and asks, one request after the other.
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) connection: Connection,
    size: Size,
}

impl Client {
    pub(super) fn new(address: SocketAddr, size: Size) -> Result<Self> {
        Ok(Self { address, connection: Connection::new(address)?, size })
    }

    pub(super) fn get(&mut self, path: &str) -> Result<Answer> {
        Ok(self.connection.send(&request::get(self.address, path))?)
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let path = format!("/api/v2/queues/{path}");
        Ok(self.connection.send(&request::with_body(method, self.address, &path, body))?)
    }

    /// Sends something until it is done; a server that is busy says so for a while.
    fn succeed(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let begin = Instant::now();
        loop {
            let answer = self.send(method, path, body)?;
            match answer.status {
                200..=299 => return Ok(answer),
                503 if begin.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                status => {
                    let what = format!("preparing: {method} {path} was answered {status}: {}", answer.excerpt());
                    return Err(Failure::new(what));
                }
            }
        }
    }

    /// Stores what all reads share.
    pub(super) fn prepare_world(&mut self) -> Result<()> {
        let name = queue(0, None);
        self.succeed("PUT", &name, "")?;
        let small = Place { heavy: "", ..stored(World::Large, self.size) };
        self.create(&name, &small, 0..self.size.of(SMALL_TASKS))?;
        // The large ones are the newest, because that is what most pages show first.
        for (part, tasks) in [
            (World::Routes, routed_tasks(self.size)),
            (World::Dependent, self.size.of(DEPENDENT_TASKS)),
            (World::Large, self.size.of(LARGE_TASKS)),
        ] {
            let first = stored(part, self.size);
            self.create(&name, &first, first.item..first.item + tasks)?;
        }
        Ok(())
    }

    /// Creates the tasks of these numbers, with what is heavy in the place.
    fn create(&mut self, queue: &str, place: &Place<'_>, items: Range<usize>) -> Result<()> {
        self.create_all(queue, items.map(|item| Place { item, ..place.clone() }))
    }

    /// Creates a task for each place.
    fn create_all<'p>(&mut self, queue: &str, places: impl Iterator<Item = Place<'p>>) -> Result<()> {
        let (mut places, mut batch, mut bytes) = (places.peekable(), Vec::new(), 0);
        while let Some(place) = places.next() {
            let text = task(&place);
            bytes += text.len();
            batch.push(text);
            if bytes > BATCH_BYTES || batch.len() == BATCH_ITEMS || places.peek().is_none() {
                let body = format!(r#"{{"tasks":[{}]}}"#, batch.join(","));
                self.succeed("POST", &format!("{queue}/tasks/batch/create"), &body)?;
                (batch, bytes) = (Vec::new(), 0);
            }
        }
        Ok(())
    }

    /// Stores what a shape needs for these clients.
    pub(super) fn prepare(&mut self, shape: &Shape, clients: usize, place: &mut Place<'_>) -> Result<()> {
        let of_client = |client: usize| Place { client, ..place.clone() };
        let shared = queue(place.turn, None);
        if !matches!(shape.before, Before::Stored(_) | Before::ManyQueues | Before::OwnQueue(..) | Before::LimitedQueue)
        {
            self.succeed("PUT", &shared, "")?;
        }
        match shape.before {
            Before::Nothing | Before::Stored(_) => {}
            Before::Pending | Before::Cancelled => self.create_all(&shared, (0..clients).map(of_client))?,
            Before::Running(_) => {
                for client in 0..clients {
                    let place = of_client(client);
                    self.run(&shared, &place, shape.items(&place))?;
                }
            }
            Before::Output(text) => {
                for client in 0..clients {
                    self.run(&shared, &of_client(client), 1)?;
                    self.print(&shared, &of_client(client), text)?;
                }
            }
            Before::Shared(heavy, tasks) | Before::SharedCancelled(heavy, tasks) => {
                place.matching = self.size.of(tasks);
                self.create(&shared, &Place { heavy, ..place.clone() }, 0..place.matching)?;
            }
            Before::OwnQueue(heavy, tasks) => {
                for client in 0..clients {
                    let own = queue(place.turn, Some(client));
                    self.succeed("PUT", &own, "")?;
                    let tasks = (self.size.of(tasks) / clients).max(1);
                    self.create(&own, &Place { heavy, ..of_client(client) }, 0..tasks)?;
                }
            }
            Before::LimitedQueue => {
                for client in 0..clients {
                    let own = queue(place.turn, Some(client));
                    self.succeed("PUT", &own, "")?;
                    let limits = json!({ "route_limits": largest("route_limits", place) });
                    self.succeed("PATCH", &format!("{own}/settings"), &limits.to_string())?;
                }
            }
            Before::Workers(least) => {
                for item in 0..self.size.of(WORKERS).max(least) {
                    self.report(&shared, &Place { item, ..place.clone() })?;
                }
            }
            Before::OwnWorker => {
                for client in 0..clients {
                    self.report(&shared, &of_client(client))?;
                }
            }
            Before::ManyQueues => self.fill_queues(place)?,
            Before::Waiting => self.create_waiting(&shared, clients, place)?,
        }
        if matches!(shape.before, Before::Cancelled | Before::SharedCancelled(..)) {
            self.succeed("POST", &format!("{shared}/tasks/bulk/cancel"), r#"{"filter":"priority>-1"}"#)?;
        }
        Ok(())
    }

    /// Creates the tasks of a client and claims each with the run of the same number.
    fn run(&mut self, queue: &str, place: &Place<'_>, items: usize) -> Result<()> {
        self.create(queue, &Place { heavy: "", ..place.clone() }, 0..items)?;
        let runs: Vec<String> = (0..items).map(|item| Place { item, ..place.clone() }.id('r')).collect();
        let claim = json!({ "route": route(), "run_ids": runs });
        self.succeed("POST", &format!("{queue}/tasks/batch/claim"), &claim.to_string())?;
        Ok(())
    }

    /// As much output of a run as is kept.
    fn print(&mut self, queue: &str, place: &Place<'_>, text: &str) -> Result<()> {
        let text = largest(text, place).unwrap_or_default();
        let bytes = text.as_str().map_or(0, str::len);
        for part in 0..TASK_OUTPUT_BYTES / OUTPUT_TEXT_BYTES {
            let output = json!({ "run_id": place.id('r'), "offset": part * bytes, "text": text });
            self.succeed("POST", &format!("{queue}/tasks/{}/output", place.id('t')), &output.to_string())?;
        }
        Ok(())
    }

    fn report(&mut self, queue: &str, place: &Place<'_>) -> Result<()> {
        let status = if place.item.is_multiple_of(2) { "busy" } else { "idle" };
        let report =
            json!({ "route": route(), "status": status, "task_id": null, "metadata": largest("observed", place) });
        self.succeed("PUT", &format!("{queue}/workers/{}", place.id('w')), &report.to_string())?;
        Ok(())
    }

    /// As many queues with many routes as there is room for.
    fn fill_queues(&mut self, place: &Place<'_>) -> Result<()> {
        for number in 0..self.size.of(ROUTED_QUEUES) {
            let own = queue(place.turn, Some(number));
            self.succeed("PUT", &own, "")?;
            let place = Place { heavy: "distinct", ..place.clone() };
            let tasks: Vec<String> =
                (0..self.size.of(ROUTED_TASKS)).map(|item| task(&Place { item, ..place.clone() })).collect();
            let body = format!(r#"{{"tasks":[{}]}}"#, tasks.join(","));
            let answer = self.send("POST", &format!("{own}/tasks/batch/create"), &body)?;
            match answer.status {
                200 if !answer.excerpt().contains("refused") => {}
                // There is no room for more.
                503 if number > 0 => break,
                status => return Err(Failure::new(format!("filling {own}: answered {status}: {}", answer.excerpt()))),
            }
        }
        Ok(())
    }

    /// Tasks that wait for that of each client, and as many that wait for each of these.
    fn create_waiting(&mut self, queue: &str, clients: usize, place: &Place<'_>) -> Result<()> {
        let each = self.size.of(DEPENDENTS_READ);
        let id = |item: usize| Place { item, ..place.clone() }.id('t');
        let of_clients: Vec<String> = (0..clients).map(|client| Place { client, ..place.clone() }.id('t')).collect();
        let near = (1..=each).map(|item| json!({ "id": id(item), "dependencies": of_clients }));
        let far = (0..each * each).map(|n| json!({ "id": id(1 + each + n), "dependencies": [id(1 + n / each)] }));
        let tasks: Vec<Value> = near.chain(far).collect();
        for batch in tasks.chunks(BATCH_ITEMS) {
            let body = json!({ "tasks": batch });
            self.succeed("POST", &format!("{queue}/tasks/batch/create"), &body.to_string())?;
        }
        Ok(())
    }

    /// Deletes the queues of a turn. One with a running task stays, and so does one that is not there.
    pub(super) fn clean(&mut self, turn: usize) -> Result<()> {
        let listed = self.connection.send(&request::get(self.address, "/api/v2/queues"))?;
        let text = String::from_utf8_lossy(&listed.body).into_owned();
        let names = text.split('"').filter(|word| word.starts_with(&format!("s{turn}-")));
        for name in names {
            let begin = Instant::now();
            while self.send("DELETE", &format!("{name}?cascade=true"), "")?.status == 503 && begin.elapsed() < PATIENCE
            {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

/// A task with what is heavy in the place, and the route for which it is claimed. The longest fuzzy search finds its name.
fn task(place: &Place<'_>) -> String {
    let mut task = json!({ "id": place.id('t'), "name": fields::stored_name(), "routes": [route()] });
    let mut give = |field: &str| task[field] = largest(field, place).unwrap_or(Value::Null);
    match place.heavy {
        "args" => ["args", "metadata"].into_iter().for_each(give),
        "routes" | "dependencies" => give(place.heavy),
        "distinct" => {
            let names = (0..place.size.of(TASK_ROUTES)).map(|n| format!("r{}-{n}", place.item));
            task["routes"] = names.collect::<Vec<_>>().into();
        }
        _ => {}
    }
    fields::written(&task, place)
}
