//! The state of a view: the parameters of its address. A link to another view is this one with something changed.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use taskqueue_core::{QueueName, TaskId};

/// What stands in a path or a query as itself (RFC 3986, unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Parameters that are read; a text may hold millions of empty ones, each of which takes many times its length in memory.
pub(crate) const PARAMETERS_MAX: usize = 4_096;

/// Where somebody signs in.
pub(crate) const SIGN_IN: &str = "/ui/sign-in";

/// Returns an address within the dashboard that somebody sent, or the overview.
pub(crate) fn own_address(address: Option<&str>) -> &str {
    let is_own = |address: &&str| {
        address.starts_with("/ui/") && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    address.filter(is_own).unwrap_or("/ui/")
}

/// The address of a task.
pub(crate) fn of_task(queue: &QueueName, id: TaskId) -> String {
    format!("/ui/queues/{queue}/tasks/{id}")
}

/// The address of the tasks of a queue.
pub(crate) fn of_tasks(queue: impl fmt::Display) -> String {
    format!("/ui/queues/{queue}/tasks")
}

/// The address of the tasks of a state that list a route.
pub(crate) fn of_route(queue: impl fmt::Display, route: &str, status: &str) -> String {
    // Names of routes need no escapes in filters: they have neither quotes nor backslashes.
    let filter = format!("\"{route}\" in routes");
    Query::default().and("status", status).and("filter", filter).at(&of_tasks(queue))
}

/// A part of a path or a query, as it is written there.
fn encoded(text: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(text, ENCODED)
}

/// The parameters of an address or of a form, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `name=value&...` as browsers write it, the first [`PARAMETERS_MAX`] of them.
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().take(PARAMETERS_MAX).collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The first value of a parameter, if it is not empty: an empty field of a form was left out.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub(crate) fn all<'q>(&'q self, name: &str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the parameters with one value for this one.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: impl fmt::Display) -> Self {
        self.without(name).and(name, value)
    }

    /// Returns the parameters with one more value for this one.
    #[must_use]
    pub(crate) fn and(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    /// Returns the parameters without this one.
    #[must_use]
    pub(crate) fn without(&self, name: &str) -> Self {
        self.except(&[name])
    }

    /// The parameters of these names.
    #[must_use]
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(known, _)| names.contains(&known.as_str())).cloned().collect())
    }

    /// The parameters of other names.
    #[must_use]
    pub(crate) fn except(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(known, _)| !names.contains(&known.as_str())).cloned().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The address of a path with these parameters.
    pub(crate) fn at(&self, path: &str) -> String {
        if self.0.is_empty() { path.to_owned() } else { format!("{path}?{self}") }
    }
}

impl<'q> FromIterator<(&'q str, &'q str)> for Query {
    fn from_iter<I: IntoIterator<Item = (&'q str, &'q str)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, value)) in self.0.iter().enumerate() {
            let sign = if number == 0 { "" } else { "&" };
            write!(f, "{sign}{}={}", encoded(name), encoded(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_whatever_it_holds() {
        let query =
            Query::default().and("filter", "args.lr <= 0.1 and name == \"a&b=c+d\"").and("x", "ü\n").and("x", "");
        assert_eq!(Query::parse(&query.to_string()), query);
        assert_eq!(query.all("x").collect::<Vec<_>>(), ["ü\n", ""]);
        assert_eq!(Query::parse("a=1+2&b&&=c&d=%zz").to_string(), "a=1%202&b=&=c&d=%25zz");
    }

    #[test]
    fn no_more_parameters_are_read_than_a_page_can_have() {
        assert_eq!(Query::parse(&"a&".repeat(1_000_000)).iter().count(), PARAMETERS_MAX);
    }

    #[test]
    fn a_view_is_another_one_with_something_changed() {
        let query = Query::parse("status=failed&filter=x&cursor=c");
        assert_eq!(query.with("status", "pending").without("cursor").at("/ui/"), "/ui/?filter=x&status=pending");
        assert_eq!(query.only(&["filter"]).at("/ui/"), "/ui/?filter=x");
        assert_eq!(Query::default().at("/ui/"), "/ui/");
        assert_eq!((query.filled("filter"), Query::parse("a=").filled("a")), (Some("x"), None));
    }
}
