//! The attacks, one file per family. A new one implements `harness::Attack`: its data and its requests.

mod bulk_updates;
mod fuzzy_names;
mod harness;
mod large_batches;
mod large_documents;
mod many_rows;
mod probes;
