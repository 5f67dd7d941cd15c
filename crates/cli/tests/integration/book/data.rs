//! Blocks of JSON and TOML can be parsed.

use serde_json::Value;

use super::pages;

#[test]
fn blocks_of_data_can_be_parsed() {
    let mut broken = Vec::new();
    for page in pages::of_the_book().into_iter().chain([pages::Page::read("README.md")]) {
        for block in page.blocks() {
            let json = |text: &str| serde_json::from_str::<Value>(text).map(drop).map_err(|error| error.to_string());
            let parsed = match block.language.as_str() {
                "json" => json(&block.text),
                "jsonl" => block.text.lines().try_for_each(json),
                "toml" => toml::from_str::<toml::Table>(&block.text).map(drop).map_err(|error| error.to_string()),
                _ => Ok(()),
            };
            broken.extend(parsed.err().map(|error| format!("{}:{}: {error}", page.path, block.line)));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
