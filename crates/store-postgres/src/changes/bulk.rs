//! What a bulk update writes: values that many tasks get, each sent once.

use taskqueue_core::json::JsonObject;
use taskqueue_core::update::Documents;
use tokio_postgres::types::ToSql;

use super::{Changes, DefinitionRow, Name, Write};
use crate::session::Sql;
use crate::statements as sql;
use crate::transaction_rows::BulkValues;

/// The values that a bulk update gives to many tasks.
pub(super) struct BulkWrite<'a> {
    values: &'a BulkValues,
    args: Option<&'a str>,
    metadata: Option<&'a str>,
    result: Option<&'a str>,
}

impl<'a> Changes<'a> {
    pub(super) fn add_bulk_values(&mut self, values: &'a BulkValues) {
        let update = &values.update;
        let text = |json: &'a Option<JsonObject>| json.as_ref().map(JsonObject::as_str);
        let name = update.name.as_ref().and_then(Option::as_deref);
        values.names.iter().for_each(|key| self.names.push(Name { key: *key, name }));
        for (key, Documents { args, metadata }) in &values.merged {
            self.definitions.push(DefinitionRow { key: *key, args: args.as_str(), metadata: metadata.as_str() });
        }
        let mut result = text(&update.result);
        if update.result.as_ref().is_some_and(JsonObject::is_empty_object) {
            self.cleared_results.extend(&values.results);
            result = None;
        }
        self.bulk = Some(BulkWrite { values, args: text(&update.args), metadata: text(&update.metadata), result });
    }
}

impl BulkWrite<'_> {
    pub(super) fn writes(&self) -> [Option<Write<'_>>; 3] {
        [
            write_one(&sql::SAVE_ONE_ARGS, &self.values.args, &self.args),
            write_one(&sql::SAVE_ONE_METADATA, &self.values.metadata, &self.metadata),
            write_one(&sql::SAVE_ONE_RESULT, &self.values.results, &self.result),
        ]
    }
}

/// A statement that gives one value to the tasks with these keys, if there are any.
fn write_one<'a>(sql: &'static Sql, keys: &'a Vec<i64>, value: &'a Option<&'a str>) -> Option<Write<'a>> {
    let params: Vec<&(dyn ToSql + Sync)> = vec![keys, value];
    (!keys.is_empty() && value.is_some()).then_some((sql, params))
}
