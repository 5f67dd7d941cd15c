//! README.md as one person follows it, from top to bottom, in one folder with one server: nothing is needed that it does not show, and
//! in the end no run has failed.

use super::blocks::Kind;
use super::page_run;
use super::pages::Page;

/// What a person sees who looks for trouble at the end.
const AT_THE_END: &str = "
```console
$ taskqueue task count --filter 'exists(last_error.type)' --output quiet
0
$ taskqueue task count --queue default --filter '\"gpu\" in routes and status == \"pending\"' --output quiet
0
```
";

#[test]
fn whoever_follows_the_readme_to_its_end_has_no_failed_run() {
    let readme = Page::read("README.md");
    let page = Page { text: readme.text + AT_THE_END, ..readme };
    page_run::run(&page).unwrap_or_else(|failure| panic!("\n{failure}"));
}

#[test]
fn the_readme_hides_nothing_that_its_reader_needs() {
    let readme = Page::read("README.md");
    assert!(!readme.text.contains("<!-- run\n"), "a reader does not have what such a block makes");
    let silent = readme.blocks().into_iter().filter(|block| block.kind() == Kind::Python && block.not_run.is_some());
    assert_eq!(silent.map(|block| block.line).collect::<Vec<_>>(), [0; 0], "Python that is shown is run");
}
