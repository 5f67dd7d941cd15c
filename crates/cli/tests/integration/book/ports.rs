//! Addresses. Pages say `127.0.0.1:8000`, and so do people. Here every port of this machine that a page names becomes a free one,
//! in commands and files, and becomes the page's again in what is printed.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const HOSTS: &[&str] = &["127.0.0.1:", "localhost:", "0.0.0.0:", "[::1]:"];

/// Below the ports that systems give to outgoing connections, which could take one between now and its use.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 10_000;

/// The ports that a page names, each with a free one.
#[derive(Debug, Default)]
pub(crate) struct Ports(BTreeMap<String, String>);

impl Ports {
    pub(crate) fn real(&mut self, port: &str) -> String {
        self.0.entry(port.to_owned()).or_insert_with(|| free_port().to_string()).clone()
    }

    /// A text of the page with the real ports.
    pub(crate) fn put_in(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((at, host)) = HOSTS.iter().filter_map(|host| Some((rest.find(host)?, host))).min() {
            let port_at = at + host.len();
            out.push_str(&rest[..port_at]);
            rest = &rest[port_at..];
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            // Ports 0 and 1 have a meaning of their own: any, and nobody there.
            let port = &rest[..digits];
            out.push_str(&if digits == 4 { self.real(port) } else { port.to_owned() });
            rest = &rest[digits..];
        }
        out + rest
    }

    /// Output with the ports of the page.
    pub(crate) fn take_out(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (port, real)| text.replace(&format!(":{real}"), &format!(":{port}")))
    }
}

fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests that run at the same time begin at different places.
    let start = u16::try_from(std::process::id() % u32::from(PORTS)).unwrap();
    let ports = std::iter::repeat_with(|| FIRST_PORT + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS);
    ports.into_iter().find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[test]
fn ports_are_exchanged_there_and_back() {
    let mut ports = Ports::default();
    let real = ports.real("8000");
    let text = "curl http://127.0.0.1:8000/a 0.0.0.0:8000 127.0.0.1:0 example:8000";
    let put = ports.put_in(text);
    assert_eq!(put, format!("curl http://127.0.0.1:{real}/a 0.0.0.0:{real} 127.0.0.1:0 example:8000"));
    assert_eq!(ports.take_out(&put), text);
}
