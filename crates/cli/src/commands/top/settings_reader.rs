//! Reads the settings of queues, one queue in every second refresh and instead of the health, which the other requests show as well: a
//! view sends no more requests because of them. The selected queue has every second of these turns.

use std::collections::HashMap;

use taskqueue_client::{Client, Health, QueueName, QueueSettings};

#[derive(Debug, Default)]
pub(super) struct SettingsReader {
    known: HashMap<QueueName, QueueSettings>,
    /// As it was said last.
    health: Option<Health>,
    refreshes: usize,
}

impl SettingsReader {
    /// Begins a refresh: the health that counts for it, if the settings of a queue are read instead.
    pub(super) fn begin(&mut self) -> Option<Health> {
        self.refreshes += 1;
        let is_turn = self.refreshes.is_multiple_of(2);
        self.health.clone().filter(|health| is_turn && health.is_ok)
    }

    /// Notes the health of this refresh.
    pub(super) fn note(&mut self, health: &Health) {
        self.health = Some(health.clone());
    }

    /// The queue whose turn it is.
    fn next<'q>(&self, queues: &'q [QueueName], selected: Option<&'q QueueName>) -> Option<&'q QueueName> {
        let turn = self.refreshes / 2;
        let selected = selected.filter(|queue| turn % 2 == 1 && queues.contains(queue));
        selected.or_else(|| queues.get((turn / 2) % queues.len().max(1)))
    }

    /// Reads the settings of one of these queues. Without an answer, what was known before is shown.
    pub(super) async fn read(&mut self, client: &Client, queues: &[QueueName], selected: Option<&QueueName>) {
        self.known.retain(|queue, _| queues.contains(queue));
        let Some(queue) = self.next(queues, selected) else { return };
        if let Ok(settings) = client.queue_settings(queue).await {
            self.known.insert(queue.clone(), settings);
        }
    }

    /// Pause and limits of a queue in a few words, if it has any.
    pub(super) fn words(&self, queue: &QueueName) -> Option<String> {
        words(self.known.get(queue)?)
    }
}

/// `paused, max 8, gpu max 4`
fn words(settings: &QueueSettings) -> Option<String> {
    let paused = settings.paused.then(|| "paused".to_owned());
    let most = settings.max_running.map(|most| format!("max {most}"));
    let routes = settings.route_limits.iter().map(|(route, most)| format!("{route} max {most}"));
    let words: Vec<String> = paused.into_iter().chain(most).chain(routes).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use taskqueue_client::Route;

    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    #[test]
    fn every_second_refresh_reads_settings_instead_of_the_health() {
        let mut reader = SettingsReader::default();
        let health = Health { is_ok: true, api_version: "2".to_owned() };
        let mut asks = || {
            let is_replaced = reader.begin().is_some();
            reader.note(&health);
            is_replaced
        };
        assert_eq!([asks(), asks(), asks(), asks()], [false, true, false, true]);
    }

    #[test]
    fn every_queue_has_its_turn_and_the_selected_one_more_often() {
        let queues = [queue("a"), queue("b"), queue("c")];
        let turn = |turn: usize| {
            let reader = SettingsReader { refreshes: 2 * turn, ..SettingsReader::default() };
            reader.next(&queues, Some(&queues[2])).unwrap().to_string()
        };
        assert_eq!((1..=8).map(turn).collect::<Vec<_>>().join(" "), "c b c c c a c b");
        let reader = SettingsReader::default();
        assert_eq!(reader.next(&[], None), None);
        assert_eq!(reader.next(&queues, Some(&queue("gone"))), Some(&queues[0]));
    }

    #[test]
    fn only_what_limits_claims_is_said() {
        assert_eq!(words(&QueueSettings::default()), None);
        let limited = QueueSettings {
            paused: true,
            max_running: Some(8),
            route_limits: [(Route::parse("gpu").unwrap(), 4)].into(),
            ..QueueSettings::default()
        };
        assert_eq!(words(&limited).as_deref(), Some("paused, max 8, gpu max 4"));
    }
}
