//! What a look at dead letters makes of them: causes, lists, what sets a cause apart, growth. Bounded in
//! memory whatever the depth, and pure but for reading pages; rendering is elsewhere.

mod alert;
mod buckets;
mod contrast;
mod groups;
mod growth;
mod letters;
mod look;
mod neighbours;
mod notes;
mod prospects;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use alert::{Alert, AlertState, alert};
pub use buckets::{BUCKETS, Bucket, Buckets, By, Expiry, MOST_BUCKETS, SOON, STEP};
pub use contrast::{Contrast, Difference, Feature};
pub use groups::Groups;
pub use growth::{Growth, Looks};
pub use letters::{Listed, Newest, Oldest, OldestBy};
pub use look::{Collect, Looked, find_letter, look};
pub use neighbours::Neighbours;
pub use notes::{Note, about_cost, about_left, about_look, notes};
pub use prospects::{Deed, deed, times};
