//! Counts requests by method, path template and status, and how long they took. Every request passes here, so this is a fixed
//! table: a few relaxed additions, and nothing is allocated or waited for. No label comes from a client.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Method;
use taskqueue_api::{ErrorCode, paths};
use taskqueue_store::histogram::{Histogram, HistogramValues};

/// The methods that are counted apart.
const METHODS: [&str; 8] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "other"];
/// The statuses that the server gives, sorted; others are `other`.
const STATUSES: [u16; 19] =
    [200, 201, 204, 303, 304, 400, 401, 403, 404, 405, 408, 409, 413, 414, 415, 422, 431, 500, 503];
/// Every template, one for all pages of the dashboard, and one for all paths that fit none.
const PATHS: usize = paths::ALL.len() + 2;
const PAGES: &str = "/ui/";
const UNMATCHED: &str = "unmatched";
const OTHER: &str = "other";

/// From a read that finds everything in memory to one that waited for the storage.
const MICROS_BOUNDS: [u64; 9] = [500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000, 5_000_000];

/// The counts of all requests.
pub(crate) struct RequestCounts {
    /// By path, then by method.
    endpoints: Box<[[Endpoint; METHODS.len()]]>,
    /// In the order of [`ErrorCode::ALL`].
    errors: [AtomicU64; ErrorCode::ALL.len()],
}

struct Endpoint {
    /// In the order of [`STATUSES`], and then all others.
    statuses: [AtomicU64; STATUSES.len() + 1],
    durations: Histogram<9>,
}

/// The kind of a path, the only part of it that is counted and logged: the place of its template in `paths::ALL`, or one of two behind
/// these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathTemplate(usize);

impl PathTemplate {
    /// Any page of the dashboard.
    const PAGE: Self = Self(PATHS - 2);
    pub(crate) const UNMATCHED: Self = Self(PATHS - 1);

    pub(crate) fn of(path: &str) -> Self {
        let other = || if path.starts_with(PAGES) { Self::PAGE } else { Self::UNMATCHED };
        paths::template_place(path).map_or_else(other, Self)
    }

    /// Its place in [`paths::ALL`], or behind them.
    pub(crate) fn place(self) -> usize {
        self.0
    }

    pub(crate) fn as_str(self) -> &'static str {
        let other = if self == Self::PAGE { PAGES } else { UNMATCHED };
        paths::ALL.get(self.0).copied().unwrap_or(other)
    }
}

/// The requests of one method and path.
pub(crate) struct EndpointValues {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Statuses that were given, and how often.
    pub(crate) statuses: Vec<(String, u64)>,
    pub(crate) seconds: HistogramValues,
}

impl Default for RequestCounts {
    fn default() -> Self {
        let endpoint =
            || Endpoint { statuses: array::from_fn(|_| AtomicU64::new(0)), durations: Histogram::new(&MICROS_BOUNDS) };
        let endpoints = (0..PATHS).map(|_| array::from_fn(|_| endpoint())).collect();
        Self { endpoints, errors: array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl RequestCounts {
    /// Counts an answered request; there is no method if its head was not understood.
    pub(crate) fn count(
        &self,
        method: Option<&Method>,
        template: PathTemplate,
        status: u16,
        code: Option<ErrorCode>,
        busy: Duration,
    ) {
        let named = method.map_or(OTHER, Method::as_str);
        let method = METHODS.iter().position(|known| *known == named).unwrap_or(METHODS.len() - 1);
        let Some(endpoint) = self.endpoints.get(template.0).map(|methods| &methods[method]) else { return };
        let status = STATUSES.binary_search(&status).unwrap_or(STATUSES.len());
        endpoint.statuses[status].fetch_add(1, Ordering::Relaxed);
        endpoint.durations.add(u64::try_from(busy.as_micros()).unwrap_or(u64::MAX));
        if let Some(code) = code {
            self.errors[code as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the methods and paths that were asked for.
    pub(crate) fn endpoints(&self) -> Vec<EndpointValues> {
        let shown_paths = paths::ALL.into_iter().chain([PAGES, UNMATCHED]);
        let places = shown_paths.zip(&self.endpoints).flat_map(|(path, methods)| {
            METHODS.into_iter().zip(methods).map(move |(method, endpoint)| (method, path, endpoint))
        });
        let values = places.map(|(method, path, endpoint)| {
            let (statuses, seconds) = (endpoint.statuses(), endpoint.durations.read(1e6));
            EndpointValues { method, path, statuses, seconds }
        });
        values.filter(|endpoint| !endpoint.statuses.is_empty()).collect()
    }

    /// Returns all requests, and those whose status was from 500 on.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let statuses = STATUSES.into_iter().chain([0]);
        let endpoints = self.endpoints.iter().flatten();
        let counted = endpoints.flat_map(|endpoint| statuses.clone().zip(&endpoint.statuses));
        counted.fold((0, 0), |(all, failures), (status, count)| {
            let count = count.load(Ordering::Relaxed);
            (all + count, failures + if status >= 500 { count } else { 0 })
        })
    }

    /// Returns every error code and how often it was given.
    pub(crate) fn errors(&self) -> Vec<(&'static str, u64)> {
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        ErrorCode::ALL.into_iter().map(ErrorCode::as_str).zip(counts).collect()
    }
}

impl Endpoint {
    fn statuses(&self) -> Vec<(String, u64)> {
        let names = STATUSES.iter().map(ToString::to_string).chain([OTHER.to_owned()]);
        let counts = self.statuses.iter().map(|count| count.load(Ordering::Relaxed));
        names.zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Method, template, counts by status, and the number of durations.
    type Shown = (&'static str, &'static str, Vec<(String, u64)>, u64);

    fn shown(counts: &RequestCounts) -> Vec<Shown> {
        let endpoints = counts.endpoints().into_iter();
        endpoints
            .map(|endpoint| (endpoint.method, endpoint.path, endpoint.statuses, endpoint.seconds.count()))
            .collect()
    }

    #[test]
    fn a_request_counts_for_its_method_template_and_status() {
        let counts = RequestCounts::default();
        let claim = PathTemplate::of("/api/v2/queues/q/tasks/claim");
        let page = PathTemplate::of("/ui/queues/q/tasks");
        let invented = Method::from_bytes(b"GETX").unwrap();
        for (method, template, status) in [
            (Some(&Method::POST), claim, 200),
            (Some(&Method::POST), claim, 200),
            (Some(&Method::POST), claim, 503),
            (Some(&Method::GET), page, 200),
            (Some(&invented), PathTemplate::of("/ui"), 404),
            (None, PathTemplate::UNMATCHED, 599),
        ] {
            let code = (status == 503).then_some(ErrorCode::DatabaseBusy);
            counts.count(method, template, status, code, Duration::from_millis(3));
        }
        let times = |status: &str, count| (status.to_owned(), count);
        let expected = [
            ("POST", paths::CLAIM, vec![times("200", 2), times("503", 1)], 3),
            ("GET", "/ui/", vec![times("200", 1)], 1),
            ("other", "unmatched", vec![times("404", 1), times("other", 1)], 2),
        ];
        assert_eq!(shown(&counts), expected);
        assert_eq!(counts.totals(), (6, 1));
        let errors: Vec<_> = counts.errors().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, [("database_busy", 1)]);
    }

    #[test]
    fn every_code_and_its_status_have_a_place() {
        assert!(STATUSES.is_sorted());
        for (place, code) in ErrorCode::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, place, "{code:?}");
            assert!(STATUSES.contains(&code.status()), "{code:?}");
        }
    }
}
