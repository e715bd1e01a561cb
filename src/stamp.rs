//! The headers that redrive itself writes: their names, in one place, for every broker.
//!
//! An adapter maps them to what its broker can carry. They never begin with `x-`, which RabbitMQ keeps
//! for itself, and hold nothing but `[A-Za-z0-9._:/-]` and JSON, bounded in size.

/// Which run sent this copy, and its number in the run's manifest: `<run>/<seq>`. A copy found in a target
/// proves a delivery only by both (protocol §6, m26).
pub const RUN: &str = "redrive-run";
/// How often this letter has been redriven, this time included. Rule 6 counts by it, never by `x-death`.
pub const COUNT: &str = "redrive-count";
/// The dead-letter queue and the letter in it that this copy was made of: `<queue>/<letter id>`.
pub const FROM: &str = "redrive-from";
/// Where the message first lived, as JSON: `{"queue":"orders"}`, `{"topic":"orders","partition":3,"offset":42}`.
/// Set by the first redrive if the letter named it, since a broker or framework that buries the message again
/// may forget it (R04). A letter with [`DEATHS`] names it there.
pub const ORIGIN: &str = "redrive-origin";
/// When the message was first published, RFC 3339, as far as it was known.
pub const ORIGINAL_TIME: &str = "redrive-original-time";
/// How many tries of this life have failed so far. Taken off by a redrive: a left-over counter would send
/// the letter straight back.
pub const ATTEMPT: &str = "redrive-attempt";
/// The tier that the message waits in or came out of last.
pub const TIER: &str = "redrive-tier";
/// When the first try of this life failed, RFC 3339.
pub const FIRST_FAILED_AT: &str = "redrive-first-failed-at";
/// The deaths so far: a JSON array of objects, oldest first, see `docs/consumer-contract.md`. It travels:
/// history is not bookkeeping.
pub const DEATHS: &str = "redrive-deaths";
/// Most bytes that [`DEATHS`] may hold; over it the middle goes, never the first or the last.
pub const DEATHS_MAX: usize = 16 * 1024;

/// Names that are per life: they stay behind when a letter is redriven.
pub const PER_LIFE: &[&str] = &[ATTEMPT, TIER, FIRST_FAILED_AT];
/// Every name above.
pub const ALL: &[&str] = &[RUN, COUNT, FROM, ORIGIN, ORIGINAL_TIME, ATTEMPT, TIER, FIRST_FAILED_AT, DEATHS];
