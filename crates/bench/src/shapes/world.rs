//! What is stored before a shape is sent: what all reads share, once, and what belongs to one turn of one shape. A turn has queues and
//! identifiers of its own, and its queues are deleted behind it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskqueue_core::limits::{BATCH_ITEMS, OUTPUT_TEXT_BYTES, PAGE_LIMIT_MAX, TASK_OUTPUT_BYTES, TASK_ROUTES};

use super::fields::{self, Place, Size, largest, long_name, route};
use super::probes::Connection;
use super::shape::{Before, Shape, World};
use crate::Result;
use crate::client::Answer;

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
/// However small the run, a page of the dashboard has 100.
const LEAST_WORKERS: usize = 200;
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
    Place { heavy, item, ..Place::of(size) }
}

/// Tasks whose routes fill two pages of groups, so that there is a full one behind the first.
fn routed_tasks(size: Size) -> usize {
    let groups = 2 * size.of(PAGE_LIMIT_MAX.into());
    size.of(ROUTED_TASKS).max(groups / size.of(TASK_ROUTES) + 1)
}

/// How shapes are prepared: one request after the other.
impl Connection {
    /// Sends something about a queue, for a while again while the server says that it is busy.
    fn about_queue(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let begin = Instant::now();
        loop {
            let answer = self.call(method, &format!("/api/v2/queues/{path}"), body)?;
            if answer.status != 503 || begin.elapsed() >= PATIENCE {
                return Ok(answer);
            }
            sleep(PAUSE);
        }
    }

    /// Sends what must succeed.
    fn succeed(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        let answer = self.about_queue(method, path, body)?.succeed().map(drop);
        answer.map_err(|error| format!("preparing: {method} {path}: {error}").into())
    }

    /// Stores what all reads share.
    pub(super) fn prepare_world(&mut self, size: Size) -> Result<()> {
        let name = queue(0, None);
        self.succeed("PUT", &name, "")?;
        let small = Place { heavy: "", ..stored(World::Large, size) };
        self.create(&name, small.items(0, size.of(SMALL_TASKS)))?;
        // The large ones are the newest, because that is what most pages show first.
        for (part, tasks) in [
            (World::Routes, routed_tasks(size)),
            (World::Dependent, size.of(DEPENDENT_TASKS)),
            (World::Large, size.of(LARGE_TASKS)),
        ] {
            let first = stored(part, size);
            self.create(&name, first.items(first.item, tasks))?;
        }
        Ok(())
    }

