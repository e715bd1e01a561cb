//! What tests switch on to see the guards work: wrong turns that must be caught ([`mutation`]), and named
//! places at which a process may die ([`failpoint`]). Nothing of it is in a release.

pub mod failpoint;
pub(crate) mod mutation;
