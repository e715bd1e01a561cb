//! Moving letters on SQS: receive → send → record → delete, with only what is in `Successful` counted as
//! done (S20), a heartbeat on what is held, and no hidden retry of a send (m13).

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::browse::{self, Queue};
use super::calls::{self, Came, Received};
use super::client::Client;
use super::convert;
use super::window::Window;
use crate::broker::{
    Ask, Claimed, Claims, ErrorKind, Intent, Missing, Mover, Outgoing, Proof, Published, Receipt, Result,
    Settled, Task,
};
use crate::letter::RawLetter;

/// FIFO: a send may be repeated this long after its first try, well inside the five minutes of SQS's own
/// deduplication (protocol §6).
pub(super) const RESEND_WITHIN: Duration = Duration::from_secs(240);
/// Letters that came before they were wanted are kept up to this many bytes; beyond, only their ids are, and
/// they are received once more.
const KEPT_BYTES: u64 = 16 << 20;

/// Letters of a step from which on the next ones are received beside the run: below, the rate is what is waited for.
const AHEAD_FROM: usize = 40;
/// Most bytes that are received so.
const AHEAD_BYTES: usize = 8 << 20;

/// One message in our hands.
pub(super) struct Held {
    /// SQS's own handle, of its newest receive.
    handle: String,
    /// Which of our claims it is: a receipt of an earlier one is not valid for this one (m21).
    claim: u64,
    /// Given to the engine; else it came unasked and is kept out of sight, so that it does not come again.
    handed: bool,
    /// Until when SQS hides it, by our clock.
    until: Duration,
}

/// The session of one run.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) source: Queue,
    pub(super) target: Queue,
    claim_for: Duration,
    /// By message id, which is the letter's position.
    held: HashMap<String, Held>,
    /// Letters that came before they were wanted, in order, with the bytes of all.
    kept: VecDeque<(String, RawLetter)>,
    kept_bytes: u64,
    /// Deleted by us. SQS may hand one out once more all the same.
    settled: HashSet<String>,
    claims: u64,
    /// Was the last step so large that receiving is worth doing beside it?
    fast: bool,
    /// The next letters, on their way while those before are recorded and sent.
    coming: Option<Coming>,
    /// About how many have not come yet.
    to_come: u64,
    window: Window,
    /// Since when nothing new has come although letters are in flight elsewhere.
    dry_since: Option<Duration>,
}

/// Receives beside the run, on a task of their own: neither the making of copies nor a commit of the ledger holds them up.
struct Coming {
    task: JoinHandle<Received>,
    asked: usize,
    /// Until when SQS hides at least what they bring.
    until: Duration,
}

/// Letters of a FIFO queue go to a FIFO queue, others to another.
pub(super) fn same_kind(client: &Client, dead_letters: &Queue, target: &Queue) -> Result<()> {
    if dead_letters.fifo == target.fifo {
        return Ok(());
    }
    let action = format!("send from {} to {}", dead_letters.name, target.name);
    let what = "one is a FIFO queue and the other is not; group order would be lost or asked for in vain";
    Err(client.fault(ErrorKind::Rejected, action, what))
}

impl Session {
    pub(super) async fn begin(client: &Client, dead_letters: &str, task: &Task) -> Result<Self> {
        let source = Queue::read(client, dead_letters).await?;
        let target = Queue::read(client, &task.target).await?;
        same_kind(client, &source, &target)?;
        if !task.snapshot.is_empty() && task.snapshot != source.identity() {
            let what = "it was made anew since the selection was frozen: its letters are other ones";
            return Err(client.fault(ErrorKind::Stale, format!("open {dead_letters}"), what));
        }
        let to_come = source.visible;
        let window = Window::of(source.fifo);
        Ok(Self {
            client: client.clone(),
            source,
            target,
            claim_for: task.claim_for.clamp(Duration::from_secs(1), Duration::from_secs(43_000)),
            held: HashMap::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            settled: HashSet::new(),
            claims: 0,
            fast: false,
            coming: None,
            to_come,
            window,
            dry_since: None,
        })
    }

    /// The letter that a receipt of ours is for, if that claim is still the one we have.
    pub(super) fn holds(&self, receipt: &Receipt) -> Option<(&str, &Held)> {
        let (id, claim) = receipt.0.rsplit_once('#')?;
        let (id, held) = self.held.get_key_value(id)?;
        (claim.parse() == Ok(held.claim)).then_some((id.as_str(), held))
    }

