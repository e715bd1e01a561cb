//! Letters of a resumed run that will stay because an earlier one of their group does: counted before anybody is asked,
//! so that a plan promises only what can go.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use crate::ledger::{Ledger, LetterState, Writes};
use crate::manifest::Reader;
use crate::run::engine::EngineError;

/// How many letters that were not sent yet stand behind one of their group whose state `stays`.
///
/// # Errors
/// The ledger, or the run's manifest.
pub fn letters_behind(
    ledger: &Ledger,
    run: i64,
    manifest: &Path,
    stays: impl Fn(LetterState) -> bool,
) -> Result<u64, EngineError> {
    let (mut reader, mut states) = (Reader::open(manifest)?, Writes::of(run));
    let mut held: HashSet<u64> = HashSet::new();
    let mut behind = 0;
    while let Some(line) = reader.next_line()? {
        let Some(group) = line.group.as_deref().filter(|_| line.kept.is_none()) else { continue };
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        let group = hasher.finish();
        match states.state(ledger, line.seq)? {
            state if stays(state) => {
                held.insert(group);
            }
            // A letter that is settled with an equal one follows that one.
            LetterState::Planned if line.twin_of.is_none() && held.contains(&group) => behind += 1,
            _ => {}
        }
    }
    Ok(behind)
}
