//! A manifest given to `run`: read, compared with the topology, and with what is still there.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::sending::ledger_error;
use super::{Chosen, CommandError, Context};
use crate::ledger::Ledger;
use crate::manifest::{Fault, Head, Reader, Why};
use crate::render::run::first_of;
use crate::run::prepare::Prepared;
use crate::topology::Rate;

/// A manifest that was read and whose every line is as it was frozen.
pub struct Frozen {
    /// The file.
    pub path: PathBuf,
    /// As typed.
    pub shown: String,
    /// Its first line.
    pub head: Head,
    count: u64,
    temporary: bool,
}

impl Frozen {
    /// Reads and verifies it.
    ///
    /// # Errors
    /// [4]: it is no manifest, or a line of it was changed.
    pub fn read(ctx: &Context, what: &str, ledger: &Path) -> Result<Self, CommandError> {
        let temporary = what == "-";
        let path = if temporary { from_stdin(ctx, ledger)? } else { PathBuf::from(what) };
        let shown = if temporary { "stdin".to_owned() } else { what.to_owned() };
        match Reader::verify(&path) {
            Ok((head, count)) => Ok(Self { path, shown, head, count, temporary }),
            Err(Fault::Io(error)) if error.kind() == io::ErrorKind::NotFound && !temporary => {
                let error = CommandError::usage(format!("no manifest {shown}: there is no such file"));
                Err(error.next(["redrive", "select", "--help"]))
            }
            Err(fault) => {
                if temporary {
                    let _ = std::fs::remove_file(&path);
                }
                Err(CommandError::refused(format!("{shown} cannot be taken for a manifest: {fault}"))
                    .hint("Nothing was sent. Select again to freeze a new one:")
                    .next(["redrive", "select", "--help"]))
            }
        }
    }

    /// Is it for this broker, this queue and the target that the topology says? A manifest is hostile input.
    pub fn check(&self, chosen: Chosen<'_>, target: &str, queue: &str) -> Result<(), CommandError> {
        let differs = |what: &str, theirs: &str, ours: &str| {
            CommandError::refused(format!(
                "{} was frozen for {what} {}, the topology says {ours}",
                self.shown,
                theirs.escape_default()
            ))
            .hint("Nothing was sent. Name the topology that it was frozen with, or select again; what is there now:")
            // Compared with the topology, so no text of a stranger.
            .next(["redrive", "inspect", &self.head.channel])
        };
        if self.head.broker != chosen.name() {
            return Err(differs("broker", &self.head.broker, chosen.name()));
        }
        if self.head.queue != queue {
            return Err(differs("dead-letter queue", &self.head.queue, queue));
        }
        if self.head.target != target {
            return Err(differs("target", &self.head.target, target));
        }
        Ok(())
    }

    /// The rate that it was frozen with. A manifest is hostile input.
    ///
    /// # Errors
    /// [4]: it is none.
    pub fn rate(&self) -> Result<Rate, CommandError> {
        Rate::parse(&self.head.rate).ok_or_else(|| {
            CommandError::refused(format!("{} was frozen with a rate that is none", self.shown))
                .hint("Nothing was sent. Select again, or say --rate 50/s; what is there now:")
                .next(["redrive", "inspect", &self.head.channel])
        })
    }

    /// Is it for the queue that is there now, in this incarnation?
    ///
    /// # Errors
    /// [4]: the queue was made anew, or somebody changed the manifest.
    pub fn same_queue(&self, ctx: &Context, prepared: &Prepared) -> Result<(), CommandError> {
        if prepared.snapshot.is_of_the_queue_of(&self.head.snapshot) {
            return Ok(());
        }
        let queue = &prepared.snapshot.queue;
        Err(CommandError::refused(format!(
            "{} was not frozen in the {queue} that is there now: that one was made anew since, or the manifest was changed",
            self.shown
        ))
        .hint("Nothing was sent. Select again; what is there now:")
        .next(ctx.command(&["inspect", &self.head.channel])))
    }

