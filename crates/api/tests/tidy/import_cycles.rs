//! The modules of `core` do not import each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{assert_none, is_test_file, rust_files, split_tests};

/// The top-level modules of `core`, each with those that it names.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in rust_files() {
        let Ok(inside) = file.strip_prefix(Path::new("crates/core/src")) else { continue };
        if is_test_file(inside) {
            continue;
        }
        let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let named = imports.entry(first.trim_end_matches(".rs").to_owned()).or_default();
        let code = split_tests(&text).0.lines().filter(|line| !line.trim_start().starts_with("//"));
        for path in code.flat_map(|line| line.split("crate::").skip(1)) {
            let end = path.find(|character: char| !character.is_alphanumeric() && character != '_');
            named.insert(path[..end.unwrap_or(path.len())].to_owned());
        }
    }
    assert!(imports["lifecycle"].contains("task"), "imports are not found any more");
    imports
}

fn reaches(imports: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
    imports.get(from).is_some_and(|named| {
        named
            .iter()
            .filter(|next| *next != from)
            .any(|next| next == to || (seen.insert(next.clone()) && reaches(imports, next, to, seen)))
    })
}

#[test]
fn the_modules_of_core_import_each_other_in_no_circle() {
    let imports = imports();
    let circular = imports.keys().filter(|module| reaches(&imports, module, module, &mut BTreeSet::new()));
    assert_none("modules of core in a circle of imports", &circular.cloned().collect::<Vec<_>>());
}
