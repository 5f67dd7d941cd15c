//! Requests to whichever of several servers answers: one may be killed and started again meanwhile.

use std::sync::Mutex;

use serde_json::Value;

use crate::support::*;

/// The addresses of servers, which change when one is started again.
pub(crate) struct Addresses(Mutex<Vec<String>>);

impl Addresses {
    pub(crate) fn of(servers: &[Server]) -> Self {
        Self(Mutex::new(servers.iter().map(|server| server.address.clone()).collect()))
    }

    pub(crate) fn change(&self, which: usize, address: &str) {
        address.clone_into(&mut self.0.lock().unwrap()[which]);
    }

    /// Sends a request, first to this server, until one of them answers it with anything but 503: the same request again, as a
    /// client would.
    pub(crate) fn send(&self, first: usize, request: &Request) -> Response {
        for which in first.. {
            let address = {
                let addresses = self.0.lock().unwrap();
                addresses[which % addresses.len()].clone()
            };
            let answer = Connection::tcp(&address).and_then(|mut connection| connection.exchange(request));
            if let Ok(response) = answer
                && response.status != 503
            {
                assert!(response.status < 500, "a failure of the server: {response:?}");
                return response;
            }
        }
        unreachable!("it tries for ever")
    }

    /// How many tasks a query of the counts of `q` selects.
    pub(crate) fn count(&self, first: usize, query: &str) -> u64 {
        let request = Request::new("GET", &in_queue(&format!("/tasks/count?{query}")));
        self.send(first, &request).expect(200).json()["count"].as_u64().unwrap()
    }

    /// Changes the settings of `q`.
    pub(crate) fn change_settings(&self, first: usize, patch: &Value) {
        self.send(first, &Request::new("PATCH", &in_queue("/settings")).json(patch)).expect(200);
    }
}
