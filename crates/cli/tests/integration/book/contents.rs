//! `docs/SUMMARY.md`, the table of contents: it names every page once and nothing else.

use std::collections::BTreeMap;

use super::pages::{self, Page};

/// The paths that the table of contents names, each with its title.
fn entries() -> Vec<(String, String)> {
    let summary = Page::read("docs/SUMMARY.md").text;
    let links = summary.lines().filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix('['));
    let entries = links.filter_map(|link| link.trim_end().strip_suffix(')')?.split_once("]("));
    entries.map(|(title, path)| (format!("docs/{path}"), title.to_owned())).collect()
}

#[test]
fn the_table_of_contents_names_every_page_once() {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for (path, _) in entries() {
        *named.entry(path).or_default() += 1;
    }
    let pages: Vec<Page> = pages::of_the_book().into_iter().filter(|page| page.path != "docs/SUMMARY.md").collect();
    let missing = pages.iter().filter(|page| !named.contains_key(&page.path)).map(|page| {
        let title = page.text.lines().next().unwrap_or_default().trim_start_matches("# ");
        format!("add to docs/SUMMARY.md: - [{title}]({})", page.path.trim_start_matches("docs/"))
    });
    let dead = named
        .keys()
        .filter(|path| !pages.iter().any(|page| page.path == **path))
        .map(|path| format!("{path} does not exist"));
    let twice = named.iter().filter(|(_, count)| **count > 1).map(|(path, _)| format!("{path} is named twice"));
    let broken: Vec<String> = missing.chain(dead).chain(twice).collect();
    assert!(broken.is_empty(), "the table of contents: {broken:#?}");
}

#[test]
fn every_page_begins_with_its_title() {
    let untitled = pages::of_the_book().into_iter().filter(|page| !page.text.starts_with("# "));
    let broken: Vec<String> = untitled.map(|page| page.path).collect();
    assert!(broken.is_empty(), "pages that do not begin with `# `: {broken:#?}");
}
