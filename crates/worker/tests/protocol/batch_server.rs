//! What the scripted server answers by itself, from a few tasks in memory: claims, heartbeats and reports, alone and in batches.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_core::json::{Value, parse};

use super::server::{LEASE, Request, task_text};

/// The tasks of a server that answers by itself.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// How many were not claimed yet.
    pub(crate) pending: u8,
    claimed: u8,
    /// The number of the task of each run.
    pub(crate) runs: BTreeMap<String, u8>,
    /// Tasks whose runs are over because somebody cancelled them.
    pub(crate) cancelled: BTreeSet<String>,
    /// Final reports, as they were accepted: the task and the action.
    pub(crate) ended: Vec<(String, String)>,
    /// The tasks of the reports of progress.
    pub(crate) progress: Vec<String>,
}

impl Tasks {
    /// The task of a run, now or when it was claimed before.
    fn claim(&mut self, run_id: &str) -> Option<u8> {
        if let Some(number) = self.runs.get(run_id) {
            return Some(*number);
        }
        self.pending = self.pending.checked_sub(1)?;
        self.claimed += 1;
        self.runs.insert(run_id.to_owned(), self.claimed);
        Some(self.claimed)
    }

    /// The status and body of a single request.
    pub(crate) fn answer(&mut self, request: &Request) -> (u16, String) {
        match request.verb.as_str() {
            "claim" => match self.claim(&request.member("run_id")) {
                Some(number) => {
                    let task = task_text(number);
                    let run_id = request.member("run_id");
                    (200, format!(r#"{{"task":{task},"run_id":"{run_id}","lease_expires_at":"{LEASE}"}}"#))
                }
                None => (204, String::new()),
            },
            verb => {
                let task_id = request.text.split('/').nth(6).unwrap().to_owned();
                match self.report(&task_id, verb) {
                    Ok(()) if verb == "heartbeat" => (200, format!(r#"{{"lease_expires_at":"{LEASE}"}}"#)),
                    Ok(()) => (204, String::new()),
                    Err(error) => (409, format!(r#"{{"error":{error}}}"#)),
                }
            }
        }
    }

    fn report(&mut self, task_id: &str, action: &str) -> Result<(), &'static str> {
        if self.cancelled.contains(task_id) {
            return Err(r#"{"code":"run_finalized","message":"no","details":{}}"#);
        }
        if action == "progress" {
            self.progress.push(task_id.to_owned());
        } else if action != "heartbeat" {
            self.ended.push((task_id.to_owned(), action.to_owned()));
        }
        Ok(())
    }

    /// The items of the answer to a batch.
    pub(crate) fn items(&mut self, request: &Request) -> Vec<String> {
        let body = request.body();
        let body = parse(body.as_bytes()).unwrap();
        if request.verb == "batch/claim" {
            return list(&body, "run_ids").iter().map(|run_id| self.claimed_item(text(run_id))).collect();
        }
        list(&body, "reports").iter().map(|report| self.reported_item(report)).collect()
    }

    fn claimed_item(&mut self, run_id: &str) -> String {
        match self.claim(run_id) {
            Some(number) => {
                let task = task_text(number);
                format!(r#"{{"run_id":"{run_id}","outcome":"claimed","task":{task},"lease_expires_at":"{LEASE}"}}"#)
            }
            None => format!(r#"{{"run_id":"{run_id}","outcome":"none"}}"#),
        }
    }

    fn reported_item(&mut self, report: &Value<'_>) -> String {
        let [task_id, run_id, action] = ["task_id", "run_id", "action"].map(|name| text(member(report, name)));
        let ids = format!(r#""task_id":"{task_id}","run_id":"{run_id}""#);
        match self.report(task_id, action) {
            Ok(()) if action == "heartbeat" => format!(r#"{{{ids},"outcome":"done","lease_expires_at":"{LEASE}"}}"#),
            Ok(()) => format!(r#"{{{ids},"outcome":"done"}}"#),
            Err(error) => format!(r#"{{{ids},"outcome":"refused","error":{error}}}"#),
        }
    }
}

pub(crate) fn member<'v>(object: &'v Value<'v>, name: &str) -> &'v Value<'v> {
    let Value::Object(members) = object else { panic!("no object: {object:?}") };
    &members.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name}: {object:?}")).1
}

pub(crate) fn list<'v>(object: &'v Value<'v>, name: &str) -> &'v [Value<'v>] {
    let Value::Array(items) = member(object, name) else { panic!("no list: {object:?}") };
    items
}

pub(crate) fn text<'v>(value: &'v Value<'v>) -> &'v str {
    let Value::Str(text) = value else { panic!("no text: {value:?}") };
    text
}

/// The run ids of a batch of claims, or of a single one.
pub(crate) fn run_ids(request: &Request) -> Vec<String> {
    if request.verb == "claim" {
        return vec![request.member("run_id")];
    }
    let body = parse(request.body().as_bytes()).unwrap();
    list(&body, "run_ids").iter().map(|run_id| text(run_id).to_owned()).collect()
}

/// The actions of a batch of reports.
pub(crate) fn actions(request: &Request) -> Vec<String> {
    let body = parse(request.body().as_bytes()).unwrap();
    list(&body, "reports").iter().map(|report| text(member(report, "action")).to_owned()).collect()
}
