//! The pages that a browser shows, rendered on the server from templates in files. They read and act through the store, as the
//! handlers of the API do; no rule about tasks and no SQL lives here. The server mounts [`router()`] under `/ui/`, decides who may
//! look, and tells it what only a server knows ([`Host`]).
//!
//! The address is the state: what a page shows follows from its path and query and from who looks, so every view can be kept and
//! sent. Without JavaScript everything can be read and done; the scripts in `assets/` only make it quicker.

mod address;
mod assets;
mod attention;
mod columns;
mod cookies;
mod elsewhere;
mod field;
mod filter_mark;
mod form;
mod held_body;
mod host;
mod json_field;
mod layout;
mod looks;
mod mode;
mod notice;
mod outlook;
mod pages;
mod problem;
mod refresh;
mod router;
mod selected;
mod shared_figures;
mod show;
mod state;
mod time_field;
mod viewer;
mod visit;
mod waiting_fields;

pub use cookies::sent_sessions;
pub use host::{Host, HostFigures, SessionCookie, SignInRefusal};
pub use mode::Mode;
pub use router::{problem_page, router};
pub use state::Dashboard;
pub use viewer::{Access, Viewer};
