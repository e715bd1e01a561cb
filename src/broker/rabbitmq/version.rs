//! What differs between server versions: one place for every gate.

use std::fmt;

/// A server's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    /// 3, 4
    pub major: u32,
    /// 10, 0
    pub minor: u32,
    /// The rest, if it is a number.
    pub patch: u32,
}

impl Version {
    /// Reads `3.10.8`, `4.0.5`, `4.1.0-rc.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let number = |part: Option<&str>| -> Option<u32> {
            let part = part?;
            part[..part.bytes().take_while(u8::is_ascii_digit).count()].parse().ok()
        };
        let major = number(parts.next())?;
        let minor = number(parts.next())?;
        Some(Self { major, minor, patch: number(parts.next()).unwrap_or(0) })
    }

    fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Does `x-delivery-limit: -1` mean no limit? Before 4.0 it destroys a message on its first return.
    pub fn unlimited_by_minus_one(self) -> bool {
        self.at_least(4, 0)
    }

    /// The limit of a quorum queue that sets none; each look counts once against it (R34).
    pub fn default_delivery_limit(self) -> Option<u32> {
        self.at_least(4, 0).then_some(20)
    }

    /// Is giving back by `basic.nack` free of the delivery limit, and closing the channel not? From its
    /// documentation; before 4.3 closing is the only way that keeps order everywhere.
    pub fn nack_is_free(self) -> bool {
        self.at_least(4, 3)
    }

    /// Do streams take dead letters under the at-most-once strategy? On 3.10 they lose every one.
    pub fn stream_takes_dead_letters(self) -> bool {
        self.at_least(4, 0)
    }

    /// 3.13.0 to 3.13.2 drop a message that comes round a cycle even after a rejection (R11).
    pub fn drops_rejected_cycles(self) -> bool {
        (self.major, self.minor) == (3, 13) && self.patch < 3
    }

    /// Largest body that the server takes unless told otherwise.
    pub fn body_max(self) -> u64 {
        if self.at_least(4, 0) { 16 * 1024 * 1024 } else { 128 * 1024 * 1024 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn r34_gates_by_version() {
        let version = |text: &str| Version::parse(text).unwrap();
        assert!(!version("3.13.7").unlimited_by_minus_one());
        assert!(version("4.0.5").unlimited_by_minus_one());
        assert_eq!(version("3.10.8").default_delivery_limit(), None);
        assert_eq!(version("4.2.0").default_delivery_limit(), Some(20));
        assert!(!version("4.2.9").nack_is_free() && version("4.3.0-rc.1").nack_is_free());
        assert!(version("3.13.2").drops_rejected_cycles() && !version("3.13.3").drops_rejected_cycles());
        for bad in ["", "4", "x.y", "4.", "-1.2"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
