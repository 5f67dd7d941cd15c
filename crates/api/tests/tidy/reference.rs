//! What the pages of `docs/` are held to: `docs/reference/` names every code, limit, endpoint and refusal of the code, and
//! what is cited exists, here and in the clone of everybody else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use taskqueue_api::ErrorCode;

use super::{assert_none, files, root, rust_files};

const PAGES: &str = "docs/reference";

fn page(name: &str) -> String {
    fs::read_to_string(root().join(PAGES).join(name)).unwrap()
}

fn source(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The OpenAPI document, from the snapshot that the tests of the server compare with it.
fn schema() -> serde_json::Value {
    let is_schema = |file: &&PathBuf| file.to_string_lossy().ends_with("__openapi.snap");
    let files = files();
    let snapshots: Vec<&PathBuf> = files.iter().filter(is_schema).collect();
    let [file] = snapshots[..] else { panic!("one snapshot of the OpenAPI document: {snapshots:?}") };
    let snapshot = fs::read_to_string(root().join(file)).unwrap();
    let (_, document) = snapshot.split_once("\n{").unwrap();
    serde_json::from_str(&format!("{{{document}")).unwrap()
}

/// The texts between single backquotes.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The numbers of the sections of a page: `4` and `4.2` of the headings `## 4. ...` and `### 4.2 ...`.
fn sections(text: &str) -> BTreeSet<String> {
    let headings = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with("##")));
    let numbers = headings.filter_map(|heading| heading.split(' ').next()).map(|number| number.trim_end_matches('.'));
    numbers.filter(|number| number.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned).collect()
}

/// The number behind `§` at the beginning of a text, such as `4.2`.
fn section_number(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// Files that people write: code, statements, documents, configuration.
fn written_files() -> impl Iterator<Item = (PathBuf, String)> {
    let kinds = ["rs", "sql", "md", "toml", "sh", "py", "yml", "yaml"];
    let written = files()
        .into_iter()
        .filter(move |file| file.extension().is_none_or(|extension| kinds.iter().any(|kind| extension == *kind)));
    written.filter_map(|file| fs::read_to_string(root().join(&file)).ok().map(|text| (file, text)))
}

#[test]
fn every_error_code_has_its_row_with_its_status() {
    let errors = page("errors.md");
    let rows: Vec<Vec<&str>> = errors.lines().filter(|line| line.starts_with("| `")).map(cells).collect();
    let has_row = |code: &ErrorCode| {
        let (code, status) = (format!("`{code}`"), code.status().to_string());
        rows.iter().any(|row| row[0] == code && row[1] == status)
    };
    let missing = ErrorCode::ALL.iter().filter(|code| !has_row(code)).map(|code| format!("{code} ({})", code.status()));
    assert_none("error codes without their row in errors.md", &missing.collect::<Vec<_>>());
    let unknown = rows.iter().filter(|row| ErrorCode::parse(row[0].trim_matches('`')).is_none());
    let unknown: Vec<String> = unknown.map(|row| row[0].to_owned()).collect();
    assert_none("rows of errors.md for codes that do not exist", &unknown);
}

#[test]
fn every_refusal_stands_in_the_page_of_errors() {
    let text = source("crates/core/src/refusal.rs");
    let (_, body) = text.split_once("pub enum Refusal {").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let variants = body.lines().filter(|line| line.starts_with("    ") && line.as_bytes()[4].is_ascii_uppercase());
    let names: Vec<&str> = variants.filter_map(|line| line.trim().split([' ', ',']).next()).collect();
    assert!(names.len() > 10, "{names:?}");
    let errors = page("errors.md");
    let known: BTreeSet<&str> = code_spans(&errors).collect();
    let missing = names.into_iter().filter(|name| !known.contains(name)).map(str::to_owned);
    assert_none("refusals that errors.md does not name", &missing.collect::<Vec<_>>());
}

/// The value of a constant as the page writes it: `16 * 1_048_576` is `16,777,216`.
fn written_value(value: &str) -> String {
    if let Some(text) = value.strip_prefix('"') {
        return format!("`{}`", text.trim_end_matches('"'));
    }
    let whole = |factor: &str| factor.trim().trim_end_matches(".0").replace('_', "").parse::<u64>().unwrap();
    let factors = value.split('*').map(whole);
    let digits = factors.product::<u64>().to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

#[test]
fn every_limit_has_its_row_with_its_value() {
    let api = page("http-api.md");
    let rows: Vec<Vec<&str>> = api.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    let limits = source("crates/core/src/limits.rs");
    let mut missing = Vec::new();
    for constant in limits.lines().filter_map(|line| line.strip_prefix("pub const ")) {
        let (name, rest) = constant.split_once(':').unwrap();
        let (_, value) = rest.trim_end_matches(';').split_once("= ").unwrap();
        let (name, value) = (format!("`{name}`"), written_value(value));
        // The value ends at a character that continues no number.
        let has_value = |text: &str| {
            text.match_indices(&value)
                .any(|(at, found)| !text[at + found.len()..].starts_with([',', '_']) || value.starts_with('`'))
        };
        if !rows.iter().any(|row| row.last() == Some(&name.as_str()) && row.len() > 2 && has_value(row[1])) {
            missing.push(format!("{name} = {value}"));
        }
    }
    assert_none("limits without their row and value in http-api.md §12", &missing);
}

#[test]
fn every_endpoint_has_its_section_and_every_section_its_endpoint() {
    let document = schema();
    let mut routed = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let methods = operations.as_object().unwrap().keys().filter(|key| *key != "parameters");
        routed.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let api = page("http-api.md");
    let is_endpoint =
        |span: &&str| span.split_once(" /").is_some_and(|(method, _)| method.bytes().all(|b| b.is_ascii_uppercase()));
    let described: BTreeSet<String> = code_spans(&api).filter(is_endpoint).map(str::to_owned).collect();
    assert!(routed.len() > 20, "{routed:?}");
    let differ: Vec<String> = routed.symmetric_difference(&described).cloned().collect();
    assert_none("endpoints of the route table or of http-api.md only", &differ);
}

#[test]
fn the_table_of_scopes_is_that_of_the_schema() {
    let document = schema();
    let mut needed = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if let Some(scope) = operation["security"][0]["bearer"][0].as_str() {
                needed.insert(format!("{scope}: {} {path}", method.to_uppercase()));
            }
        }
    }
    let api = page("http-api.md");
    let mut listed = BTreeSet::new();
    for scope in ["read", "submit", "work", "admin"] {
        let row = api.lines().find(|line| line.starts_with(&format!("| `{scope}` |"))).unwrap();
        listed.extend(code_spans(cells(row)[1]).map(|endpoint| format!("{scope}: {endpoint}")));
    }
    assert!(needed.len() > 30, "{needed:?}");
    let differ: Vec<String> = needed.symmetric_difference(&listed).cloned().collect();
    assert_none("scopes of endpoints in http-api.md §2.3 or in the schema only", &differ);
}

