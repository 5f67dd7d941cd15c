//! Lists the tests of the conformance suite for the backends: whatever the files beside this one declare, so that no list is kept by
//! hand and no test is forgotten.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "so a build script speaks, and fails by panicking")]

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// What not every storage promises: its tests name these modules one by one.
const SPECIAL: [&str; 6] = ["bulk", "bulk_portions", "durability", "kept_secret", "long_reads", "saved_activity"];

/// The names of the functions of a file that take this and nothing else.
fn tests<'a>(source: &'a str, parameter: &str) -> Vec<&'a str> {
    let functions = source.split("\npub async fn ").skip(1).filter_map(|function| function.split_once('('));
    let takes = |rest: &str| rest.split(')').next().unwrap().trim().trim_end_matches(',') == parameter;
    functions.filter(|(_, rest)| takes(rest)).map(|(name, _)| name).collect()
}

fn main() {
    if env::var_os("CARGO_FEATURE_CONFORMANCE").is_none() {
        return;
    }
    let folder = "src/conformance";
    println!("cargo::rerun-if-changed={folder}");
    let (mut modules, mut suite, mut count) = (String::new(), String::new(), 0);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        let (source, module) = (fs::read_to_string(file).unwrap(), file.file_stem().unwrap().to_string_lossy());
        let kinds = [("", "fixture: Fixture"), (" on storage", "storage: &impl Storage")];
        let found = kinds.map(|(on, parameter)| (on, tests(&source, parameter)));
        assert!(
            found.iter().any(|(_, names)| names.is_empty()),
            "{module} has tests of both kinds: one list would hide the other"
        );
        for (on, names) in found.iter().filter(|(_, names)| !names.is_empty()) {
            count += names.len();
            let list = format!("{module} {{ {} }}", names.join(" "));
            writeln!(modules, "($fresh:ident {module}) => {{ $crate::conformance_tests! {{ $fresh{on}; {list} }} }};")
                .unwrap();
            if !SPECIAL.contains(&&*module) {
                write!(suite, "$crate::conformance_module!($fresh {module}); ").unwrap();
            }
        }
    }
    assert!(count >= 276, "only {count} tests were found");
    let list =
        |name: &str, arms: &str| format!("#[doc(hidden)]\n#[macro_export]\nmacro_rules! {name} {{\n{arms}\n}}\n");
    let suite = list("conformance_suite", &format!("($fresh:ident) => {{ {suite} }};"));
    let out = env::var_os("OUT_DIR").unwrap();
    fs::write(Path::new(&out).join("conformance_tests.rs"), list("conformance_module", &modules) + &suite).unwrap();
}
