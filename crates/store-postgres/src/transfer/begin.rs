//! Begins a transfer: connects and makes sure that no server uses the schema.

use std::collections::{BTreeMap, HashMap};

use taskqueue_core::lease::is_longer_than_outage;
use taskqueue_core::limits::OUTAGE_SECONDS;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::transfer::TransferError;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::{ANALYZE, PostgresTransfer};
use crate::address::Address;
use crate::clock::ClockRow;
use crate::failure::{Cause, cause, describe, failed};
use crate::open::{Connector, OpenError};
use crate::session::{Schema, Session, Sql};
use crate::transaction::BLOCK;
use crate::{migrate, open, rows, statements as sql};

/// Tells whether there is a schema of ours. Reads the catalogue, which every role may read.
const HAS_SCHEMA: &str = "SELECT EXISTS (
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
    WHERE pg_namespace.nspname = $1 AND pg_class.relname = 'migrations'
)";

/// One snapshot for everything, without a time limit; a server that scans is waited for only briefly.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '4s'; SET LOCAL jit = off";

fn refused(error: &OpenError) -> TransferError {
    TransferError::Refused(error.to_string())
}

impl PostgresTransfer {
    /// The schema to copy from, which must exist.
    pub async fn source(address: Address, schema: &str) -> Result<Self, TransferError> {
        let connector = Connector::new(address.for_command(), Schema::new(schema)).map_err(|error| refused(&error))?;
        let mut client = connector.open().await.map_err(|error| refused(&error))?;
        if !schema_exists(&client, &connector).await? {
            let hosts = connector.hosts();
            return Err(TransferError::Refused(format!(
                "there is no schema {schema:?} of ours at {hosts}; check its name"
            )));
        }
        Self::begin(&connector, &mut client).await
    }

    /// The schema to copy to, which is created if it does not exist.
    pub async fn target(address: Address, schema: &str) -> Result<Self, TransferError> {
        let connector = Connector::new(address.for_command(), Schema::new(schema)).map_err(|error| refused(&error))?;
        let mut client = connector.open().await.map_err(|error| refused(&error))?;
        let weaknesses = open::weaknesses(&client).await;
        for weakness in weaknesses.map_err(|error| failed("reading settings", &error))? {
            tracing::warn!("THE TARGET MAY LOSE ACKNOWLEDGED WRITES: {weakness}");
        }
        Self::begin(&connector, &mut client).await
    }

    async fn begin(connector: &Connector, client: &mut Client) -> Result<Self, TransferError> {
        let (schema, hosts) = (connector.schema(), connector.hosts());
        migrate::migrate(client, schema, &hosts).await.map_err(|error| refused(&error))?;
        let statements: Vec<&'static Sql> = sql::WRITER.iter().chain(sql::TRANSFER).copied().collect();
        let session = connector.session(&statements).await.map_err(|error| error.to_store_error("connecting"))?;
        session.begin(BEGIN).await.map_err(|error| failed("beginning", &error))?;
        let (offset_micros, first) = lock_clock(&session, schema, &hosts).await?;
        let mut transfer = Self {
            session,
            analyze: schema.apply(ANALYZE),
            queues: BTreeMap::new(),
            keys: HashMap::new(),
            numbers: first..first + BLOCK,
            offset_micros,
            last_number: 0,
        };
        transfer.load_queues().await?;
        Ok(transfer)
    }
}

async fn schema_exists(client: &Client, connector: &Connector) -> Result<bool, TransferError> {
    let asked = client.query_typed(HAS_SCHEMA, &[(&connector.schema().name(), Type::TEXT)]).await;
    let found = asked.map_err(|error| TransferError::Refused(describe(&error)))?;
    Ok(found.first().map(|row| rows::get(row, 0)).transpose().map_err(StoreError::from)?.unwrap_or(false))
}

/// Locks the clock, unless a server has recently scanned the leases and is therefore running. Returns the offset of the
/// clock, and the first number of a block.
async fn lock_clock(session: &Session, schema: &Schema, hosts: &str) -> Result<(i64, i64), TransferError> {
    let in_use = || {
        let name = schema.name();
        TransferError::Refused(format!(
            "a server used schema {name:?} at {hosts} less than {OUTAGE_SECONDS} s ago; stop every server on it, wait \
             {OUTAGE_SECONDS} seconds and try again"
        ))
    };
    let row = match session.first(&sql::LOCK_CLOCK, &[]).await {
        Ok(row) => row.ok_or(StoreError::Unavailable)?,
        // A scan is running, or has run while we waited for the lock.
        Err(error) if matches!(cause(&error), Cause::Busy | Cause::Conflict) => return Err(in_use()),
        Err(error) => return Err(failed("checking for running servers", &error).into()),
    };
    let ClockRow { micros, offset_micros, last_scan_at, .. } = rows::clock(&row).map_err(StoreError::from)?;
    let first = rows::get(&row, "first_number").map_err(StoreError::from)?;
    let now = Timestamp::from_micros(micros.saturating_add(offset_micros));
    // A last scan far in the future is as little a sign of a running server as one long ago: the clock was set back.
    if last_scan_at.is_some_and(|last| !is_longer_than_outage(last, now) && !is_longer_than_outage(now, last)) {
        return Err(in_use());
    }
    Ok((offset_micros, first))
}
