//! Names of products are written as their owners do.

use super::links::prose;
use super::pages;

/// Wrong and right.
const NAMES: &[(&str, &str)] = &[
    ("Postgres", "PostgreSQL"),
    ("postgresql", "PostgreSQL"),
    ("Postgresql", "PostgreSQL"),
    ("Sqlite", "SQLite"),
    ("sqlite", "SQLite"),
    ("SLURM", "Slurm"),
    ("slurm", "Slurm"),
    ("Labtasker", "labtasker"),
    ("Taskqueue", "taskqueue"),
    ("TaskQueue", "taskqueue"),
    ("celery", "Celery"),
    ("mdbook", "mdBook"),
    ("Mdbook", "mdBook"),
    ("Systemd", "systemd"),
    ("SystemD", "systemd"),
    ("prometheus", "Prometheus"),
    ("grafana", "Grafana"),
    ("Github", "GitHub"),
    ("javascript", "JavaScript"),
    ("docker", "Docker"),
    ("kubernetes", "Kubernetes"),
];

/// Words without what is part of a longer name: a path, an address, a link.
fn words(prose: &str) -> impl Iterator<Item = &str> {
    let spoken = prose.split_whitespace().filter(|word| !word.contains(['/', '.', '_', '=']) && !word.contains("]("));
    spoken.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
}

#[test]
fn names_of_products_are_spelled_as_their_owners_do() {
    let mut broken = Vec::new();
    for page in pages::with_commands() {
        let prose = prose(&page.text);
        for (wrong, right) in NAMES {
            if words(&prose).any(|word| word == *wrong) {
                broken.push(format!("{}: write {right}, not {wrong}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
