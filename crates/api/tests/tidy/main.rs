//! The house rules that a machine can check. What needs judgement stands in CONTRIBUTING.md.
//! Each rule lists everything that breaks it, so that one run shows the whole work.

#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

mod import_cycles;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which of our crates a crate may name in its manifest, tests included (ARCHITECTURE.md).
const LAW: &[(&str, &[&str])] = &[
    ("taskqueue-core", &[]),
    ("taskqueue-api", &["taskqueue-core"]),
    ("taskqueue-store", &["taskqueue-core"]),
    ("taskqueue-store-sqlite", &["taskqueue-store", "taskqueue-core"]),
    ("taskqueue-store-postgres", &["taskqueue-store", "taskqueue-core", "taskqueue-test-postgres"]),
    ("taskqueue-client", &["taskqueue-api", "taskqueue-core"]),
    ("taskqueue-worker", &["taskqueue-client", "taskqueue-api", "taskqueue-core"]),
    ("taskqueue-dashboard", &["taskqueue-api", "taskqueue-store", "taskqueue-core"]),
    ("taskqueue-server", &["taskqueue-dashboard", "taskqueue-api", "taskqueue-store", "taskqueue-core"]),
    ("taskqueue-bench", &["taskqueue-api", "taskqueue-core", "taskqueue-test-postgres"]),
    // For tests and measurements only.
    ("taskqueue-test-postgres", &[]),
    (
        "taskqueue",
        &[
            "taskqueue-server",
            "taskqueue-worker",
            "taskqueue-client",
            "taskqueue-store-sqlite",
            "taskqueue-store-postgres",
            "taskqueue-store",
            "taskqueue-api",
            "taskqueue-core",
            "taskqueue-test-postgres",
            // For the test that sends what the benchmark sends.
            "taskqueue-bench",
        ],
    ),
];

/// What a crate never uses of others.
const NEVER: &[(&str, &[&str])] = &[
    (
        "taskqueue-core",
        &["tokio", "axum", "hyper", "rusqlite", "tokio-postgres", "clap", "tracing", "rand", "async-trait"],
    ),
    ("taskqueue-api", &["axum", "hyper", "reqwest", "rusqlite", "tokio-postgres"]),
    ("taskqueue-store", &["axum", "hyper", "rusqlite", "tokio-postgres", "clap"]),
    ("taskqueue-store-sqlite", &["axum", "hyper", "tokio-postgres", "clap"]),
    ("taskqueue-store-postgres", &["axum", "hyper", "rusqlite", "clap"]),
    ("taskqueue-dashboard", &["rusqlite", "tokio-postgres", "clap", "reqwest"]),
    ("taskqueue-server", &["rusqlite", "tokio-postgres", "clap", "reqwest"]),
    ("taskqueue-client", &["axum", "clap", "rusqlite", "tokio-postgres"]),
    ("taskqueue-worker", &["axum", "clap", "rusqlite", "tokio-postgres"]),
];

/// Lines of a file without its tests.
const FILE_LINES: usize = 500;

/// Words that say nothing, and words of other vocabularies than the contract's.
const BANNED_WORDS: &[&str] =
    &["util", "utils", "helper", "helpers", "manager", "misc", "common", "job", "jobs", "ack", "consumer", "consumers"];

/// Tests that wait for wall-clock time, and why they cannot do without.
const MAY_SLEEP: &[(&str, &str)] = &[];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Every file of the project with its path from the root: what git knows or would add, or else everything.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()
        .filter(|output| output.status.success());
    let mut files: Vec<PathBuf> = match listed {
        Some(output) => String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect(),
        None => walk(root()).iter().map(|path| path.strip_prefix(root()).unwrap().to_owned()).collect(),
    };
    files.retain(|file| root().join(file).is_file());
    assert!(files.len() > 50, "the files of the project were not found");
    files
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wanted = entries.filter(|path| !path.ends_with(".git") && !path.ends_with("target"));
    wanted.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn rust_files() -> Vec<(PathBuf, String)> {
    let rust = files().into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|file| (file.clone(), fs::read_to_string(root().join(file)).unwrap())).collect()
}

