//! The figures of the peers: a table, JSON, and rows 7 and 8 of the goals. Ratios are taken round by round.

use serde_json::{Value, json};

use super::{Measured, Peer, Rates};
use crate::goals::Judged;
use crate::measurement::median;
use crate::table;

/// The number of connections that has goals.
const JUDGED: usize = 64;

pub(super) struct Table(Measured);

impl Table {
    pub(super) fn new(measured: Measured) -> Self {
        Self(measured)
    }

    /// Our pairs over those of a peer, round by round.
    fn ours_over(&self, connections: usize, peer: Peer) -> Option<f64> {
        let rounds = |peer| self.0.get(&(connections, peer))?.as_ref().ok().filter(|rounds| !rounds.is_empty());
        let (ours, theirs) = (rounds(Peer::Taskqueue)?, rounds(peer)?);
        Some(median(ours.iter().zip(theirs).map(|(ours, theirs)| ours.pairs / theirs.pairs).collect()))
    }

    /// Rows 7 and 8, as far as they were measured.
    pub(super) fn judge(&self) -> Vec<Judged> {
        let goal =
            |row, what, peer, must, aim| Some(Judged::at_least(row, what, self.ours_over(JUDGED, peer)?, must, aim));
        let beanstalkd = goal(7, "pairs/s over beanstalkd -f 0, 64 connections", Peer::Beanstalkd, 0.9, 1.2);
        let labtasker = goal(8, "pairs/s over labtasker-server, 64 connections", Peer::Labtasker, 100.0, 300.0);
        [beanstalkd, labtasker].into_iter().flatten().collect()
    }

    pub(super) fn text(&self) -> String {
        let heading =
            ["peer", "connections", "creations/s", "pairs/s", "our pairs over its", "what a power cut takes of it"];
        let rows: Vec<Vec<String>> =
            self.0
                .iter()
                .map(|((connections, peer), rates)| {
                    let mut row = vec![peer.name().to_owned(), connections.to_string()];
                    match rates {
                        Ok(rounds) => {
                            let (creations, pairs) = medians(rounds);
                            let over = self.ours_over(*connections, *peer);
                            row.extend([format!("{creations:.0}"), format!("{pairs:.0}")]);
                            row.push(over.map_or_else(|| "-".to_owned(), |over| format!("{over:.2}")));
                            row.push(peer.durability().to_owned());
                        }
                        Err(why) => row
                            .extend(["-", "-", "-", &format!("not measured: {}", first_line(why))].map(str::to_owned)),
                    }
                    row
                })
                .collect();
        left_last(&heading, rows)
    }

    pub(super) fn json(&self) -> Value {
        let peers = self.0.iter().map(|((connections, peer), rates)| {
            let rounds = rates.as_ref().map(|rounds| medians(rounds)).ok();
            json!({
                "peer": peer.name(),
                "connections": connections,
                "creations_per_second": rounds.map(|rounds| rounds.0),
                "pairs_per_second": rounds.map(|rounds| rounds.1),
                "our_pairs_over_its": self.ours_over(*connections, *peer),
                "durability": peer.durability(),
                "not_measured": rates.as_ref().err(),
            })
        });
        peers.collect::<Vec<_>>().into()
    }
}

fn medians(rounds: &[Rates]) -> (f64, f64) {
    let of = |rate: fn(&Rates) -> f64| median(rounds.iter().map(rate).collect());
    (of(|rates| rates.creations), of(|rates| rates.pairs))
}

/// A table whose last column is a sentence and stands to the left too.
fn left_last(heading: &[&str], mut rows: Vec<Vec<String>>) -> String {
    let last = heading.len() - 1;
    let width = rows.iter().map(|row| row[last].chars().count()).max().unwrap_or(0).max(heading[last].len());
    for row in &mut rows {
        row[last] = format!("{:<width$}", row[last]);
    }
    let sentence = format!("{:<width$}", heading[last]);
    let heading: Vec<&str> = heading[..last].iter().copied().chain([sentence.as_str()]).collect();
    table::render(&heading, &rows, 1)
}

/// The first line of the output of a program.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rates = |pairs: &[f64]| Ok(pairs.iter().map(|pairs| Rates { creations: 1.0, pairs: *pairs }).collect());
        Table::new(Measured::from([
            ((64, Peer::Taskqueue), rates(&[100.0, 300.0, 200.0])),
            ((64, Peer::Beanstalkd), rates(&[100.0, 100.0, 400.0])),
            ((64, Peer::Labtasker), Err("not installed\nat all".to_owned())),
        ]))
    }

    #[test]
    fn ratios_are_taken_round_by_round_and_the_missing_is_not_judged() {
        let judged = table().judge();
        assert_eq!(judged.len(), 1);
        assert!((judged[0].measured - 1.0).abs() < 1e-9, "{judged:?}");
        assert_eq!(table().ours_over(1, Peer::Beanstalkd), None);
    }

    #[test]
    fn a_peer_that_is_missing_says_why() {
        let text = table().text();
        assert!(text.contains("not measured: not installed") && !text.contains("at all"), "{text}");
        assert_eq!(table().json()[2]["pairs_per_second"], Value::Null);
    }
}
