//! Pages that a thread of its own reads ahead of who asks for them.
//!
//! On a new thread: the kernel puts that on an idle processor. One that waited for work wakes beside who woke it, and on
//! machines whose processors share no cache the two take turns for the first milliseconds.

use std::mem::replace;

use tokio::sync::{mpsc, oneshot};

use super::{BrokerError, ErrorKind, Result};

/// Pages to come. Nothing is read before the first is asked for.
pub(super) struct Ahead<P> {
    action: String,
    state: State<P>,
}

enum State<P> {
    Idle(Read<P>),
    /// Pages, and the end of the thread that reads them.
    Reading(mpsc::Receiver<Result<Option<P>>>, oneshot::Receiver<()>),
    Over,
}

/// Reads the next page; `None` at the end.
type Read<P> = Box<dyn FnMut(Asked<'_, P>) -> Result<Option<P>> + Send>;

/// Does anybody still want pages? For who waits long for one.
pub(super) struct Asked<'a, P>(&'a mpsc::Sender<Result<Option<P>>>);

impl<P> Asked<'_, P> {
    /// See [`Asked`].
    pub(super) fn still(&self) -> bool {
        !self.0.is_closed()
    }
}

impl<P: Send + 'static> Ahead<P> {
    /// Pages that `read` gives until it gives no more or fails. `action`: what is being done, for errors.
    pub(super) fn of(
        action: String,
        read: impl FnMut(Asked<'_, P>) -> Result<Option<P>> + Send + 'static,
    ) -> Self {
        Self { action, state: State::Idle(Box::new(read)) }
    }

    /// The next page, while the one after it is read; `None` at the end and behind an error.
    ///
    /// # Errors
    /// What reading it failed with, or no thread could be made.
    pub(super) async fn next(&mut self) -> Result<Option<P>> {
        self.state = match replace(&mut self.state, State::Over) {
            State::Idle(read) => self.begin(read)?,
            begun => begun,
        };
        let State::Reading(pages, _) = &mut self.state else { return Ok(None) };
        let next = pages.recv().await;
        let next = next.unwrap_or_else(|| {
            Err(BrokerError::new(ErrorKind::Other, self.action.clone(), "the look was cut off"))
        });
        if !matches!(next, Ok(Some(_))) {
            self.end().await;
        }
        next
    }

    fn begin(&self, mut read: Read<P>) -> Result<State<P>> {
        // One lies ready while the next is read.
        let (sender, pages) = mpsc::channel(1);
        let (alive, ended) = oneshot::channel();
        let reading = std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
            loop {
                let page = read(Asked(&sender));
                let more = matches!(page, Ok(Some(_)));
                if sender.blocking_send(page).is_err() || !more {
                    break;
                }
            }
            drop(read);
            drop(alive);
        });
        match reading {
            Ok(_) => Ok(State::Reading(pages, ended)),
            Err(error) => Err(BrokerError::new(ErrorKind::Other, self.action.clone(), error.to_string())),
        }
    }

    /// Wants no more, and waits until nothing reads any more.
    pub(super) async fn end(&mut self) {
        if let State::Reading(pages, ended) = replace(&mut self.state, State::Over) {
            drop(pages);
            let _ = ended.await;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn counting(fails_at: u32) -> Ahead<u32> {
        let mut count = 0;
        Ahead::of("count".to_owned(), move |_| {
            count += 1;
            match count {
                n if n == fails_at => Err(BrokerError::new(ErrorKind::Unreachable, "count", "gone")),
                n if n > 3 => Ok(None),
                n => Ok(Some(n)),
            }
        })
    }

    #[tokio::test]
    async fn pages_come_in_order_up_to_the_end_or_an_error() {
        let mut ahead = counting(9);
        let mut got = Vec::new();
        while let Some(page) = ahead.next().await.unwrap() {
            got.push(page);
        }
        assert_eq!(got, [1, 2, 3]);
        assert_eq!(ahead.next().await.unwrap(), None);
        let mut ahead = counting(2);
        assert_eq!(ahead.next().await.unwrap(), Some(1));
        assert_eq!(ahead.next().await.unwrap_err().kind, ErrorKind::Unreachable);
        assert_eq!(ahead.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_reader_that_dies_is_told_as_an_error_and_not_as_an_end() {
        let mut ahead: Ahead<u32> = Ahead::of("read".to_owned(), |_| std::panic::resume_unwind(Box::new(())));
        assert_eq!(ahead.next().await.unwrap_err().message, "the look was cut off");
    }

    #[tokio::test]
    async fn who_waits_for_a_page_hears_that_nobody_wants_it_and_the_end_is_waited_for() {
        let (sender, waited) = std::sync::mpsc::channel();
        let mut pages = 0;
        let mut ahead: Ahead<u32> = Ahead::of("wait".to_owned(), move |asked| {
            pages += 1;
            while pages > 1 && asked.still() {
                std::thread::yield_now();
            }
            sender.send(pages).unwrap();
            Ok(Some(pages))
        });
        assert_eq!(ahead.next().await.unwrap(), Some(1));
        ahead.end().await;
        assert_eq!(waited.try_iter().collect::<Vec<_>>(), [1, 2]);
        // Nothing is read that nobody asked for.
        let mut ahead: Ahead<u32> = Ahead::of("wait".to_owned(), |_| unreachable!());
        ahead.end().await;
    }
}
