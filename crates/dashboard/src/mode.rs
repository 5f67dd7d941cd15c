//! How much of the dashboard there is.

use std::str::FromStr;

/// What `--dashboard` chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No page.
    Off,
    /// Pages without any button that changes something.
    ReadOnly,
    /// Everything that the viewer's token opens.
    #[default]
    Full,
}

impl Mode {
    pub const ALL: [Self; 3] = [Self::Off, Self::ReadOnly, Self::Full];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::ReadOnly => "read-only",
            Self::Full => "full",
        }
    }
}

impl FromStr for Mode {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word).ok_or("write off, read-only or full")
    }
}
