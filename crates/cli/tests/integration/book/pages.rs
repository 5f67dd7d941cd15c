//! Finding the pages: everything below `docs/`, and README.md.

use std::fs;
use std::path::{Path, PathBuf};

use super::blocks::{self, Block, Kind};

/// A page and its path from the root of the project.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        Self { path: path.to_owned(), text: fs::read_to_string(root().join(path)).unwrap() }
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        blocks::of(&self.text)
    }

    /// The lines of blocks that could be run and are not, each with the reason.
    pub(crate) fn not_run(&self) -> Vec<(usize, String)> {
        let blocks = self.blocks().into_iter().filter(|block| block.kind() != Kind::Shown);
        blocks.filter_map(|block| Some((block.line, block.not_run?))).collect()
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Every page of the book, the table of contents included.
pub(crate) fn of_the_book() -> Vec<Page> {
    let mut found = Vec::new();
    find(&root().join("docs"), &mut found);
    let mut paths: Vec<String> =
        found.iter().map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()).collect();
    paths.sort();
    assert!(paths.len() > 20, "the pages were not found: {paths:?}");
    paths.iter().map(|path| Page::read(path)).collect()
}

/// Pages whose commands are for users. Decisions tell what was tried once.
pub(crate) fn with_commands() -> Vec<Page> {
    let pages = of_the_book().into_iter().filter(|page| !page.path.starts_with("docs/decisions/"));
    pages.chain([Page::read("README.md")]).collect()
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
}