    /// SQS's own handle for a receipt of ours.
    pub(super) fn handle(&self, receipt: &Receipt) -> Option<String> {
        self.holds(receipt).map(|(_, held)| held.handle.clone())
    }

    /// Notes what came of deletes.
    fn settled(&mut self, batch: &[Receipt], outcomes: &[Settled]) {
        for (receipt, outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Settled::Settled => {
                    if let Some((id, _)) = self.forget(receipt) {
                        self.settled.insert(id);
                    }
                }
                // A later receive brings a new handle (S21); until then we do not hold it.
                Settled::Stale => drop(self.forget(receipt)),
                // Still ours, and the engine will ask for it again.
                Settled::Failed(_) => {
                    if let Some(id) = self.holds(receipt).map(|(id, _)| id.to_owned())
                        && let Some(held) = self.held.get_mut(&id)
                    {
                        held.handed = false;
                    }
                }
            }
        }
    }

    fn forget(&mut self, receipt: &Receipt) -> Option<(String, Held)> {
        let id = self.holds(receipt)?.0.to_owned();
        let held = self.held.remove(&id)?;
        Some((id, held))
    }

    /// Holds it no longer; SQS hides it until its time is over.
    pub(super) fn let_go(&mut self, receipt: &Receipt) {
        drop(self.forget(receipt));
    }

    /// Notes a message that came, and whether it is a new one in our hands.
    fn note(&mut self, came: Came, until: Duration) -> Option<RawLetter> {
        let Came { handle, letter } = came;
        let id = letter.position.as_str();
        if let Some(known) = self.held.get_mut(id) {
            // Its time had run out, or SQS delivered twice: only the newest handle counts.
            (known.handle, known.until) = (handle, until);
            return None;
        }
        self.claims += 1;
        self.to_come = self.to_come.saturating_sub(1);
        self.held.insert(id.to_owned(), Held { handle, claim: self.claims, handed: false, until });
        Some(letter)
    }

    /// Gives a letter that we hold to the engine, if it wants it; else keeps it for later.
    fn give(&mut self, letter: RawLetter, ask: &Ask<'_>, claims: &mut Claims) {
        let id = letter.position.as_str().to_owned();
        let Some(held) = self.held.get_mut(&id) else { return };
        if claims.got.len() < ask.limit
            && let Some(seq) = (ask.wanted)(&letter.position)
        {
            held.handed = true;
            let receipt = Receipt(format!("{id}#{}", held.claim));
            claims.got.push(Claimed { seq, receipt, letter });
        } else if self.kept_bytes + letter.size() <= KEPT_BYTES {
            self.kept_bytes += letter.size();
            self.kept.push_back((id, letter));
        }
    }

    /// What is in our hands already and is wanted now: given, or shown again where only its id was kept.
    async fn give_kept(&mut self, ask: &Ask<'_>, claims: &mut Claims) -> Result<()> {
        let mut known: HashSet<String> = HashSet::new();
        self.kept_bytes = 0;
        for (id, letter) in std::mem::take(&mut self.kept) {
            known.insert(id);
            self.give(letter, ask, claims);
        }
        let mut again: Vec<(u64, String, String)> = Vec::new();
        for (id, held) in self.held.iter().filter(|(id, held)| !held.handed && !known.contains(*id)) {
            if (ask.wanted)(&crate::letter::Position::new(id.clone())).is_some() {
                again.push((held.claim, id.clone(), held.handle.clone()));
            }
        }
        again.sort();
        let handles: Vec<String> = again.iter().map(|(_, _, handle)| handle.clone()).collect();
        for (_, id, _) in again {
            self.held.remove(&id);
        }
        browse::for_all(&self.client, &self.source, &handles, 0).await.map(|_| ())
    }

    /// Takes what was received into our hands; returns how many messages came, and the new ones.
    async fn take_in(&mut self, received: Received, until: Duration) -> Result<(usize, Vec<RawLetter>)> {
        let (mut fresh, mut twice) = (Vec::new(), Vec::new());
        for came in received.came {
            match self.settled.contains(came.letter.position.as_str()) {
                // Deleted, and handed out once more: its copy is there, so it is never sent.
                true => twice.push(came.handle),
                false => fresh.extend(self.note(came, until)),
            }
        }
        self.delete_again(&twice).await;
        match received.broken {
            Some(error) if fresh.is_empty() => Err(error),
            _ => Ok((received.count, fresh)),
        }
    }

    async fn receive(&self, most: usize) -> Received {
        calls::receive(&self.client, &self.source, self.claim_for, (most, usize::MAX), self.claims).await
    }

    /// Begins to receive what the next claim will want, about as many as this one.
    fn receive_ahead(&mut self, most: usize) {
        let missing = most.saturating_sub(self.kept.len());
        let asked = missing.min(usize::try_from(self.to_come).unwrap_or(usize::MAX));
        // FIFO: what is received locks its group, and what stands behind it is not wanted yet.
        if asked == 0 || !self.fast || self.source.fifo || self.coming.is_some() {
            return;
        }
        let until = self.client.clock.elapsed() + self.claim_for;
        let (client, source, hide) = (self.client.clone(), self.source.clone(), self.claim_for);
        let first = self.claims;
        let task =
            tokio::spawn(
                async move { calls::receive(&client, &source, hide, (asked, AHEAD_BYTES), first).await },
            );
        self.coming = Some(Coming { task, asked, until });
    }

    /// Waits for what is received beside the run, and keeps it. An error is the next claim's to meet again.
    async fn take_what_came(&mut self) {
        let Some(Coming { task, asked, until }) = self.coming.take() else { return };
        let received = task.await.unwrap_or_default();
        let come = received.count;
        let (_, fresh) = self.take_in(received, until).await.unwrap_or_default();
        if come < asked.min(convert::BATCH) {
            // Fewer are there than SQS said.
            self.to_come = 0;
        }
        for letter in fresh {
            self.kept_bytes += letter.size();
            self.kept.push_back((letter.position.as_str().to_owned(), letter));
        }
    }

    /// What can be had now, whatever it is: for a relay, which comes again anyway and asks for no counts.
    pub(super) async fn claim_any(&mut self, limit: usize) -> Result<Claims> {
        let any = |_: &crate::letter::Position| Some(0);
        let ask = Ask { next: &[], wanted: &any, limit };
        let mut claims = Claims::default();
        self.give_kept(&ask, &mut claims).await?;
        // One call while there is nothing to do, and several once an answer was full.
        let mut most = limit.min(convert::BATCH);
        while claims.got.len() < limit && most > 0 {
            let until = self.client.clock.elapsed() + self.claim_for;
            let received = self.receive(most).await;
            let (came, fresh) = match self.take_in(received, until).await {
                Ok(answer) => answer,
                Err(_) if !claims.got.is_empty() => break,
                Err(error) => return Err(error),
            };
            for letter in fresh {
                self.give(letter, &ask, &mut claims);
            }
            most = if came < convert::BATCH || most > convert::BATCH {
                0
            } else {
                limit - claims.got.len().min(limit)
            };
        }
        Ok(claims)
    }

    /// Is this the end, although letters that are wanted have not come?
    async fn is_end(&mut self, came: usize, empty: u32) -> Result<bool> {
        // Followers of what the engine holds come when that is gone.
        if self.source.fifo && self.held.values().any(|held| held.handed) {
            return Ok(false);
        }
        let counts = Queue::read(&self.client, &self.source.name).await?;
        let most = self.client.most_in_flight;
        if self.held.len() >= most || counts.visible > 0 && counts.in_flight >= most as u64 {
            return Err(browse::blocked(&self.client, &counts));
        }
        let now = self.client.clock.elapsed();
        if counts.in_flight > self.held.len() as u64 {
            // Somebody else holds letters, perhaps a run that died: its claims end by themselves.
            let since = *self.dry_since.get_or_insert(now);
            return Ok(now.saturating_sub(since) > self.claim_for);
        }
        Ok(counts.visible == 0 || came > 0 || empty >= 3)
    }
}

