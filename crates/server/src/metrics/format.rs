//! The format in which metrics are given. Prometheus names both and prefers OpenMetrics; who names none may be anybody with a browser or
//! `curl`, or a program that knows the older one only (docs/decisions/0060).

use hyper::HeaderMap;
use hyper::header::ACCEPT;

const OPEN_METRICS: &str = "application/openmetrics-text";
/// The version that is written.
const OPEN_METRICS_VERSION: &str = "1.0.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Plain,
}

impl TextFormat {
    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// OpenMetrics if it is named and nothing is preferred to it. What cannot be read is not there: the text is given to everybody.
    pub(crate) fn asked_for(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        let (mut open, mut plain) = (0, 0);
        for range in values.flat_map(|value| value.split(',')).map(MediaRange::read) {
            match range.name.to_ascii_lowercase().as_str() {
                OPEN_METRICS if range.version.is_none_or(|version| version == OPEN_METRICS_VERSION) => {
                    open = open.max(range.weight);
                }
                "text/plain" | "text/*" | "*/*" => plain = plain.max(range.weight),
                _ => {}
            }
        }
        if open > 0 && open >= plain { Self::OpenMetrics } else { Self::Plain }
    }
}

/// One of the formats that a client takes (RFC 9110, 12.5.1).
struct MediaRange<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// In thousandths.
    weight: u32,
}

impl<'a> MediaRange<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self { name: parts.next().unwrap_or_default(), version: None, weight: 1_000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim_end().to_ascii_lowercase().as_str() {
                "version" => range.version = Some(value.trim().trim_matches('"')),
                "q" => range.weight = weight(value.trim()),
                _ => {}
            }
        }
        range
    }
}

/// A number from 0 to 1, in thousandths; 0 if it is none.
fn weight(text: &str) -> u32 {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.map_or(0, |number| (number * 1_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn asked_for(accept: &[&'static str]) -> TextFormat {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        TextFormat::asked_for(&headers)
    }

    #[test]
    fn open_metrics_is_given_to_those_who_name_it_and_prefer_nothing_else() {
        // What Prometheus 2.5, 2.45 and 3.0 send, and Prometheus 3.0 when it is told to prefer the text.
        const PROMETHEUS: [&str; 4] = [
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2",
        ];
        let cases: [(&[&str], TextFormat); 17] = [
            (&[], TextFormat::Plain),
            (&[""], TextFormat::Plain),
            (&["*/*"], TextFormat::Plain),
            (&["text/plain"], TextFormat::Plain),
            (&["text/html,application/xhtml+xml,*/*;q=0.8"], TextFormat::Plain),
            (&["application/json"], TextFormat::Plain),
            (&["application/openmetrics-text"], TextFormat::OpenMetrics),
            (&["Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.1"], TextFormat::OpenMetrics),
            (&["application/openmetrics-text;q=0"], TextFormat::Plain),
            (&["application/openmetrics-text;q=much"], TextFormat::Plain),
            (&["application/openmetrics-text;version=2.0.0"], TextFormat::Plain),
            (&["text/*", "application/openmetrics-text;q=0.9"], TextFormat::Plain),
            (&["text/plain", "application/openmetrics-text"], TextFormat::OpenMetrics),
            (&[PROMETHEUS[0]], TextFormat::Plain),
            (&[PROMETHEUS[1]], TextFormat::OpenMetrics),
            (&[PROMETHEUS[2]], TextFormat::OpenMetrics),
            (&[PROMETHEUS[3]], TextFormat::Plain),
        ];
        for (accept, expected) in cases {
            assert_eq!(asked_for(accept), expected, "{accept:?}");
        }
    }
}
