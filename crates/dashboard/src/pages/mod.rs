//! The pages, one module for each: it reads what it shows, and its template in `templates/` shows it.

pub(crate) mod compare;
pub(crate) mod overview;
pub(crate) mod routes;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod submit;
pub(crate) mod system;
pub(crate) mod task;
pub(crate) mod tasks;
pub(crate) mod workers;
