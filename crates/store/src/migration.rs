//! Migrations: numbered SQL files in the program, applied forward only. A database records the number, the name and the
//! checksum of each one that was applied. What fits is decided here; each backend applies them its own way (`migrate.rs`).

use sha2::{Digest, Sha256};

/// A migration of this program. One that was released never changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

impl Migration {
    /// The SHA-256 of its text, in hexadecimal digits.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A migration as a database has recorded it.
#[derive(Debug)]
pub struct AppliedMigration {
    pub version: i64,
    pub name: String,
    pub checksum: String,
}

/// Why this program cannot use a database, with the migration that shows it.
#[derive(Debug, PartialEq, Eq)]
pub enum SchemaMismatch {
    /// It has a migration that this program does not know.
    Newer(String),
    /// It has another migration than this program.
    Changed(String),
}

/// The migrations that are still to be applied. Those that were applied, in the order of their versions, must be the first
/// ones of this program.
pub fn unapplied<'a>(known: &'a [Migration], applied: &[AppliedMigration]) -> Result<&'a [Migration], SchemaMismatch> {
    for (index, AppliedMigration { version, name, checksum }) in applied.iter().enumerate() {
        let Some(expected) = known.get(index) else {
            return Err(SchemaMismatch::Newer(format!("schema version {version}")));
        };
        if (expected.version, expected.name, expected.checksum()) != (*version, name.as_str(), checksum.clone()) {
            return Err(SchemaMismatch::Changed(format!("migration {version} {name}")));
        }
    }
    Ok(&known[applied.len()..])
}

/// Declares a list of columns, and for each a constant with its position in a row in which the list begins at `from`.
///
/// ```
/// mod rows {
///     taskqueue_store::columns! { COLUMNS from 0; ID = "tasks.id", STATUS = "tasks.status" }
///     pub fn positions() -> [usize; 2] {
///         [ID, STATUS]
///     }
/// }
/// assert_eq!(rows::COLUMNS.join(", "), "tasks.id, tasks.status");
/// assert_eq!(rows::positions(), [0, 1]);
/// ```
#[macro_export]
macro_rules! columns {
    ($list:ident from $first:expr; $($position:ident = $column:literal),+ $(,)?) => {
        pub(crate) const $list: &[&str] = &[$($column),+];
        $crate::columns!(@positions $first; $($position)+);
    };
    (@positions $next:expr; $position:ident $($rest:ident)*) => {
        pub(crate) const $position: usize = $next;
        $crate::columns!(@positions $position + 1; $($rest)*);
    };
    (@positions $next:expr;) => {};
}

/// Implements [`TaskFields`](taskqueue_core::filter::TaskFields) for a row of a task, by how it is asked for each field. What the
/// row does not say reads as empty.
#[macro_export]
macro_rules! task_fields {
    ($row:ty; routes from $routes:ident; $($field:ident: $type:ty = $ask:expr;)+) => {
        impl taskqueue_core::filter::TaskFields for $row {
            fn routes(&self) -> impl Iterator<Item = &str> {
                taskqueue_core::definition::routes_of(self.$routes())
            }
            $(fn $field(&self) -> $type {
                let ask: fn(&Self) -> $type = $ask;
                ask(self)
            })+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Migration] =
        &[Migration { version: 1, name: "initial", sql: "A" }, Migration { version: 2, name: "runs", sql: "B" }];

    fn applied(migrations: &[Migration]) -> Vec<AppliedMigration> {
        let record = |migration: &Migration| AppliedMigration {
            version: migration.version,
            name: migration.name.to_owned(),
            checksum: migration.checksum(),
        };
        migrations.iter().map(record).collect()
    }

    #[test]
    fn what_was_not_applied_yet_follows_what_was() {
        for count in 0..=KNOWN.len() {
            assert_eq!(unapplied(KNOWN, &applied(&KNOWN[..count])), Ok(&KNOWN[count..]));
        }
        assert_eq!(KNOWN[0].checksum(), "559aead08264d5795d3909718cdd05abd49572e84fe55590eef31a88a08fdffd");
    }

    #[test]
    fn a_newer_and_a_changed_schema_do_not_fit() {
        let mut newer = applied(KNOWN);
        newer.push(AppliedMigration { version: 3, name: "next".into(), checksum: "x".into() });
        assert_eq!(unapplied(KNOWN, &newer), Err(SchemaMismatch::Newer("schema version 3".into())));
        let changes: [fn(&mut AppliedMigration); 3] = [
            |migration| migration.version = 7,
            |migration| migration.name = "first".into(),
            |migration| migration.checksum = "x".into(),
        ];
        for change in changes {
            let mut changed = applied(KNOWN);
            change(&mut changed[0]);
            assert!(matches!(unapplied(KNOWN, &changed), Err(SchemaMismatch::Changed(_))));
        }
    }
}
