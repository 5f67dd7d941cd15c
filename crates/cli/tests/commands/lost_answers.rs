//! Answers that get lost: what was done is not done a second time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::Server;

/// A proxy before a server that loses the first answer to a creation. Its thread ends with the test process.
fn lossy_proxy(server: &Server) -> SocketAddr {
    let target = server.url.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let has_lost = AtomicBool::new(false);
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let Some(request) = message(&stream) else { continue };
            let mut server = TcpStream::connect(&target).unwrap();
            server.write_all(&request).unwrap();
            let answer = message(&server).unwrap();
            if request.starts_with(b"PUT ") && !has_lost.swap(true, Ordering::Relaxed) {
                continue;
            }
            // One request per connection, so that each is seen.
            let answer = String::from_utf8(answer).unwrap().replacen("\r\n", "\r\nConnection: close\r\n", 1);
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

/// A head and a body of the length that it names.
fn message(stream: &TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut reader) = (String::new(), BufReader::new(stream));
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length =
        head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some([head.into_bytes(), body].concat())
}

#[test]
fn a_rerun_whose_answer_is_lost_makes_one_copy() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &["--arg", "x=1"]);
    server.run("task cancel t_aaaaaaaaaaaa").ok();
    let proxy = format!("http://{}", lossy_proxy(&server));
    let new_id = server.run_with(&["task", "rerun", "t_aaaaaaaaaaaa", "--url", &proxy, "-o", "quiet"]).ok();
    assert_eq!(server.run("task list --status pending -o quiet").ok(), new_id);
    assert_eq!(server.run("task count -o quiet").ok(), "2\n");
}
