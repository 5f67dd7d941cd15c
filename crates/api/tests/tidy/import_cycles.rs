//! The modules of a crate do not import each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{assert_none, is_test_file, rust_files, split_tests};

/// The crates whose top-level modules have an order.
const ORDERED: [&str; 4] = ["core", "api", "client", "dashboard"];

/// The top-level modules of a crate, each with those that it names.
fn imports(package: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in rust_files() {
        let Ok(inside) = file.strip_prefix(Path::new("crates").join(package).join("src")) else { continue };
        if is_test_file(inside) {
            continue;
        }
        let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let named = imports.entry(first.trim_end_matches(".rs").to_owned()).or_default();
        let code = split_tests(&text).0.lines().filter(|line| !line.trim_start().starts_with("//"));
        for path in code.flat_map(|line| line.split("crate::").skip(1)) {
            // One module, or several between braces.
            let modules = path.strip_prefix('{').map_or(vec![path], |list| list.split(", ").collect());
            for module in modules {
                let end = module.find(|character: char| !character.is_alphanumeric() && character != '_');
                named.insert(module[..end.unwrap_or(module.len())].to_owned());
            }
        }
    }
    assert!(imports.values().any(|named| !named.is_empty()), "imports are not found any more");
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
fn modules_import_each_other_in_no_circle() {
    for package in ORDERED {
        let imports = imports(package);
        let circular = imports.keys().filter(|module| reaches(&imports, module, module, &mut BTreeSet::new()));
        let rule = format!("modules of {package} in a circle of imports");
        assert_none(&rule, &circular.cloned().collect::<Vec<_>>());
    }
}