/// Whether a file holds nothing but tests.
fn is_test_file(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    file.components().any(|part| part.as_os_str() == "tests") || stem == "tests" || stem.ends_with("_tests")
}

/// The lines of a file up to its tests, and from them on.
fn split_tests(text: &str) -> (&str, &str) {
    text.split_at(text.find("#[cfg(test)]\nmod ").unwrap_or(text.len()))
}

#[track_caller]
fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

/// Our packages, each with the names of everything it depends on in any way.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let dependencies = |package: &Value| package["dependencies"].as_array().unwrap().iter().map(name).collect();
    metadata["packages"].as_array().unwrap().iter().map(|package| (name(package), dependencies(package))).collect()
}

#[test]
fn crates_use_only_the_crates_below_them() {
    let law: BTreeMap<&str, &[&str]> = LAW.iter().copied().collect();
    let packages = packages();
    let mut broken = Vec::new();
    for (package, dependencies) in &packages {
        let Some(allowed) = law.get(package.as_str()) else {
            broken.push(format!("{package} has no place in the law"));
            continue;
        };
        let ours = dependencies.iter().filter(|name| law.contains_key(name.as_str()) || packages.contains_key(*name));
        // A package may name itself: its own tests switch on a feature that way.
        let forbidden = ours.filter(|name| !allowed.contains(&name.as_str()) && *name != package);
        broken.extend(forbidden.map(|name| format!("{package} uses {name}")));
    }
    assert_none("the law of dependencies is broken", &broken);
}

#[test]
fn crates_stay_free_of_what_they_must_never_know() {
    let packages = packages();
    let broken: Vec<String> = NEVER
        .iter()
        .flat_map(|(package, never)| never.iter().map(move |name| (*package, *name)))
        .filter(|(package, name)| packages.get(*package).is_some_and(|uses| uses.contains(*name)))
        .map(|(package, name)| format!("{package} uses {name}"))
        .collect();
    assert_none("a crate uses what it must never know", &broken);
}

#[test]
fn every_file_says_first_what_lives_in_it() {
    let silent = rust_files().into_iter().filter(|(file, text)| !is_test_file(file) && !text.starts_with("//! "));
    let broken: Vec<String> = silent.map(|(file, _)| file.display().to_string()).collect();
    assert_none("files that do not open with `//!`", &broken);
}

#[test]
fn every_statement_says_first_what_it_is_for() {
    let statements = files().into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "sql"));
    let is_silent = |file: &PathBuf| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let mut named = text.split("\n-- name: ").skip(1).filter_map(|statement| statement.split_once('\n'));
        !text.starts_with("-- ") || named.any(|(_, statement)| !statement.starts_with("-- "))
    };
    let broken: Vec<String> = statements.filter(is_silent).map(|file| file.display().to_string()).collect();
    assert_none("SQL files and named statements that do not begin with a comment", &broken);
}

#[test]
fn files_are_small() {
    let mut broken = Vec::new();
    for (file, text) in rust_files() {
        let lines = split_tests(&text).0.lines().count();
        if !is_test_file(&file) && lines > FILE_LINES {
            broken.push(format!("{}: {lines} lines", file.display()));
        }
    }
    assert_none(&format!("files with more than {FILE_LINES} lines without their tests"), &broken);
}

/// The words of a name in snake, kebab or camel case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for character in name.chars() {
        if !character.is_alphanumeric() || character.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

fn banned_word(name: &str) -> Option<String> {
    words(name).into_iter().find(|word| BANNED_WORDS.contains(&word.as_str()))
}

