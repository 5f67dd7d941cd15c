//! Health and schema of the server. The token is not sent with these calls.

use taskqueue_api::health::Health;
use taskqueue_api::paths;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// The health of the server. The call is sent once: a server that does not work is an answer, not a failed call.
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
            String::from_utf8(answer.body.clone()).map_err(|_| answer.protocol_error("it is not UTF-8".to_owned()))
        })
        .await
    }
}
