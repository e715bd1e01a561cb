//! The operator's record of runs: intended, published, settled, in doubt, who, why.

mod state;

pub use state::LetterState;
