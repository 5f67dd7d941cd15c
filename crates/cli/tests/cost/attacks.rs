//! The attacks, one file per family. A new one prepares its data and says which requests it sends (`harness::Attack`).

mod bulk_updates;
mod fuzzy_names;
mod harness;
mod large_documents;
mod many_rows;
mod probes;