    /// Refuses it if letters are gone or changed, unless that is allowed.
    ///
    /// # Errors
    /// [4], with who moved them, as far as that is known.
    pub fn stale(
        &self,
        ctx: &Context,
        prepared: &Prepared,
        allowed: bool,
        typed: &[String],
        who_moved: impl FnOnce() -> Option<(String, u64)>,
    ) -> Result<(), CommandError> {
        let Some(found) = prepared.found else { return Ok(()) };
        if found.gone + found.changed == 0 || allowed {
            return Ok(());
        }
        let mut what = Vec::new();
        if found.gone > 0 {
            let moved = match who_moved() {
                None => String::new(),
                Some((runs, moved)) if moved >= found.gone => format!(", moved by {runs}"),
                Some((runs, moved)) => {
                    let others = found.gone - moved;
                    format!(
                        ", {moved} of them moved by {runs} and {others} by none that this ledger knows of"
                    )
                }
            };
            let named = first_of(prepared.summary.named(Why::Gone), found.gone);
            let are = if found.gone == 1 { "is" } else { "are" };
            what.push(format!("{} of {} letters {are} gone{moved}: {named}", found.gone, self.count));
        }
        if found.changed > 0 {
            let named = first_of(prepared.summary.named(Why::Changed), found.changed);
            let are = if found.changed == 1 { "is not what it was" } else { "are not what they were" };
            what.push(format!("{} of {} {are}: {named}", found.changed, self.count));
        }
        let letters = |why: Why| {
            let named = prepared.summary.named(why).iter();
            named.map(move |letter| serde_json::json!({"letter": letter, "why": why.word()}))
        };
        let error = CommandError::refused(format!("{} is stale: {}", self.shown, what.join("; ")))
            .problems(letters(Why::Gone).chain(letters(Why::Changed)).collect());
        let at = self.head.at.format("%Y-%m-%d %H:%M:%SZ");
        if found.same == 0 {
            let hint = format!("Frozen at {at}. No letter of it can be sent any more; what is there now:");
            return Err(error.hint(hint).next(ctx.command(&["inspect", &self.head.channel])));
        }
        let mut next = typed.to_vec();
        next.push("--allow-stale".to_owned());
        Err(error.hint(format!("Frozen at {at}. To run the other {}:", found.same)).next(next))
    }
}

/// Who moved letters of a manifest that are gone since it was frozen, and how many of them, as far as this ledger
/// knows. What it does not know of may have been deleted by anybody.
pub fn who_moved(ledger: &Path, key: &str, frozen: &Frozen, prepared: &Prepared) -> Option<(String, u64)> {
    let ledger = Ledger::look(ledger).ok().flatten()?;
    let moved = ledger.moved_before(key, frozen.head.at).ok()?;
    let mut reader = Reader::open(&frozen.path).ok()?;
    let mut runs = std::collections::BTreeMap::<String, u64>::new();
    while let Ok(Some(line)) = reader.next_line() {
        if let Some(run) = moved.by(line.position.as_str())
            && prepared.is_gone(line.position.as_str())
        {
            *runs.entry(run.to_owned()).or_default() += 1;
        }
    }
    let letters = runs.values().sum();
    let words: Vec<String> = match runs.len() {
        0 => return None,
        1 => runs.into_keys().map(|run| format!("run {run}")).collect(),
        all => {
            let told = runs.into_iter().take(4).map(|(run, letters)| format!("run {run} ({letters})"));
            let more = (all > 4).then(|| format!("{} more", all - 4));
            told.chain(more).collect()
        }
    };
    Some((words.join(", "), letters))
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A manifest from stdin is kept beside the ledger while it is used: it is read twice.
fn from_stdin(ctx: &Context, ledger: &Path) -> Result<PathBuf, CommandError> {
    let ledger = Ledger::open(ledger).map_err(|error| ledger_error(ledger, &error))?;
    let path = ledger
        .manifest_path(&format!("stdin-{}", ctx.new_id(8)))
        .map_err(|error| ledger_error(ledger.path(), &error))?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let copied = file.and_then(|file| {
        let copied = copy_while_sound(std::io::stdin().lock(), file);
        // What was not copied whole is nobody's any more.
        copied.inspect_err(|_| drop(std::fs::remove_file(&path)))
    });
    match copied {
        Ok(()) => Ok(path),
        Err(error) => Err(CommandError::failed(format!(
            "could not keep the manifest from stdin in {}: {error}",
            path.display()
        ))),
    }
}

/// Copies a manifest as far as it is one: whatever comes behind a fault, however much, is not read. The fault is found
/// again in the copy.
fn copy_while_sound(input: impl BufRead, output: impl Write) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    let sound = |reader: &mut Reader<_>| loop {
        match reader.next_line() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    };
    let tee = Tee { input, output: &mut output };
    if let Err(Fault::Io(error)) = Reader::new(BufReader::new(tee)).and_then(|mut reader| sound(&mut reader))
    {
        return Err(error);
    }
    output.flush()
}

/// Reads, and writes down what was read.
struct Tee<R, W> {
    input: R,
    output: W,
}

impl<R: Read, W: Write> Read for Tee<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.output.write_all(buffer.get(..read).unwrap_or_default())?;
        Ok(read)
    }
}
