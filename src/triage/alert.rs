//! What the thresholds of `dead_letter.alert` say about a counted queue.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::broker::Depth;
use crate::clock::Time;
use crate::topology::Channel;

/// Thresholds, and what they say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// What they say.
    pub state: AlertState,
    /// From so many letters.
    pub depth: Option<u64>,
    /// From this age of the oldest letter.
    #[serde(rename = "age_s", serialize_with = "seconds")]
    pub age: Option<Duration>,
}

/// What thresholds say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// One is crossed.
    Over,
    /// None is crossed.
    Ok,
    /// There are none.
    None,
    /// The queue is not there, or the only one that could be crossed is of an age that nobody knows.
    Unknown,
}

fn seconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age.as_secs()).serialize(serializer)
}

/// What the thresholds of `channel` say.
pub fn alert(channel: &Channel, dead: &Depth, now: Time) -> Alert {
    let depth = channel.dead_letter.alert_depth.as_ref().map(|depth| depth.value);
    let age = channel.dead_letter.alert_age.as_ref().map(|age| age.value);
    let letters = dead.count.number();
    let deep = depth.is_some_and(|depth| letters >= depth);
    let old = match (age, dead.oldest) {
        (Some(age), Some(oldest)) if letters > 0 => Some(now.since(oldest) >= age),
        (Some(_), None) if letters > 0 => None,
        _ => Some(false),
    };
    let state = match (deep, old) {
        _ if depth.is_none() && age.is_none() => AlertState::None,
        // A wrong name or a lost queue must not look like an empty one.
        _ if !dead.exists => AlertState::Unknown,
        (true, _) | (_, Some(true)) => AlertState::Over,
        (false, None) => AlertState::Unknown,
        (false, Some(false)) => AlertState::Ok,
    };
    Alert { state, depth, age }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Count;
    use crate::topology::At;

    #[test]
    fn thresholds_are_crossed_from_their_value_on() {
        let now = Time::from_seconds(10_000);
        let mut channel = Channel::default();
        let absent = Depth {
            queue: "q".to_owned(),
            count: Count::Exact(0),
            due: None,
            in_flight: None,
            oldest: None,
            oldest_expires: None,
            exists: false,
        };
        let state = |channel: &Channel, letters: u64, age: Option<u64>| {
            let dead = Depth {
                count: Count::Exact(letters),
                oldest: age.map(|age| now.minus(Duration::from_secs(age))),
                exists: true,
                ..absent.clone()
            };
            alert(channel, &dead, now).state
        };
        assert_eq!(state(&channel, 5, None), AlertState::None);
        channel.dead_letter.alert_age = Some(At::nowhere(Duration::from_secs(60)));
        assert_eq!(state(&channel, 0, None), AlertState::Ok);
        assert_eq!(state(&channel, 1, Some(59)), AlertState::Ok);
        assert_eq!(state(&channel, 1, Some(60)), AlertState::Over);
        assert_eq!(state(&channel, 1, None), AlertState::Unknown);
        channel.dead_letter.alert_depth = Some(At::nowhere(2));
        assert_eq!(state(&channel, 2, None), AlertState::Over);
        assert_eq!(state(&channel, 1, Some(1)), AlertState::Ok);
        assert_eq!(alert(&channel, &absent, now).state, AlertState::Unknown);
        assert_eq!(alert(&Channel::default(), &absent, now).state, AlertState::None);
    }
}
