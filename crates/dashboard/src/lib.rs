//! The pages that a browser shows, rendered on the server from templates in files. They read and act through the store, as the
//! handlers of the API do; no rule about tasks and no SQL lives here. The server mounts [`router()`] under `/ui/`, decides who may
//! look, and tells it what only a server knows ([`Host`]).
//!
//! The address is the state: what a page shows follows from its path and query and from who looks, so every view can be kept and
//! sent. Without JavaScript everything can be read and done; the scripts in `assets/` only make it quicker.

mod address;
mod answer;
mod attention;
mod columns;
mod cookies;
mod field;
mod host;
mod json_field;
mod layout;
mod pages;
mod problem;
mod router;
mod selected;
mod shared_figures;
mod show;
mod state;
mod task_fields;
mod visit;

pub use cookies::sent_sessions;
pub use host::{Host, HostFigures, Mode, SessionCookie, SignInRefusal, Viewer};
pub use router::{problem_page, router};
