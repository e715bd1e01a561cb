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
    /// What was set by others and is left as it is, where people have to know it: `encrypted with alias/payments`.
    pub left: Option<String>,
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
    /// That many at the most: the broker does not tell how many.
    pub at_most: bool,
    /// The way round.
    pub way_round: Option<String>,
}

impl Change {
    /// The resource that it is about.
    pub fn resource(&self) -> &Resource {
        match self {
            Self::Keep { resource }
            | Self::Create { resource }
            | Self::Update { resource, .. }
            | Self::Refused { resource, .. }
            | Self::Undeclared { resource } => resource,
        }
    }

    /// Would something be made or altered?
    pub fn pends(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Update { .. })
    }

    /// The same change whatever it was counted with: depths come and go while one reads a plan.
    #[must_use]
    pub fn without_counts(mut self) -> Self {
        match &mut self {
            Self::Keep { resource }
            | Self::Create { resource }
            | Self::Update { resource, .. }
            | Self::Refused { resource, .. }
            | Self::Undeclared { resource } => resource.depth = None,
        }
        self
    }
}

/// What it takes to get from `observed` to `desired`: desired resources in their order, then what nobody
/// declares. A resource is known by kind and name. Whether an `Update` can be made is the broker's to judge.
pub fn diff(desired: &[Resource], observed: &[Resource]) -> Vec<Change> {
    let find =
        |wanted: &Resource| observed.iter().find(|seen| seen.kind == wanted.kind && seen.name == wanted.name);
    let declared =
        |seen: &Resource| desired.iter().any(|wanted| wanted.kind == seen.kind && wanted.name == seen.name);
    let mut changes: Vec<Change> = desired
        .iter()
        .map(|wanted| match find(wanted) {
            Some(seen) => compared(wanted, seen),
            None if wanted.creatable => Change::Create { resource: wanted.clone() },
            None => Change::Refused {
                resource: wanted.clone(),
                fields: Vec::new(),
                refusal: Refusal {
                    why: "is not there, and redrive only observes it".to_owned(),
                    loses: None,
                    at_most: false,
                    way_round: (wanted.role == Role::Source)
                        .then(|| "To let apply make it, write create_source: true".to_owned()),
                },
            },
        })
        .collect();
    let undeclared = observed.iter().filter(|seen| !declared(seen));
    changes.extend(undeclared.map(|seen| Change::Undeclared { resource: seen.clone() }));
    changes
}

/// One resource against its like. Only properties that we own are compared.
fn compared(wanted: &Resource, seen: &Resource) -> Change {
    let fields: Vec<FieldChange> = wanted
        .properties
        .iter()
        .filter_map(|property| {
            let from = seen.properties.iter().find(|other| other.name == property.name);
            let from = from.map(|other| other.value.clone());
            (from.as_ref() != Some(&property.value)).then(|| FieldChange {
                name: property.name.clone(),
                from,
                to: Some(property.value.clone()),
            })
        })
        .collect();
    if fields.is_empty() {
        // The role and channel are ours to know; the counts are the broker's.
        Change::Keep { resource: Resource { depth: seen.depth, left: seen.left.clone(), ..wanted.clone() } }
    } else {
        Change::Update { resource: Resource { depth: seen.depth, ..wanted.clone() }, fields }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(name: &str, properties: &[(&str, &str)]) -> Resource {
        Resource {
            kind: "queue",
            name: name.to_owned(),
            role: Role::Tier,
            channel: None,
            properties: properties
                .iter()
                .map(|(name, value)| Property { name: (*name).to_owned(), value: (*value).to_owned() })
                .collect(),
            depth: None,
            creatable: true,
            left: None,
            note: None,
        }
    }

    /// What a broker has after every pending change was made.
    fn applied(observed: &[Resource], changes: &[Change]) -> Vec<Resource> {
        let mut after = observed.to_vec();
        for change in changes {
            match change {
                Change::Create { resource } => after.push(resource.clone()),
                Change::Update { resource, fields } => {
                    let seen = after.iter_mut().find(|seen| seen.name == resource.name).unwrap();
                    for field in fields {
                        seen.properties.retain(|property| property.name != field.name);
                        let value = field.to.clone().unwrap();
                        seen.properties.push(Property { name: field.name.clone(), value });
                    }
                }
                _ => {}
            }
        }
        after
    }

    #[test]
    fn each_kind_of_difference_is_told_apart() {
        let mut source = queue("orders", &[]);
        source.creatable = false;
        let desired =
            [source, queue("a", &[("delay", "5s")]), queue("b", &[("delay", "1m")]), queue("c", &[])];
        let observed = [
            queue("a", &[("delay", "5s"), ("theirs", "x")]),
            queue("b", &[("delay", "2m")]),
            queue("z", &[]),
        ];
        let changes = diff(&desired, &observed);
        assert!(matches!(&changes[0], Change::Refused { refusal, .. } if refusal.loses.is_none()));
        assert!(matches!(&changes[1], Change::Keep { .. }));
        assert!(matches!(&changes[2], Change::Update { fields, .. }
            if fields == &[FieldChange { name: "delay".into(), from: Some("2m".into()), to: Some("1m".into()) }]));
        assert!(matches!(&changes[3], Change::Create { .. }));
        assert!(matches!(&changes[4], Change::Undeclared { resource } if resource.name == "z"));
        assert_eq!(changes.len(), 5);
    }

    #[test]
    fn what_nobody_declares_is_never_touched() {
        let observed = [queue("z", &[("delay", "5s")])];
        assert!(diff(&[], &observed).iter().all(|change| !change.pends()));
    }

    fn resources() -> impl Strategy<Value = Vec<Resource>> {
        let property = ("[a-c]", "[0-2]");
        let one = ("[a-e]", proptest::collection::btree_map(property.0, property.1, 0..3));
        proptest::collection::vec(one, 0..6).prop_map(|all| {
            let mut named: Vec<Resource> = Vec::new();
            for (name, properties) in all {
                if named.iter().all(|known| known.name != name) {
                    let properties: Vec<(&str, &str)> =
                        properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                    named.push(queue(&name, &properties));
                }
            }
            named
        })
    }

    proptest! {
        #[test]
        fn plan_after_apply_is_empty(desired in resources(), observed in resources()) {
            let changes = diff(&desired, &observed);
            let after = applied(&observed, &changes);
            prop_assert!(diff(&desired, &after).iter().all(|change| !change.pends()));
            for seen in &observed {
                prop_assert!(after.iter().any(|kept| kept.name == seen.name));
            }
        }

        #[test]
        fn half_an_apply_goes_on_where_it_stopped(desired in resources(), observed in resources(), made in 0usize..6) {
            let changes: Vec<Change> = diff(&desired, &observed);
            let half: Vec<Change> = changes.iter().filter(|change| change.pends()).take(made).cloned().collect();
            let rest = diff(&desired, &applied(&observed, &half));
            let pending = |changes: &[Change]| changes.iter().filter(|change| change.pends()).count();
            prop_assert_eq!(pending(&rest), pending(&changes) - half.len());
        }
    }
}
