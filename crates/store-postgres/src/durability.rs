//! Settings of the server, the database or the role with which PostgreSQL may lose confirmed commits. They are reported,
//! not refused.

use tokio_postgres::{Client, Error};

/// Setting, weak value, and its risk.
const WEAK: &[(&str, &str, &str)] = &[
    ("fsync", "off", "the whole database can be lost or damaged when its machine crashes"),
    ("full_page_writes", "off", "the database can be damaged when its machine crashes in the middle of a write"),
    ("synchronous_commit", "off", "the latest acknowledged writes are lost when the database server crashes"),
];

/// The weak settings of this connection, each with its risk.
pub(crate) async fn weaknesses(client: &Client) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (name, weak, risk) in WEAK {
        let rows = client.query_typed(&format!("SELECT current_setting('{name}')"), &[]).await?;
        let value: Option<String> = rows.first().map(|row| row.try_get(0)).transpose()?;
        if value.is_some_and(|value| value == *weak) {
            found.push(format!("{name}={weak}: {risk}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod tests;
