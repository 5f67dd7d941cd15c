//! `definitions.documents`: the version, the length of the args, then args and metadata as canonical JSON.

use taskqueue_core::json::JsonObject;
use taskqueue_core::update::Documents;

use super::packed::{Packer, Unpacker, Unreadable};

/// `definitions.documents`, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedDocuments<'a> {
    pub(crate) args: &'a str,
    pub(crate) metadata: &'a str,
}

impl<'a> PackedDocuments<'a> {
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut packer = Packer::new(16 + self.args.len() + self.metadata.len());
        packer.length(self.args);
        packer.text(self.args);
        packer.text(self.metadata);
        packer.into_bytes()
    }

    pub(crate) fn unpack(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let mut packed = Unpacker::new(bytes)?;
        let length = packed.length()?;
        let mut texts = packed.texts()?;
        Ok(Self { args: texts.next(length)?, metadata: texts.rest() })
    }

    pub(crate) fn documents(&self) -> Documents {
        Documents { args: JsonObject::from_canonical(self.args), metadata: JsonObject::from_canonical(self.metadata) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(args in "\\PC{0,200}", metadata in "\\PC{0,200}") {
            let documents = PackedDocuments { args: &args, metadata: &metadata };
            let bytes = documents.pack();
            prop_assert_eq!(PackedDocuments::unpack(&bytes), Ok(documents));
        }

        #[test]
        fn bytes_of_any_kind_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = PackedDocuments::unpack(&bytes);
        }
    }

    /// Files hold these bytes: this layout never changes.
    #[test]
    fn version_1_looks_like_this() {
        let documents = PackedDocuments { args: r#"{"a":1}"#, metadata: "{}" };
        assert_eq!(documents.pack(), b"\x01\x0e{\"a\":1}{}");
    }
}