#[test]
fn cited_sections_exist() {
    let names = ["http-api.md", "filter-language.md", "task-life.md", "errors.md", "invariants.md"];
    let sections_of: Vec<BTreeSet<String>> = names.iter().map(|name| sections(&page(name))).collect();
    let mut broken = Vec::new();
    for (file, text) in written_files() {
        let own = names.iter().position(|name| file == Path::new(PAGES).join(name));
        for (number, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices('§') {
                let section = section_number(&line[at + '§'.len_utf8()..]);
                // The page that was named last before the sign; in a page of the reference also the page itself.
                let before = &line[..at];
                let named = names.iter().enumerate().filter_map(|(page, name)| Some((before.rfind(name)?, page))).max();
                let names_page = named.filter(|(start, _)| own.is_none() || is_beside(&before[*start..]));
                let Some(cited) = names_page.map(|(_, page)| page).or(own) else { continue };
                if !sections_of[cited].contains(section) {
                    broken.push(format!("{}:{}: {} §{section}", file.display(), number + 1, names[cited]));
                }
            }
        }
    }
    assert_none("cited sections that do not exist", &broken);
}

/// Whether nothing but a link, and further sections, stand between the name of a page and the sign of a section.
fn is_beside(between: &str) -> bool {
    let (_, behind) = between.split_once(".md").unwrap_or_default();
    behind.trim_start_matches(')').chars().all(|c| c.is_ascii_digit() || " §.,and".contains(c))
}

