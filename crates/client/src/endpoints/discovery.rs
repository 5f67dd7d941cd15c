//! Health, schema and capabilities of the server. The token is not sent with the first two.

use taskqueue_api::capabilities::Capabilities;
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

    /// What the server offers beyond the contract. A server that does not know the question offers nothing.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        let call = Call::read("read the capabilities", paths::CAPABILITIES.to_owned());
        match self.perform(call, |answer| answer.read(&[200], Capabilities::read)).await {
            Err(Error::Api { status: 404, .. }) => Ok(Capabilities::default()),
            answered => answered,
        }
    }

    /// The extensions of a server that has all of this version, as our own programs expect. To be asked before anything is changed.
    ///
    /// # Errors
    ///
    /// [`Error::ServerTooOld`] if the server lacks one, except [`OUTPUT`](taskqueue_api::capabilities::OUTPUT), which can be
    /// turned off.
    pub async fn require_extensions(&self) -> Result<Capabilities, Error> {
        let capabilities = self.capabilities().await?;
        capabilities.first_missing().map_or(Ok(capabilities), |missing| Err(Error::ServerTooOld { missing }))
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
