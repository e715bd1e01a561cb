//! The first page of help: the verbs in the order that somebody on call needs them.

/// What the first page says about a verb.
pub(super) struct Entry {
    /// Heading: `Look`, `Send back`, `Put away`, `Set up`, `Serve`, `Practise`, or [`HELP`].
    pub group: &'static str,
    /// Its name on the command line.
    pub verb: &'static str,
    /// A few words.
    pub about: &'static str,
}

const fn entry(group: &'static str, verb: &'static str, about: &'static str) -> Entry {
    Entry { group, verb, about }
}

/// The heading whose verbs share a line, each by its few words only.
const HELP: &str = "Help";

/// The verbs that are built, in order. A test compares the list with the commands there are.
pub(super) const VERBS: &[Entry] = &[
    entry("Look", "inspect", "causes of dead letters, or --letters"),
    entry("Look", "show", "one letter; what a redrive would do"),
    entry("Look", "status", "depth, age, retention left, tiers, lag"),
    entry("Send back", "select", "freeze a selection: a manifest"),
    entry("Send back", "run", "redrive a manifest or a selection"),
    entry("Send back", "resume", "a run that stopped or was paused"),
    entry("Send back", "runs", "list, show, pause, stop"),
    entry("Set up", "check", "a topology; no network"),
    entry("Set up", "plan", "what apply would change"),
    entry("Set up", "apply", "provision, then prove it"),
    entry("Serve", "relay", "carry due messages from tiers to the source"),
    entry("Serve", "alert", "thresholds for monitors"),
    entry("Practise", "demo", "dead letters to play with"),
    entry("Practise", "dev", "play an application at the embedded broker"),
    entry(HELP, "explain", "explain CODE|exit-codes|dialects"),
    entry(HELP, "completions", "completions"),
    entry(HELP, "man", "man"),
];

/// The page, as `redrive --help` and a bare `redrive` print it.
pub(super) fn first_page() -> String {
    let mut page = String::from(
        "The way back for dead letters: see why they died, send them back safely\n\
         Usage: redrive <verb> [CHANNEL] [options]\n\n",
    );
    let mut last = "";
    for Entry { group, verb, about } in VERBS.iter().filter(|entry| entry.group != HELP) {
        let heading = if *group == last { "" } else { *group };
        last = group;
        page.push_str(&format!("{heading:<10} {verb:<9} {about}\n"));
    }
    let help: Vec<&str> = VERBS.iter().filter(|entry| entry.group == HELP).map(|entry| entry.about).collect();
    page.push_str(&format!("{HELP:<10} {}\n", help.join(", ")));
    page.push_str(EXAMPLE);
    page.push_str("Topology: redrive.yaml, -f FILE or REDRIVE_TOPOLOGY\n");
    page
}

const EXAMPLE: &str =
    "\nExample, sends nothing:\n  redrive run orders --cause 91be4d --limit 200 --dry-run\n";

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_first_page_lists_every_verb_and_no_other() {
        let built = crate::cli::command();
        let built: BTreeSet<&str> =
            built.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name).collect();
        let listed: BTreeSet<&str> = VERBS.iter().map(|entry| entry.verb).collect();
        assert_eq!(built, listed);
    }

    #[test]
    fn every_verb_shows_an_example_in_its_help() {
        for mut verb in crate::cli::command().get_subcommands().cloned() {
            let help = verb.render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", verb.get_name());
        }
    }
}
