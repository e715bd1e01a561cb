//! One run per dead-letter queue (protocol §8.1): a row with owner, epoch and lease. A dead process on this
//! host loses it at once, any other when its lease ends.

use std::time::Duration;

use rusqlite::{OptionalExtension, TransactionBehavior, params};
use serde::Serialize;

use super::{Ledger, LedgerError, Result};
use crate::clock::Time;

/// Who holds, or asks for, a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Random per process start (r12).
    #[serde(skip)]
    pub owner: String,
    /// Run.
    pub run: String,
    /// `mira@ops-2`.
    pub who: String,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: i32,
    /// When that process started, in the kernel's ticks, so that a reused number is another process.
    pub pid_start: i64,
    /// Last sign of life.
    pub beat: Time,
    /// Until when it holds without another sign.
    pub lease_end: Time,
}

/// A held lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The dead-letter queue.
    pub dlq: String,
    /// Who holds it.
    pub owner: String,
    /// One more with every taking over.
    pub epoch: i64,
}

/// Name of this host.
pub fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// When a process of this host started, in the kernel's ticks; `None`: there is none of this number.
pub fn process_start(pid: i32) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold spaces and brackets; the fields begin behind the last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    if fields.next() == Some("Z") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl Holder {
    /// Is its process surely dead? Only the same host can tell.
    fn is_dead(&self) -> bool {
        self.host == this_host() && process_start(self.pid) != Some(self.pid_start)
    }
}

impl Ledger {
    /// Takes the lock of `dlq`, or says who holds it.
    ///
    /// # Errors
    /// The database's.
    pub fn lock(
        &mut self,
        dlq: &str,
        me: &Holder,
        now: Time,
        lease: Duration,
        take_over: bool,
    ) -> Result<std::result::Result<Lock, Holder>> {
        self.durable(true)?;
        let transaction = self.sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let held: Option<(i64, Holder)> = transaction
            .query_row(
                "SELECT epoch, owner, run, who, host, pid, pid_start, beat, lease_end FROM locks WHERE dlq = ?1",
                [dlq],
                |row| {
                    let holder = Holder {
                        owner: row.get(1)?,
                        run: row.get(2)?,
                        who: row.get(3)?,
                        host: row.get(4)?,
                        pid: row.get(5)?,
                        pid_start: row.get(6)?,
                        beat: Time::from_millis(row.get(7)?),
                        lease_end: Time::from_millis(row.get(8)?),
                    };
                    Ok((row.get(0)?, holder))
                },
            )
            .optional()?;
        let epoch = match held {
            None => 1,
            Some((epoch, holder))
                if take_over || holder.owner.is_empty() || holder.lease_end <= now || holder.is_dead() =>
            {
                epoch + 1
            }
            Some((_, holder)) => return Ok(Err(holder)),
        };
        transaction.execute(
            "INSERT INTO locks (dlq, owner, epoch, run, who, host, pid, pid_start, beat, lease_end) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
             ON CONFLICT (dlq) DO UPDATE SET owner = ?2, epoch = ?3, run = ?4, who = ?5, host = ?6, pid = ?7, \
             pid_start = ?8, beat = ?9, lease_end = ?10",
            params![
                dlq,
                me.owner,
                epoch,
                me.run,
                me.who,
                me.host,
                me.pid,
                me.pid_start,
                now.millis(),
                now.plus(lease).millis()
            ],
        )?;
        transaction.commit()?;
        Ok(Ok(Lock { dlq: dlq.to_owned(), owner: me.owner.clone(), epoch }))
    }

    /// A sign of life.
    ///
    /// # Errors
    /// [`LedgerError::LockLost`], or the database's.
    pub fn beat(&mut self, lock: &Lock, now: Time, lease: Duration) -> Result<()> {
        self.durable(false)?;
        let changed = self.sql.execute(
            "UPDATE locks SET beat = ?4, lease_end = ?5 WHERE dlq = ?1 AND owner = ?2 AND epoch = ?3",
            params![lock.dlq, lock.owner, lock.epoch, now.millis(), now.plus(lease).millis()],
        )?;
        if changed == 1 { Ok(()) } else { Err(LedgerError::LockLost) }
    }

    /// Gives the lock back; the epoch stays, so that what comes late is still refused.
    ///
    /// # Errors
    /// The database's.
    pub fn unlock(&mut self, lock: &Lock) -> Result<()> {
        self.durable(true)?;
        self.sql.execute(
            "UPDATE locks SET owner = '', lease_end = 0 WHERE dlq = ?1 AND owner = ?2 AND epoch = ?3",
            params![lock.dlq, lock.owner, lock.epoch],
        )?;
        Ok(())
    }

    /// Who holds `dlq` now.
    ///
    /// # Errors
    /// The database's.
    pub fn holder(&self, dlq: &str) -> Result<Option<Holder>> {
        let holder = self
            .sql
            .query_row(
                "SELECT owner, run, who, host, pid, pid_start, beat, lease_end FROM locks \
                 WHERE dlq = ?1 AND owner <> ''",
                [dlq],
                |row| {
                    Ok(Holder {
                        owner: row.get(0)?,
                        run: row.get(1)?,
                        who: row.get(2)?,
                        host: row.get(3)?,
                        pid: row.get(4)?,
                        pid_start: row.get(5)?,
                        beat: Time::from_millis(row.get(6)?),
                        lease_end: Time::from_millis(row.get(7)?),
                    })
                },
            )
            .optional()?;
        Ok(holder.filter(|holder| !holder.is_dead()))
    }
}
