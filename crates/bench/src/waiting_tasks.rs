//! `taskqueue-bench waiting`: what claims keep of their throughput beside tasks that wait (rows 39 to 41 of the goals). Four servers
//! of one build take turns: one has nothing but what is claimed, one has many delayed tasks in the same queue, one has many tasks in
//! chains, and one deletes what has ended a second ago. What waits is not claimed meanwhile.

use std::rc::Rc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::WaitingArgs;
use crate::claim_turns::ClaimTurns;
use crate::client::Client;
use crate::failure::Result;
use crate::fill::BATCH;
use crate::goals::Judged;
use crate::load::Measured;
use crate::measurement::median;
use crate::numbered_ids::Numbers;
use crate::operation::Phase;
use crate::process::{Server, scratch};
use crate::results::Results;
use crate::{output, request, table};

const QUEUE: fn() -> &'static str = || Phase::ClaimComplete.queue();
/// As much text as the args of the other tasks have.
pub(crate) const ARGS_BYTES: usize = 180;
/// How long a chain is: as long as the stages of a long experiment.
const CHAIN: u64 = 10;
/// Before this no delayed task can be claimed.
const FAR: &str = "2100-01-01T00:00:00Z";
/// The id of a task that waits; no other task has one of this kind.
fn waiting_id(number: u64) -> String {
    format!("t_wait{number:08}")
}

/// What a server has beside the tasks that are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Delayed,
    Chained,
    Retention,
}

impl Beside {
    const ALL: [Self; 4] = [Self::Nothing, Self::Delayed, Self::Chained, Self::Retention];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Delayed => "delayed tasks",
            Self::Chained => "tasks in chains",
            Self::Retention => "a retention of 1 s",
        }
    }

    fn row(self) -> Option<u8> {
        match self {
            Self::Nothing => None,
            Self::Delayed => Some(39),
            Self::Chained => Some(40),
            Self::Retention => Some(41),
        }
    }

    /// The must and the aim.
    fn goal(self) -> (f64, f64) {
        if self == Self::Retention { (0.95, 0.98) } else { (0.98, 1.0) }
    }

    fn tasks(self, args: &WaitingArgs) -> u64 {
        match self {
            Self::Delayed => args.delayed,
            Self::Chained => args.chained,
            Self::Nothing | Self::Retention => 0,
        }
    }

    /// The members of a creation that make a task wait.
    fn members(self, number: u64) -> String {
        match self {
            Self::Chained if !number.is_multiple_of(CHAIN) => {
                format!(r#","dependencies":["{}"]"#, waiting_id(number - 1))
            }
            // The first one of each chain.
            Self::Chained | Self::Delayed => format!(r#","not_before":"{FAR}""#),
            Self::Nothing | Self::Retention => String::new(),
        }
    }
}

struct Subject {
    beside: Beside,
    turns: ClaimTurns,
    rounds: Vec<Measured>,
    // Removed after the server has ended.
    _folder: TempDir,
}

pub(crate) async fn run(args: &WaitingArgs) -> Result<Results> {
    let mut subjects = Vec::new();
    for beside in Beside::ALL {
        subjects.push(Subject::start(args, beside).await?);
    }
    for round in 0..args.rounds {
        output::progress(&format!("round {} of {}", round + 1, args.rounds));
        for place in 0..subjects.len() {
            let place = (place + round as usize) % subjects.len();
            let subject = &mut subjects[place];
            let measured = subject.turns.turn().await?;
            subject.rounds.push(measured);
        }
    }
    let bare = subjects[0].rate();
    let rows: Vec<Vec<String>> = subjects.iter().map(|subject| subject.row(bare)).collect();
    let heading = ["beside", "req/s", "ratio", "CPU us/req"];
    Ok(Results {
        text: table::render(&heading, &rows, 1),
        figures: subjects.iter().map(|subject| subject.json(bare)).collect::<Vec<_>>().into(),
        judged: subjects.iter().filter_map(|subject| subject.judge(args, bare)).collect(),
    })
}

impl Subject {
    async fn start(args: &WaitingArgs, beside: Beside) -> Result<Self> {
        let folder = scratch(&args.server.database_dir)?;
        let server = Server::on_sqlite(&args.server.binary, folder.path())?;
        let mut client = Client::connect(server.address).await?;
        client.send(&request::create_queue(server.address, QUEUE())).await?;
        let (tasks, text) = (beside.tasks(args), "x".repeat(ARGS_BYTES));
        for first in (0..tasks).step_by(BATCH as usize) {
            if first.is_multiple_of(100 * BATCH) {
                output::progress(&format!("{first} of {tasks} {} created", beside.name()));
            }
            let item = |number: u64| {
                let id = waiting_id(number);
                format!(r#"{{"id":"{id}","args":{{"text":"{text}"}}{}}}"#, beside.members(number))
            };
            let items: Vec<String> = (first..tasks.min(first + BATCH)).map(item).collect();
            let path = format!("/api/v2/queues/{}/tasks/batch/create", QUEUE());
            let body = format!(r#"{{"tasks":[{}]}}"#, items.join(","));
            client.send(request::with_body("POST", server.address, &path, &body).as_bytes()).await?.require_done()?;
        }
        if beside == Beside::Retention {
            let path = format!("/api/v2/queues/{}/settings", QUEUE());
            let body = r#"{"retention":{"succeeded_seconds":1}}"#;
            client.send(request::with_body("PATCH", server.address, &path, body).as_bytes()).await?.require_done()?;
        }
        let turns = ClaimTurns::new(server, Rc::<Numbers>::default(), args.seconds).beside(tasks);
        Ok(Self { beside, turns, rounds: Vec::new(), _folder: folder })
    }

    fn rate(&self) -> f64 {
        median(self.rounds.iter().map(Measured::rate).collect())
    }

    fn row(&self, bare: f64) -> Vec<String> {
        let cpu = median(self.rounds.iter().map(Measured::cpu_micros).collect());
        let rate = self.rate();
        vec![self.beside.name().to_owned(), format!("{rate:.0}"), format!("{:.3}", rate / bare), format!("{cpu:.1}")]
    }

    fn judge(&self, args: &WaitingArgs, bare: f64) -> Option<Judged> {
        let (row, (must, aim)) = (self.beside.row()?, self.beside.goal());
        let count = match self.beside.tasks(args) {
            0 => String::new(),
            tasks => format!("{tasks} "),
        };
        let what = format!("claim-complete beside {count}{}, over the same beside nothing", self.beside.name());
        Some(Judged::over_baseline(row, &what, self.rate() / bare, must, aim))
    }

    fn json(&self, bare: f64) -> Value {
        let rates: Vec<f64> = self.rounds.iter().map(Measured::rate).collect();
        json!({ "beside": self.beside.name(), "requests_per_second": rates, "ratio": self.rate() / bare })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_links_and_a_beginning_that_is_delayed() {
        assert!(Beside::Chained.members(0).contains("not_before"));
        assert!(Beside::Chained.members(1).contains(&waiting_id(0)));
        assert!(Beside::Chained.members(9).contains(&waiting_id(8)));
        assert!(Beside::Chained.members(10).contains("not_before"));
        assert!(Beside::Delayed.members(5).contains(FAR));
        assert_eq!(Beside::Retention.members(5), "");
    }
}
