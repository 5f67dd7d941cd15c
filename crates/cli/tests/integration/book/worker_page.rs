//! `docs/reference/worker.md` names every variable that a command finds in its environment.

use std::fs;

use super::pages::{Page, root};

/// Where the worker puts together the environment of a command.
const SOURCES: &str = "crates/worker/src/command";

/// The names of variables in the texts of a source file.
fn variables(source: &str) -> impl Iterator<Item = &str> {
    let texts = source.split('"').skip(1).step_by(2);
    texts.filter(|text| {
        text.starts_with("TASKQUEUE_") && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    })
}

#[test]
fn the_page_of_the_worker_names_every_variable() {
    let page = Page::read("docs/reference/worker.md").text;
    let folder = root().join(SOURCES);
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let sources: Vec<String> =
        files.chain([folder.with_extension("rs")]).filter_map(|path| fs::read_to_string(path).ok()).collect();
    let found: Vec<&str> = sources.iter().flat_map(|source| variables(source)).collect();
    assert!(found.len() > 8, "the variables were not found: {found:?}");
    let missing: Vec<&&str> = found.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/worker.md does not name {missing:?}");
}