/// The names that a file declares.
fn declared_names(text: &str) -> Vec<&str> {
    const KEYWORDS: &[&str] = &["fn", "struct", "enum", "trait", "mod", "type", "const", "static"];
    let mut names = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut tokens = line.split(|character: char| !character.is_alphanumeric() && character != '_');
        while let Some(token) = tokens.next() {
            if KEYWORDS.contains(&token) {
                names.extend(tokens.next());
            }
        }
    }
    names
}

#[test]
fn names_use_the_vocabulary_of_the_contract() {
    let mut broken = Vec::new();
    for file in files() {
        let parts = file.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        broken.extend(parts.filter_map(|part| banned_word(&part)).map(|word| format!("{}: {word}", file.display())));
    }
    for (file, text) in rust_files() {
        let banned = declared_names(&text).into_iter().filter(|name| banned_word(name).is_some());
        broken.extend(banned.map(|name| format!("{}: {name}", file.display())));
    }
    assert_none("names with words that we do not use", &broken);
}

#[test]
fn no_test_is_ignored() {
    let attribute = concat!("#[", "ignore");
    let ignoring = rust_files().into_iter().filter(|(_, text)| text.contains(attribute));
    let broken: Vec<String> = ignoring.map(|(file, _)| file.display().to_string()).collect();
    assert_none("files with ignored tests", &broken);
}

#[test]
fn no_test_sleeps() {
    let call = concat!("sleep", "(");
    let mut broken = Vec::new();
    for (file, text) in rust_files() {
        let tests = if is_test_file(&file) { text.as_str() } else { split_tests(&text).1 };
        if tests.contains(call) && !MAY_SLEEP.iter().any(|(path, _)| file == Path::new(path)) {
            broken.push(file.display().to_string());
        }
    }
    assert_none("tests that sleep (pass time in, pause it, or wait for what is to happen)", &broken);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let machine_paths = ["work", "home", "root", "Users"].map(|folder| format!("/{folder}/"));
    let mut broken = Vec::new();
    for file in files() {
        let Ok(text) = fs::read_to_string(root().join(&file)) else { continue };
        let lines = text.lines().enumerate();
        let personal = lines.filter(|(_, line)| machine_paths.iter().any(|path| line.contains(path)));
        broken.extend(personal.map(|(number, _)| format!("{}:{}", file.display(), number + 1)));
    }
    assert_none("absolute paths of somebody's machine", &broken);
}

#[test]
fn the_changelog_tells_of_this_version() {
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let version = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    let told = changelog.lines().any(|line| line.starts_with("## [Unreleased]") || line.starts_with(&version));
    assert!(told, "CHANGELOG.md has neither `## [Unreleased]` nor `{version}`");
}

/// The other packages take their version from Cargo.toml when they are built.
#[test]
fn the_kubernetes_manifests_name_this_version() {
    let manifests = files().into_iter().filter(|file| file.ends_with("kustomization.yaml"));
    let tag = format!("    newTag: {}", env!("CARGO_PKG_VERSION"));
    let has = |file: &PathBuf, wanted: &str| {
        fs::read_to_string(root().join(file)).unwrap().lines().any(|line| line == wanted)
    };
    // Images of workers are the users' own.
    let is_other = |file: &PathBuf| has(file, "  - name: taskqueue") && !has(file, &tag);
    let broken: Vec<String> = manifests.filter(is_other).map(|file| file.display().to_string()).collect();
    assert_none(&format!("manifests without `{}`", tag.trim()), &broken);
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(words("TaskManager2").join(" "), " task manager2");
    assert_eq!(words("store_sqlite-x").join(" "), "store sqlite x");
    assert_eq!(banned_word("test_utils.rs").as_deref(), Some("utils"));
    assert_eq!(banned_word("JobQueue").as_deref(), Some("job"));
    assert_eq!(banned_word("back_pressure"), None);
    assert_eq!(declared_names("pub(crate) async fn claim(x: u8) {} // fn renew"), ["claim", "renew"]);
}