/// The names that end in `.md` in a line.
fn cited_documents(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    line.split(move |c| !is_part(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.ends_with(".md") && word.len() > 3)
}

/// Stands for the name of a page that is still to be written.
const PLACEHOLDER: &str = "NNNN-what-was-decided.md";

#[test]
fn every_cited_document_is_in_the_clone() {
    let known = files();
    let decisions: BTreeSet<String> = known
        .iter()
        .filter_map(|file| file.strip_prefix("docs/decisions").ok()?.to_str()?.get(..4).map(str::to_owned))
        .collect();
    let mut broken = Vec::new();
    // The names in this file are parts of pages and examples.
    for (file, text) in written_files().filter(|(file, _)| !file.ends_with("tidy/reference.rs")) {
        let folder = file.parent().unwrap_or(Path::new(""));
        for (number, line) in text.lines().enumerate() {
            let exists = |cited: &&str| {
                let places = [folder, Path::new("")];
                places.iter().any(|place| root().join(place).join(cited.trim_start_matches('/')).is_file())
            };
            let is_url = line.contains("://");
            let lost = cited_documents(line).filter(|cited| !is_url && *cited != PLACEHOLDER && !exists(cited));
            broken.extend(lost.map(|cited| format!("{}:{}: {cited}", file.display(), number + 1)));
            for cited in line.split("decisions/").skip(1) {
                let digits = cited.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
                if digits.is_some_and(|digits| !decisions.contains(digits)) {
                    broken.push(format!("{}:{}: decision {}", file.display(), number + 1, &cited[..4]));
                }
            }
        }
    }
    assert_none("documents that are cited and not in the clone", &broken);
}

/// The documents that tell of the code as it is. The changelog also tells of what is no more.
fn documents() -> impl Iterator<Item = (PathBuf, String)> {
    let is_document = |file: &Path| file.extension().is_some_and(|extension| extension == "md");
    written_files().filter(move |(file, _)| is_document(file) && file != Path::new("CHANGELOG.md"))
}

#[test]
fn source_files_that_documents_name_exist() {
    let known: Vec<String> = files().iter().map(|file| format!("/{}", file.display())).collect();
    let is_source = |span: &&str| {
        let named = span.split("::").next().unwrap_or_default();
        (named.ends_with(".rs") || named.ends_with(".sql")) && !span.contains(['*', '<', ' '])
    };
    let mut broken = Vec::new();
    for (file, text) in documents() {
        for span in text.lines().flat_map(code_spans).filter(is_source) {
            let ending = format!("/{}", span.split("::").next().unwrap_or_default());
            if !known.iter().any(|path| path.ends_with(&ending)) {
                broken.push(format!("{}: {span}", file.display()));
            }
        }
    }
    assert_none("source files that are named in a document and do not exist", &broken);
}

#[test]
fn types_and_functions_that_the_architecture_names_exist() {
    let sources = rust_files();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| text.split(move |c| !is_word(c))).collect();
    let is_name = |span: &&str| {
        let is_type =
            span.starts_with(|c: char| c.is_ascii_uppercase()) && span.contains(|c: char| c.is_ascii_lowercase());
        (span.contains("::") || span.contains('_') || is_type) && span.chars().all(|c| is_word(c) || c == ':')
    };
    let text = source("ARCHITECTURE.md");
    let named = text.lines().flat_map(code_spans).filter(is_name);
    let missing = named.filter(|name| !name.split("::").all(|part| words.contains(part))).map(str::to_owned);
    assert_none("names of ARCHITECTURE.md that no source file knows", &missing.collect::<Vec<_>>());
}

#[test]
fn tests_that_documents_name_exist() {
    let functions: BTreeSet<String> = rust_files()
        .iter()
        .flat_map(|(_, text)| {
            text.split("fn ")
                .skip(1)
                .map(|rest| rest.split(['(', '<']).next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    let mut broken = Vec::new();
    for (file, text) in documents() {
        let mut column = None;
        for line in text.lines() {
            if !line.starts_with('|') {
                column = None;
                continue;
            }
            let row = cells(line);
            let Some(at) = column else {
                // The header of a table says whether it names tests, and where.
                column = Some(row.iter().position(|name| *name == "shown by"));
                continue;
            };
            let Some(cell) = at.and_then(|at: usize| row.get(at)) else { continue };
            let is_test = |span: &&str| {
                span.contains('_')
                    && span.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_*".contains(&b))
            };
            for name in code_spans(cell).filter(is_test).filter(|name| name.matches('_').count() > 1) {
                let found = match name.strip_suffix('*') {
                    Some(start) => functions.iter().any(|function| function.starts_with(start)),
                    None => functions.contains(name),
                };
                if !found {
                    broken.push(format!("{}: {name}", file.display()));
                }
            }
        }
    }
    assert_none("tests that are named in a document and do not exist", &broken);
}

#[test]
fn numbers_and_citations_are_read_as_they_are_written() {
    assert_eq!(written_value("16 * 1_048_576"), "16,777,216");
    assert_eq!(written_value("100"), "100");
    assert_eq!(written_value("\"default\""), "`default`");
    assert_eq!(section_number("7.2)."), "7.2");
    assert_eq!(section_number("12."), "12");
    assert_eq!(cited_documents("see [a](b/c.md), d.md. and (e.md)").collect::<Vec<_>>(), ["b/c.md", "d.md", "e.md"]);
    assert_eq!(sections("## 1. A\n### 1.2 B\n#3 C\n").into_iter().collect::<Vec<_>>(), ["1", "1.2"]);
}
