//! Requests of many items, rendered once for a number of items. What a single request says is in `request.rs`.

use std::net::SocketAddr;

use crate::request::{self, ERROR, RESULT, RUN, Request, TASK};

/// What the items of a batch ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    /// Makes tasks with 200 bytes of args.
    Create,
    /// Makes tasks that fail for good at their first failure.
    CreateForOneAttempt,
    Claim,
    Complete,
    Fail,
}

/// A request of so many items.
pub(crate) fn render(kind: BatchKind, address: SocketAddr, queue: &str, items: usize) -> Request {
    let args = request::args();
    let item = match kind {
        BatchKind::Create => format!(r#"{{"id":"{TASK}","name":"bench","args":{args}}}"#),
        BatchKind::CreateForOneAttempt => {
            format!(r#"{{"id":"{TASK}","name":"bench","args":{args},"max_attempts":1}}"#)
        }
        BatchKind::Claim => format!(r#""{RUN}""#),
        BatchKind::Complete => {
            format!(r#"{{"task_id":"{TASK}","run_id":"{RUN}","action":"complete","result":{RESULT}}}"#)
        }
        BatchKind::Fail => format!(r#"{{"task_id":"{TASK}","run_id":"{RUN}","action":"fail","error":{ERROR}}}"#),
    };
    let items = vec![item; items].join(",");
    let (verb, body) = match kind {
        BatchKind::Create | BatchKind::CreateForOneAttempt => ("create", format!(r#"{{"tasks":[{items}]}}"#)),
        BatchKind::Claim => ("claim", format!(r#"{{"route":"default","run_ids":[{items}]}}"#)),
        BatchKind::Complete | BatchKind::Fail => ("report", format!(r#"{{"reports":[{items}]}}"#)),
    };
    let path = format!("/api/v2/queues/{queue}/tasks/batch/{verb}");
    Request::new(&request::with_body("POST", address, &path, &body))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::request::tests::ids;

    fn body(kind: BatchKind) -> Value {
        let mut request = render(kind, SocketAddr::from(([127, 0, 0, 1], 80)), "q", 3);
        let text = String::from_utf8(request.fill_all([(10, 20), (11, 21), (12, 22)].into_iter()).to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        assert_eq!(length.parse(), Ok(body.len()));
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn each_item_has_its_own_identifiers() {
        let created = body(BatchKind::Create);
        assert_eq!(created["tasks"].as_array().unwrap().len(), 3);
        assert_eq!(created["tasks"][2]["id"], ids(12, 0).0);
        assert_eq!(created["tasks"][2]["args"]["group"], 2);
        assert_eq!(body(BatchKind::Claim)["run_ids"][1], ids(0, 21).1);
        let report = &body(BatchKind::Complete)["reports"][1];
        assert_eq!((&report["task_id"], &report["run_id"]), (&ids(11, 0).0.into(), &ids(0, 21).1.into()));
        assert_eq!(report["action"], "complete");
        assert_eq!(body(BatchKind::Fail)["reports"][0]["error"]["type"], "ValueError");
        assert_eq!(body(BatchKind::CreateForOneAttempt)["tasks"][0]["max_attempts"], 1);
    }
}
