//! What `apply` would change: a pure diff of desired and observed resources. Only this is called a plan.

use serde::Serialize;

/// One queue, topic, policy or binding on a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// What kind of thing: `queue`, `topic`, `policy`; the adapter's own word.
    pub kind: &'static str,
    /// Its name on the broker.
    pub name: String,
    /// Its part in the channel, for people: `source`, `tier`, `dead letters`, `marks`.
    pub role: Role,
    /// The channel it belongs to, if one.
    pub channel: Option<String>,
    /// Properties that we own, sorted by name. What is not here is not ours to change.
    pub properties: Vec<Property>,
    /// How many messages it holds, where observed.
    pub depth: Option<u64>,
    /// May `apply` create it? A source is only observed unless the topology says so.
    pub creatable: bool,
    /// A line for people beside a `create` or `keep`: `12 partitions × 3 replicas`.
    pub note: Option<String>,
}

/// What a resource is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the application reads.
    Source,
    /// Where tiers and redrives send, beside the source.
    ReturnTo,
    /// A wait.
    Tier,
    /// Dead letters.
    DeadLetter,
    /// redrive's own marks.
    Marks,
    /// Routing between the others.
    Routing,
    /// Seen on the broker under a name that looks ours, declared by nobody.
    Undeclared,
}

/// One property of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Property {
    /// Name as the broker has it.
    pub name: String,
    /// Value as people read it, and as it is compared.
    pub value: String,
}

/// What it would take to go from observed to desired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// Is as declared.
    Keep {
        /// As observed.
        resource: Resource,
    },
    /// Is not there.
    Create {
        /// As desired.
        resource: Resource,
    },
    /// Differs, and can be altered in place.
    Update {
        /// As desired.
        resource: Resource,
        /// What differs.
        fields: Vec<FieldChange>,
    },
    /// Differs, and altering it is not done: it can lose messages, or the broker cannot.
    Refused {
        /// As desired.
        resource: Resource,
        /// What differs.
        fields: Vec<FieldChange>,
        /// Why, and what it would cost.
        refusal: Refusal,
    },
    /// Is there and nobody declares it. Never deleted.
    Undeclared {
        /// As observed.
        resource: Resource,
    },
}

/// A property from one value to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Property.
    pub name: String,
    /// As observed; `None`: not set.
    pub from: Option<String>,
    /// As desired.
    pub to: Option<String>,
}

/// Why a change is not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// In words that fit after the values: `22 of 61 letters are older and would be lost`.
    pub why: String,
    /// How many messages would be lost, where `--accept-loss=NAME` makes it possible; `None` if nothing does.
    pub loses: Option<u64>,
    /// The way round.
    pub way_round: Option<String>,
}