#[async_trait]
impl Mover for Session {
    async fn claim(&mut self, ask: &Ask<'_>) -> Result<Claims> {
        let mut claims = Claims::default();
        self.take_what_came().await;
        self.give_kept(ask, &mut claims).await?;
        let mut empty = 0;
        while claims.got.len() < ask.limit {
            let until = self.client.clock.elapsed() + self.claim_for;
            let missing = ask.limit - claims.got.len();
            let begun = self.client.clock.elapsed();
            let received = self.receive(missing).await;
            self.window.told(missing, received.count, self.client.clock.elapsed().saturating_sub(begun));
            let (came, fresh) = match self.take_in(received, until).await {
                Ok(answer) => answer,
                Err(_) if !claims.got.is_empty() => break,
                Err(error) => return Err(error),
            };
            if !fresh.is_empty() {
                (empty, self.dry_since) = (0, None);
                for letter in fresh {
                    self.give(letter, ask, &mut claims);
                }
                continue;
            }
            empty += 1;
            if !claims.got.is_empty() {
                break;
            }
            // S23: an empty answer is the end only if the counts agree, or after several of them.
            if self.is_end(came, empty).await? {
                claims.exhausted = true;
                break;
            }
            if empty >= 3 {
                break;
            }
        }
        // All that came was wanted: so will be what comes next.
        if claims.got.len() == ask.limit {
            self.receive_ahead(ask.limit);
        }
        if claims.exhausted {
            let unseen = ask.next.iter().filter(|wanted| !self.held.contains_key(wanted.position.as_str()));
            // "Not visible" is not "gone" here (m15).
            claims.missing = unseen.map(|wanted| (wanted.seq, Missing::NotSeen)).collect();
        }
        Ok(claims)
    }

