//! The list of shapes lacks no operation of `/openapi.json` and no field of their requests, no page of the dashboard, and no largest value;
//! and each read says what it finds.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, iter};

use serde_json::{Value, json};

use super::fields::{self, Place, Size};
use super::operations::OPERATIONS;
use super::pages::{HIDDEN, NOT_PAGES, PAGES};
use super::shape::{Before, Least, Shape, World};
use super::world::stored;

/// The document at `/openapi.json`, which a test of the server compares with this.
const DOCUMENT: &str = include_str!("../../../server/tests/integration/snapshots/integration__openapi__openapi.snap");

/// Operations by method and path, each with an empty name and the names of its fields, as the list of shapes writes them.
type Fields = BTreeSet<(String, String)>;

/// Names what the document has and the list of shapes has not, and the other way round.
fn differences(document: &Value) -> Vec<String> {
    let (listed, described) = (listed(OPERATIONS), described(document));
    // An object or a list is there if something in it is.
    let is_listed = |(operation, field): &(String, String)| {
        let inside = format!("{field}.");
        listed.iter().any(|(of, name)| of == operation && (name == field || name.starts_with(&inside)))
    };
    let missing = described.iter().filter(|field| !is_listed(field)).map(|(operation, field)| match field.as_str() {
        "" => format!("{operation}: no row in shapes/operations.rs"),
        field => format!("{operation}: no row has the field {field}"),
    });
    let gone = listed.difference(&described).map(|(operation, field)| match field.as_str() {
        "" => format!("{operation}: not in /openapi.json"),
        field => format!("{operation}: /openapi.json has no field {field}"),
    });
    missing.chain(gone).collect()
}

fn listed(shapes: &[Shape]) -> Fields {
    let names = |shape: &Shape| iter::once(String::new()).chain(shape.fields().into_iter().map(|field| field.name));
    let of = |shape: &Shape| format!("{} {}", shape.method, shape.path);
    shapes.iter().flat_map(|shape| names(shape).map(move |name| (of(shape), name))).collect()
}

fn described(document: &Value) -> Fields {
    let mut described = Fields::new();
    for (path, item) in members(&document["paths"]) {
        for (method, operation) in members(item) {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let named =
                parameters.filter_map(|parameter| match (parameter["in"].as_str()?, parameter["name"].as_str()?) {
                    ("query", name) => Some(format!("?{name}")),
                    ("header", name) => Some(format!("{name}:")),
                    // Those of the path are always as long as can be.
                    _ => None,
                });
            let mut fields: BTreeSet<String> = named.chain([String::new()]).collect();
            for (_, content) in members(&operation["requestBody"]["content"]) {
                add_properties(document, &content["schema"], "", &mut Vec::new(), &mut fields);
            }
            let name = format!("{} {path}", method.to_uppercase());
            described.extend(fields.into_iter().map(|field| (name.clone(), field)));
        }
    }
    described
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// Adds all properties of a schema, with those of its properties.
fn add_properties<'d>(
    document: &'d Value,
    schema: &'d Value,
    path: &str,
    above: &mut Vec<&'d str>,
    fields: &mut BTreeSet<String>,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        // A schema that contains itself is not followed again.
        if !above.contains(&reference) {
            above.push(reference);
            let target = document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
            add_properties(document, target, path, above, fields);
            above.pop();
        }
        return;
    }
    for choice in ["oneOf", "anyOf", "allOf"].iter().flat_map(|word| schema[word].as_array()).flatten() {
        add_properties(document, choice, path, above, fields);
    }
    for (name, property) in members(&schema["properties"]) {
        fields.insert(format!("{path}{name}"));
        add_properties(document, property, &format!("{path}{name}."), above, fields);
    }
    if schema["items"].is_object() {
        add_properties(document, &schema["items"], &format!("{path}[]"), above, fields);
    }
    if schema["additionalProperties"].is_object() && !path.is_empty() {
        fields.insert(format!("{path}*"));
        add_properties(document, &schema["additionalProperties"], &format!("{path}*."), above, fields);
    }
}

/// The dashboard has no document of its routes; this is its table.
const DASHBOARD_ROUTER: &str = include_str!("../../../dashboard/src/router.rs");
/// The pages that list the parameters of their addresses, and where they do.
const LISTED_PARAMETERS: [(&str, &str); 2] = [
    ("/ui/queues/{queue}/tasks", include_str!("../../../dashboard/src/pages/tasks/view.rs")),
    ("/ui/queues/{queue}/compare", include_str!("../../../dashboard/src/pages/compare/view.rs")),
];

/// Names what differs from the routes of the dashboard, and from the parameters of the pages that list theirs.
fn page_differences() -> Vec<String> {
    let routes = routes(DASHBOARD_ROUTER).into_iter().filter(|(_, path)| !NOT_PAGES.contains(&path.as_str()));
    let routes: BTreeSet<String> = routes.map(|(method, path)| format!("{method} {path}")).collect();
    let listed: BTreeSet<String> = listed(PAGES).into_iter().map(|(page, _)| page).collect();
    let missing = routes.difference(&listed).map(|page| format!("{page}: no row in shapes/pages.rs"));
    let gone = listed.difference(&routes).map(|page| format!("{page}: no route of the dashboard"));
    missing
        .chain(gone)
        .chain(LISTED_PARAMETERS.iter().flat_map(|(path, text)| parameter_differences(path, text)))
        .collect()
}

