//! Whether the database keeps what it has confirmed: settings of the server, the database or the role that trade that
//! for speed. Nothing is refused because of them; whoever runs the service is told.

use tokio_postgres::{Client, Error};

/// Settings, the value that is weak, and what it means.
const WEAK: &[(&str, &str, &str)] = &[
    ("fsync", "off", "the whole database can be lost or damaged when its machine crashes"),
    ("full_page_writes", "off", "the database can be damaged when its machine crashes in the middle of a write"),
    ("synchronous_commit", "off", "the latest acknowledged writes are lost when the database server crashes"),
];

/// What this connection's settings risk, each in one sentence; nothing if all is well.
pub(crate) async fn weaknesses(client: &Client) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (name, weak, meaning) in WEAK {
        let rows = client.query_typed(&format!("SELECT current_setting('{name}')"), &[]).await?;
        let value: Option<String> = rows.first().map(|row| row.try_get(0)).transpose()?;
        if value.is_some_and(|value| value == *weak) {
            found.push(format!("{name}={weak}: {meaning}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "durability_tests.rs"]
mod tests;