    async fn publish(&mut self, batch: &[Outgoing]) -> Vec<Result<Published>> {
        self.send_all(batch).await
    }

    async fn settle(&mut self, batch: &[Receipt]) -> Vec<Settled> {
        let outcomes = self.delete_all(batch).await;
        self.settled(batch, &outcomes);
        outcomes
    }

    async fn step(
        &mut self,
        publish: &[Outgoing],
        settle: &[Receipt],
    ) -> (Vec<Result<Published>>, Vec<Settled>) {
        self.fast = publish.len() >= AHEAD_FROM;
        let (published, settled) = tokio::join!(self.send_all(publish), self.delete_all(settle));
        self.settled(settle, &settled);
        (published, settled)
    }

    fn most_held(&self) -> usize {
        self.window.most()
    }

    async fn release(&mut self, batch: &[Receipt]) -> Result<()> {
        let mut gone: Vec<(u64, String)> = batch
            .iter()
            .filter_map(|receipt| self.forget(receipt))
            .map(|(_, held)| (held.claim, held.handle))
            .collect();
        gone.sort();
        let handles: Vec<String> = gone.into_iter().map(|(_, handle)| handle).collect();
        browse::for_all(&self.client, &self.source, &handles, 0).await.map(|_| ())
    }

    async fn prove(&mut self, intents: &[Intent]) -> Result<Vec<Proof>> {
        let now = self.client.clock.now();
        Ok(intents
            .iter()
            .map(|intent| match self.target.fifo && now.since(intent.first_intent) < RESEND_WITHIN {
                true => Proof::ResendSafe,
                // SQS cannot look up what was sent, and a miss would prove nothing (m12).
                false => Proof::Unknown,
            })
            .collect())
    }

    async fn renew(&mut self, _held: &[Receipt]) -> Result<()> {
        // It is held too.
        self.take_what_came().await;
        let now = self.client.clock.elapsed();
        // Letters that nobody asked for are held too: given back now, SQS would hand them out again and again.
        // They get longer at a time, since they can be many.
        for (handed, longer) in [(true, self.claim_for), (false, self.claim_for * 10)] {
            let longer = longer.min(Duration::from_secs(43_000));
            let due: Vec<(String, String)> = self
                .held
                .iter()
                .filter(|(_, held)| held.handed == handed && (handed || held.until < now + self.claim_for))
                .map(|(id, held)| (held.handle.clone(), id.clone()))
                .collect();
            let handles: Vec<String> = due.iter().map(|(handle, _)| handle.clone()).collect();
            let seconds = i32::try_from(longer.as_secs()).unwrap_or(43_000);
            let refused = browse::for_all(&self.client, &self.source, &handles, seconds).await?;
            let refused: HashSet<String> = refused.into_iter().map(|(handle, _)| handle).collect();
            for (handle, id) in due {
                if refused.contains(&handle) {
                    // Somebody else has it by now (S21): its receipt is worth nothing any more.
                    self.held.remove(&id);
                } else if let Some(held) = self.held.get_mut(&id) {
                    held.until = now + longer;
                }
            }
        }
        Ok(())
    }

    async fn end(mut self: Box<Self>) -> Result<()> {
        self.take_what_came().await;
        let all: Vec<Receipt> =
            self.held.iter().map(|(id, held)| Receipt(format!("{id}#{}", held.claim))).collect();
        self.release(&all).await
    }
}
