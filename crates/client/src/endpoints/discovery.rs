//! What a server says of itself. The token is not sent here.

use taskqueue_api::health::Health;
use taskqueue_api::paths;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// How the server is now. This is asked once: a server that is not well says so and is not asked again until it is.
    pub async fn health(&self) -> Result<Health, Error> {
        let call = Call::read("read the health", paths::HEALTH.to_owned());
        let call = Call { is_repeatable: false, ..call };
        self.perform(call, |answer| answer.read(&[200, 503], Health::read)).await
    }

    /// The schema of the API, as JSON text.
    pub async fn openapi(&self) -> Result<String, Error> {
        let call = Call::read("read the schema", paths::OPENAPI.to_owned());
        self.perform(call, |answer| {
            answer.read(&[200], |_| Ok(()))?;
            String::from_utf8(answer.body.clone()).map_err(|_| answer.nonsense("it is not UTF-8".to_owned()))
        })
        .await
    }
}
