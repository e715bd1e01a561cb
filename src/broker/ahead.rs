//! Pages that a thread of its own reads ahead of who asks for them.
//!
//! On a new thread: the kernel puts that on an idle processor. One that waited for work wakes beside who woke it, and on
//! machines whose processors share no cache the two take turns for the first milliseconds.

use tokio::sync::{mpsc, oneshot};

use super::{BrokerError, ErrorKind, Result};

/// The reading end.
pub(super) struct Ahead<P> {
    pages: mpsc::Receiver<Result<Option<P>>>,
    ended: oneshot::Receiver<()>,
    action: String,
}

/// Does anybody still want pages? For who waits long for one.
pub(super) struct Asked<'a, P>(&'a mpsc::Sender<Result<Option<P>>>);

impl<P> Asked<'_, P> {
    /// See [`Asked`].
    pub(super) fn still(&self) -> bool {
        !self.0.is_closed()
    }
}

impl<P: Send + 'static> Ahead<P> {
    /// Reads with `page` until it gives nothing more, fails, or nobody wants more; one page lies ready while the next is
    /// read. `action`: what is being done, for errors.
    ///
    /// # Errors
    /// No thread could be made.
    pub(super) fn begin(
        action: String,
        mut page: impl FnMut(Asked<'_, P>) -> Result<Option<P>> + Send + 'static,
    ) -> Result<Self> {
        let (sender, pages) = mpsc::channel(1);
        let (alive, ended) = oneshot::channel();
        let reading = std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
            loop {
                let read = page(Asked(&sender));
                let more = matches!(read, Ok(Some(_)));
                if sender.blocking_send(read).is_err() || !more {
                    break;
                }
            }
            drop(page);
            drop(alive);
        });
        reading.map_err(|error| BrokerError::new(ErrorKind::Other, action.clone(), error.to_string()))?;
        Ok(Self { pages, ended, action })
    }

    /// The next page; `None` at the end, which is asked for once.
    ///
    /// # Errors
    /// What reading it failed with.
    pub(super) async fn next(&mut self) -> Result<Option<P>> {
        let cut_off = || BrokerError::new(ErrorKind::Other, self.action.clone(), "the look was cut off");
        self.pages.recv().await.unwrap_or_else(|| Err(cut_off()))
    }

    /// Wants no more, and waits until nothing reads any more.
    pub(super) async fn end(self) {
        drop(self.pages);
        let _ = self.ended.await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn counting(fails_at: u32) -> Ahead<u32> {
        let mut count = 0;
        Ahead::begin("count".to_owned(), move |_| {
            count += 1;
            match count {
                n if n == fails_at => Err(BrokerError::new(ErrorKind::Unreachable, "count", "gone")),
                n if n > 3 => Ok(None),
                n => Ok(Some(n)),
            }
        })
        .unwrap()
    }

    #[tokio::test]
    async fn pages_come_in_order_up_to_the_end_or_an_error() {
        let mut ahead = counting(9);
        let mut got = Vec::new();
        while let Some(page) = ahead.next().await.unwrap() {
            got.push(page);
        }
        assert_eq!(got, [1, 2, 3]);
        ahead.end().await;
        let mut ahead = counting(2);
        assert_eq!(ahead.next().await.unwrap(), Some(1));
        assert_eq!(ahead.next().await.unwrap_err().kind, ErrorKind::Unreachable);
        // Asked again after that: an error, not an end.
        assert!(ahead.next().await.is_err());
        ahead.end().await;
    }

    #[tokio::test]
    async fn who_waits_for_a_page_hears_that_nobody_wants_it_and_the_end_is_waited_for() {
        let (sender, waited) = std::sync::mpsc::channel();
        let ahead: Ahead<u32> = Ahead::begin("wait".to_owned(), move |asked| {
            while asked.still() {
                std::thread::yield_now();
            }
            sender.send(()).unwrap();
            Ok(Some(1))
        })
        .unwrap();
        ahead.end().await;
        waited.try_recv().unwrap();
    }
}
