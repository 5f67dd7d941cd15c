//! What pages that give an overview must know of, and sentences that were true once.

use super::pages::{self, Page};

/// Pages that somebody reads to learn what the program can do.
const OVERVIEWS: [&str; 5] =
    ["README.md", "docs/introduction.md", "docs/tutorial.md", "docs/recipes.md", "docs/comparison.md"];

/// A word of each feature that people look for and do not expect.
const FEATURES: [&str; 5] = ["dashboard", "retention", "dependenc", "delay", "progress"];

/// Sentences that deny what exists, in small letters.
const DENIALS: [&str; 7] = [
    "no chains",
    "there is no pause before a retry.",
    "tasks stay until they are deleted.",
    "tasks stay until you delete them;",
    "every schema that was released",
    "sqlite3 taskqueue.db \".backup",
    "whose other fields this server does not have",
];

#[test]
fn every_overview_knows_every_feature() {
    let mut missing = Vec::new();
    for path in OVERVIEWS {
        let text = Page::read(path).text.to_lowercase();
        missing.extend(FEATURES.iter().filter(|word| !text.contains(**word)).map(|word| format!("{path}: {word}...")));
    }
    assert!(missing.is_empty(), "overviews that do not know of a feature: {missing:#?}");
}

#[test]
fn every_guide_shows_the_way_to_the_dashboard() {
    let guides = pages::of_the_book().into_iter().filter(|page| page.path.starts_with("docs/guides/"));
    let without: Vec<String> =
        guides.filter(|page| !page.text.contains("(../dashboard")).map(|page| page.path).collect();
    assert!(without.is_empty(), "guides without a link to the dashboard: {without:#?}");
}

#[test]
fn no_page_denies_what_exists() {
    let pages = pages::of_the_book().into_iter().chain([Page::read("README.md")]);
    let found = pages.flat_map(|page| {
        let text = page.text.to_lowercase();
        let said = DENIALS.into_iter().filter(move |denial| text.contains(denial));
        said.map(move |denial| format!("{}: {denial}", page.path))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "sentences that are no longer true: {found:#?}");
}
