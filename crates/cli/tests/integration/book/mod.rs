//! The book in `docs/`, and README.md: what a page tells people to type is typed here, by a shell with the real program, and
//! what the page shows is compared with what comes. Links lead somewhere, every page is in the table of contents.
//! How a page says what to run, and what not: `docs/decisions/0032-documents-are-held-to-the-code.md`.

#![allow(clippy::print_stdout, reason = "what was counted is shown with --nocapture")]

mod blocks;
mod contents;
mod data;
mod links;
mod output;
mod overviews;
mod page_run;
mod pages;
mod ports;
mod process_group;
mod readme;
mod shell;
mod spelling;
mod worker_page;

use std::fmt::Write;
use std::sync::Mutex;

use self::pages::Page;

/// Most of a page is waiting for other processes.
const PAGES_AT_A_TIME: usize = 6;

/// Runs only the pages whose path contains this.
const ONLY: &str = "BOOK_PAGE";

#[test]
fn every_command_of_the_book_does_what_its_page_shows() {
    let only = std::env::var(ONLY).unwrap_or_default();
    let waiting = Mutex::new(pages::with_commands().into_iter().filter(|page| page.path.contains(&only)));
    let failures = Mutex::new(String::new());
    let ran = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_A_TIME {
            scope.spawn(|| {
                while let Some(page) = { waiting.lock().unwrap().next() } {
                    match page_run::run(&page) {
                        Ok(commands) => *ran.lock().unwrap() += commands,
                        Err(failure) => writeln!(failures.lock().unwrap(), "{failure}").unwrap(),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "\n{failures}\nTo run one page: {ONLY}=docs/tutorial.md cargo test -p taskqueue --test integration book::"
    );
    println!("{} commands ran", ran.into_inner().unwrap());
}

/// Shown with `--nocapture`. A reason that can be met is work to do.
#[test]
fn what_is_not_run_says_why() {
    let mut listed = String::new();
    for page in pages::with_commands() {
        for (line, reason) in page.not_run() {
            assert!(reason.len() > 8, "{}:{line}: say why it is not run", page.path);
            writeln!(listed, "{}:{line}: {reason}", page.path).unwrap();
        }
    }
    println!("{} blocks are not run:\n{listed}", listed.lines().count());
}

/// A page that shows commands in a block without a language would not be run, and nobody would notice.
#[test]
fn every_block_with_commands_has_a_language() {
    let is_command = |line: &str| {
        let call = line.strip_prefix("taskqueue ").is_some_and(|rest| rest.starts_with(char::is_alphabetic));
        call || line.starts_with("$ ")
    };
    let silent = |page: &Page| {
        let blocks = page.blocks().into_iter().filter(|block| block.language.is_empty());
        let typed = blocks.filter(|block| block.text.lines().any(is_command));
        typed.map(|block| format!("{}:{}", page.path, block.line)).collect::<Vec<_>>()
    };
    let broken: Vec<String> = pages::with_commands().iter().flat_map(silent).collect();
    assert!(broken.is_empty(), "blocks with commands and without `sh` or `console`: {broken:#?}");
}
