//! Every link of the pages leads to a page, a heading or a file that exists, in the rendered book as on the web site of a
//! repository. Addresses elsewhere are not fetched.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::pages::{self, Page, root};

/// A page without its blocks and code, in which nothing is a link.
pub(crate) fn prose(text: &str) -> String {
    let (mut prose, mut fence) = (String::new(), None::<String>);
    for line in text.lines() {
        let trimmed = line.trim();
        let ticks = &trimmed[..trimmed.len() - trimmed.trim_start_matches('`').len()];
        match &fence {
            Some(open) if trimmed == open => fence = None,
            Some(_) => {}
            None if ticks.len() > 2 => fence = Some(ticks.to_owned()),
            None => prose.extend(line.split('`').step_by(2).chain(["\n"])),
        }
    }
    prose
}

/// What stands in the round brackets of links and images.
fn targets(prose: &str) -> Vec<&str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchors of a page, as mdBook and GitHub make them of headings.
fn anchors(page: &Page) -> Vec<String> {
    let (mut seen, mut is_code) = (BTreeMap::<String, usize>::new(), false);
    let mut anchors = Vec::new();
    for line in page.text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(heading) =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#') && !is_code)
        else {
            continue;
        };
        let name = anchor(heading);
        let count = seen.entry(name.clone()).or_default();
        anchors.push(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A path without `.` and `..`; `None` if it leaves the project.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !normal.pop() => return None,
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    Some(normal)
}

/// What is wrong with a link of a page.
fn fault(page: &Page, target: &str) -> Option<String> {
    let (path, wanted) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let here = PathBuf::from(&page.path);
    let file = if path.is_empty() { here.clone() } else { normal(&here.parent().unwrap().join(path))? };
    if !root().join(&file).exists() {
        return Some(format!("{} does not exist", file.display()));
    }
    if here.starts_with("docs") && !file.starts_with("docs") {
        return Some("it leaves docs/, and the rendered book has nothing there".to_owned());
    }
    let is_page = file.extension().is_some_and(|kind| kind == "md");
    if here.starts_with("docs") && !is_page && root().join(&file).is_dir() {
        return Some("it names a folder, and the rendered book has no page for it".to_owned());
    }
    let wanted = wanted.filter(|_| is_page)?;
    let known = anchors(&Page::read(file.to_str().unwrap()));
    (!known.iter().any(|anchor| anchor == wanted))
        .then(|| format!("{} has no heading with the anchor {wanted}", file.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(Page::read);
    let (mut broken, mut inside, mut outside) = (Vec::new(), 0, 0);
    for page in pages::of_the_book().into_iter().chain(others) {
        let prose = prose(&page.text);
        for target in targets(&prose) {
            if target.contains("://") || target.starts_with("mailto:") {
                outside += 1;
                continue;
            }
            inside += 1;
            broken.extend(fault(&page, target).map(|fault| format!("{}: ({target}): {fault}", page.path)));
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
    assert!(inside > 100, "only {inside} links were found");
    println!("{inside} links lead somewhere; {outside} lead outside and were not fetched");
}

#[test]
fn anchors_are_made_as_mdbook_and_github_make_them() {
    let page =
        Page { path: "README.md".to_owned(), text: "# A `b`: C's 1.2\n## Same\n```\n# no\n```\n## Same\n".to_owned() };
    assert_eq!(anchors(&page), ["a-b-cs-12", "same", "same-1"]);
    assert_eq!(targets(&prose("[a](b#c) `[d](e)` ![f](g.svg)\n```\n[h](i)\n```\n")), ["b#c", "g.svg"]);
    assert_eq!(normal(Path::new("docs/a/../b")), Some(PathBuf::from("docs/b")));
    assert_eq!(normal(Path::new("docs/../../b")), None);
}