    /// Creates a task for each place, with what is heavy in it.
    fn create<'p>(&mut self, queue: &str, places: impl Iterator<Item = Place<'p>>) -> Result<()> {
        let (mut places, mut batch, mut bytes) = (places.peekable(), Vec::new(), 0);
        while let Some(place) = places.next() {
            let text = task(&place);
            bytes += text.len();
            batch.push(text);
            if bytes > BATCH_BYTES || batch.len() == BATCH_ITEMS || places.peek().is_none() {
                self.succeed("POST", &format!("{queue}/tasks/batch/create"), &create_all(&batch))?;
                (batch, bytes) = (Vec::new(), 0);
            }
        }
        Ok(())
    }

    /// Stores what a shape needs for these clients.
    pub(super) fn prepare(&mut self, shape: &Shape, clients: usize, place: &mut Place<'_>) -> Result<()> {
        let size = place.size;
        // What is heavy in the tasks of a client and how many there are, and for how many clients.
        let (heavy, tasks, owners) = match shape.before {
            Before::Pending | Before::Cancelled => (shape.heavy, 1, clients),
            Before::Running(_) => ("", shape.items(place), clients),
            Before::Output(_) => ("", 1, clients),
            Before::Shared(heavy, tasks) | Before::SharedCancelled(heavy, tasks) => (heavy, size.of(tasks), 1),
            Before::OwnQueue(heavy, tasks) => (heavy, (size.of(tasks) / clients).max(1), clients),
            _ => ("", 0, clients),
        };
        place.matching = tasks;
        let (queue, of_clients) = (shape.queue(place), place.of_clients(clients));
        for place in &of_clients[..owners] {
            let queue = shape.queue(place);
            if shape.before != Before::NoQueue {
                self.succeed("PUT", &queue, "")?;
            }
            let tasks = Place { heavy, ..place.clone() }.items(0, tasks);
            self.create(&queue, tasks.clone())?;
            match shape.before {
                Before::Running(_) => self.claim(&queue, tasks)?,
                Before::Output(text) => {
                    self.claim(&queue, tasks)?;
                    self.print(&queue, place, text)?;
                }
                Before::LimitedQueue => {
                    let limits = json!({ "route_limits": largest("route_limits", place) });
                    self.succeed("PATCH", &format!("{queue}/settings"), &limits.to_string())?;
                }
                Before::OwnWorker => self.report(&queue, place)?,
                _ => {}
            }
        }
        match shape.before {
            Before::Cancelled | Before::SharedCancelled(..) => {
                self.succeed("POST", &format!("{queue}/tasks/bulk/cancel"), r#"{"filter":"priority>-1"}"#)
            }
            Before::Workers => {
                place.items(0, size.of(WORKERS).max(LEAST_WORKERS)).try_for_each(|place| self.report(&queue, &place))
            }
            Before::ManyQueues => self.fill_queues(place),
            Before::Waiting => self.create_waiting(&queue, &of_clients, place),
            _ => Ok(()),
        }
    }

    /// Claims the tasks of a client, each with the run of the same number.
    fn claim<'p>(&mut self, queue: &str, places: impl Iterator<Item = Place<'p>>) -> Result<()> {
        let claim = json!({ "route": route(), "run_ids": places.map(|place| place.id('r')).collect::<Value>() });
        self.succeed("POST", &format!("{queue}/tasks/batch/claim"), &claim.to_string())
    }

    /// As much output of a run as is kept.
    fn print(&mut self, queue: &str, place: &Place<'_>, text: &str) -> Result<()> {
        let text = largest(text, place).unwrap_or_default();
        let bytes = text.as_str().map_or(0, str::len);
        (0..TASK_OUTPUT_BYTES / OUTPUT_TEXT_BYTES).try_for_each(|part| {
            let output = json!({ "run_id": place.id('r'), "offset": part * bytes, "text": text });
            self.succeed("POST", &format!("{queue}/tasks/{}/output", place.id('t')), &output.to_string())
        })
    }

    fn report(&mut self, queue: &str, place: &Place<'_>) -> Result<()> {
        let (status, metadata) = (["busy", "idle"][place.item % 2], largest("observed", place));
        let report = json!({ "route": route(), "status": status, "task_id": null, "metadata": metadata });
        self.succeed("PUT", &format!("{queue}/workers/{}", place.id('w')), &report.to_string())
    }

    /// As many queues with many routes as there is room for.
    fn fill_queues(&mut self, place: &Place<'_>) -> Result<()> {
        let place = Place { heavy: "distinct", ..place.clone() };
        let tasks: Vec<String> = place.items(0, place.size.of(ROUTED_TASKS)).map(|place| task(&place)).collect();
        for number in 0..place.size.of(ROUTED_QUEUES) {
            let own = queue(place.turn, Some(number));
            self.succeed("PUT", &own, "")?;
            let path = format!("/api/v2/queues/{own}/tasks/batch/create");
            let answer = self.call("POST", &path, &create_all(&tasks))?;
            // There is no room for more.
            if answer.status == 503 && number > 0 {
                break;
            }
            answer.succeed().map_err(|error| format!("filling {own}: {error}"))?;
        }
        Ok(())
    }

    /// Tasks that wait for that of each client, and as many that wait for each of these.
    fn create_waiting(&mut self, queue: &str, of_clients: &[Place<'_>], place: &Place<'_>) -> Result<()> {
        let each = place.size.of(DEPENDENTS_READ);
        let id = |item: usize| Place { item, ..place.clone() }.id('t');
        let first: Vec<String> = of_clients.iter().map(|place| place.id('t')).collect();
        let near = (1..=each).map(|item| json!({ "id": id(item), "dependencies": first }));
        let far = (0..each * each).map(|n| json!({ "id": id(1 + each + n), "dependencies": [id(1 + n / each)] }));
        let tasks: Vec<String> = near.chain(far).map(|task| task.to_string()).collect();
        let path = format!("{queue}/tasks/batch/create");
        tasks.chunks(BATCH_ITEMS).try_for_each(|batch| self.succeed("POST", &path, &create_all(batch)))
    }

    /// Deletes the queues of a turn. One with a running task stays, and so does one that is not there.
    pub(super) fn clean(&mut self, turn: usize) -> Result<()> {
        let listed = self.get("/api/v2/queues")?;
        for name in listed.text().split('"').filter(|word| word.starts_with(&format!("s{turn}-"))) {
            self.about_queue("DELETE", &format!("{name}?cascade=true"), "")?;
        }
        Ok(())
    }
}

fn create_all(tasks: &[String]) -> String {
    format!(r#"{{"tasks":[{}]}}"#, tasks.join(","))
}

/// A task with what is heavy in the place, and the route for which it is claimed. The longest fuzzy search finds its name.
fn task(place: &Place<'_>) -> String {
    let mut task = json!({ "id": place.id('t'), "name": fields::stored_name(), "routes": [route()] });
    let mut give = |field: &str| task[field] = largest(field, place).unwrap_or(Value::Null);
    match place.heavy {
        "args" => ["args", "metadata"].into_iter().for_each(give),
        "routes" | "dependencies" => give(place.heavy),
        "distinct" => {
            task["routes"] = (0..place.size.of(TASK_ROUTES)).map(|n| format!("r{}-{n}", place.item)).collect();
        }
        _ => {}
    }
    fields::written(&task, place)
}