fn parameter_differences(path: &str, text: &str) -> Vec<String> {
    let rows = PAGES.iter().filter(|shape| (shape.method, shape.path) == ("GET", path));
    let listed: BTreeSet<String> = rows.flat_map(Shape::fields).map(|field| field.name).collect();
    let read = listed_parameters(text).into_iter().map(|name| format!("?{name}"));
    read.filter(|name| !listed.contains(name))
        .map(|name| format!("GET {path}: no row has the parameter {name}"))
        .collect()
}

/// The names in the constant that lists the parameters of a page.
fn listed_parameters(text: &str) -> Vec<&str> {
    let list = text.split("const PARAMETERS: ").nth(1).and_then(|rest| rest.split(';').nth(1)).unwrap_or_default();
    // Between two names there is a comma.
    list.split('"').skip(1).step_by(2).collect()
}

/// The routes in the text of a route table.
fn routes(text: &str) -> Vec<(String, String)> {
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    let sign_in = text.split("SIGN_IN: &str = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let mut routes = Vec::new();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix(".route(")) {
        let path = match line.strip_prefix('"') {
            Some(rest) => rest.split('"').next().unwrap_or_default(),
            None if line.starts_with("SIGN_IN") => sign_in,
            // Files of the program.
            None => continue,
        };
        for method in ["get", "post"] {
            if line.contains(&format!(" {method}(")) || line.contains(&format!(".{method}(")) {
                routes.push((method.to_uppercase(), path.to_owned()));
            }
        }
    }
    routes
}

/// How the dashboard reads a parameter or a field by its name.
const READS: [&str; 4] = ["get", "has", "filled", "all"];

#[test]
fn every_operation_and_every_field_of_the_api_is_in_a_row() {
    let json = DOCUMENT.splitn(3, "---\n").nth(2).unwrap();
    assert_eq!(differences(&serde_json::from_str(json).unwrap()), Vec::<String>::new());
}

#[test]
fn every_field_has_a_largest_value_and_every_read_says_what_it_finds() {
    let place = Place { cursor: Some(String::new()), ..stored(World::Large, Size::Small) };
    for shape in OPERATIONS.iter().chain(PAGES) {
        // A read finds what was stored before it.
        let finds_something = shape.method == "GET" && shape.before != Before::Nothing;
        assert!(!finds_something || shape.least != Least::Anything, "{} does not say what it finds", shape.name());
        for field in shape.fields() {
            let has_value = field.key.starts_with('\'') || field.name.ends_with('*');
            assert!(
                has_value || fields::largest(field.key, &place).is_some(),
                "{}: no largest value of {} in shapes/fields.rs",
                shape.name(),
                field.name
            );
        }
    }
}

#[test]
fn every_page_of_the_dashboard_is_a_shape() {
    assert_eq!(page_differences(), Vec::<String>::new());
    assert!(routes(DASHBOARD_ROUTER).len() > 30, "the route table has another form");
    for (path, text) in LISTED_PARAMETERS {
        assert!(listed_parameters(text).len() > 5, "the parameters of {path} are listed in another form");
    }
    let lacking = parameter_differences("/ui/queues/{queue}/compare", r#"const PARAMETERS: [&str; 2] = ["x", "new"];"#);
    assert_eq!(lacking, ["GET /ui/queues/{queue}/compare: no row has the parameter ?new"]);
}

/// Other pages read their parameters and the fields of their forms one by one, wherever they need them. So this says only that there
/// is some row with each name.
#[test]
fn every_name_that_the_dashboard_reads_is_in_a_row() {
    let mut listed: BTreeSet<String> = PAGES.iter().flat_map(Shape::fields).map(|field| field.name).collect();
    listed.extend(HIDDEN.map(|name| format!("&{name}")));
    let read = names_read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboard/src"));
    assert!(read.len() > 40, "parameters are read in another way: {read:?}");
    let has = |name: &String| listed.contains(&format!("?{name}")) || listed.contains(&format!("&{name}"));
    let lacking: Vec<&String> = read.iter().filter(|name| !has(name)).collect();
    assert!(lacking.is_empty(), "no row in shapes/pages.rs has {lacking:?}");
}

/// The texts in quotes where a parameter or a field is read.
fn names_read(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            names.extend(names_read(&entry));
            continue;
        }
        let text = fs::read_to_string(&entry).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String = code.split_whitespace().collect();
        let reads = ["query", "form"].iter().flat_map(|from| READS.map(|way| format!("{from}.{way}(\"")));
        let reads = reads.chain(["Field::of(form,\"", "Field::of(&form,\""].map(str::to_owned));
        for read in reads {
            names.extend(code.split(&read).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }
    names
}

#[test]
fn a_new_operation_and_a_new_field_are_named() {
    let document = json!({
        "paths": {
            "/livez": {"get": {"parameters": [{"in": "query", "name": "deep"}]}},
            "/new": {"post": {}},
            "/api/v2/queues/{queue}/workers/{id}/telemetry": {"post": {"requestBody": {"content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/T"}
            }}}}},
        },
        "components": {"schemas": {"T": {"properties": {
            "telemetry": {"type": "object"},
            "list": {"items": {"oneOf": [{"properties": {"inner": {"$ref": "#/components/schemas/T"}}}]}},
        }}}},
    });
    let named = differences(&document);
    let telemetry = "POST /api/v2/queues/{queue}/workers/{id}/telemetry: no row has the field";
    for expected in [
        "GET /livez: no row has the field ?deep".to_owned(),
        "POST /new: no row in shapes/operations.rs".to_owned(),
        format!("{telemetry} list"),
        format!("{telemetry} list.[]inner"),
        "GET /health: not in /openapi.json".to_owned(),
    ] {
        assert!(named.contains(&expected), "{expected}: {named:#?}");
    }
}
