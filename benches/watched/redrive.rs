//! The run that parts measure, in JSON; the rate and the consent are each part's own.

/// Its words.
pub const RUN: [&str; 10] =
    ["run", "orders", "--limit", "all", "--reason", "bench", "-o", "json", "--stop-on-refail", "off"];
