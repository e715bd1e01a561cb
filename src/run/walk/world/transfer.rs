//! Copy and removal in one transaction, with everything that can be answered or lost on the way.

use super::{Config, World};
use crate::run::lanes::Seq;
use crate::run::machine::{FateOf, Reply};

impl World {
    pub(super) fn transfer(
        &mut self,
        config: &Config,
        batch: &[Seq],
        next: &mut Vec<World>,
    ) -> Result<(), String> {
        if !self.process.as_ref().unwrap().lock {
            return Err("§8.2: sends without the lock".to_owned());
        }
        let mut done = self.clone();
        for seq in batch {
            // The transaction's own condition: exactly one row under my receipt.
            if done.dlq.remove(seq) {
                done.arrive(config, *seq)?;
            }
        }
        let fates: Vec<_> = batch.iter().map(|seq| (*seq, FateOf::Moved)).collect();
        let mut world = done.clone();
        world.process.as_mut().unwrap().machine.transferred(&fates);
        next.push(world);
        if self.faults == 0 {
            return Ok(());
        }
        next.push(done.crash(config));
        next.push(self.crash(config));
        for (before, reply) in [
            (&done, Reply::Unknown { resend: false }),
            (&*self, Reply::Unknown { resend: false }),
            (&*self, Reply::Transient),
            (&*self, Reply::Session),
        ] {
            let mut world = before.clone();
            world.faults -= 1;
            world.process.as_mut().unwrap().machine.transfer_failed(batch, reply);
            next.push(world);
        }
        for refused in batch {
            for (fate, followers) in [(FateOf::Refused, FateOf::Withdrawn), (FateOf::Lost, FateOf::Lost)] {
                let mut world = self.clone();
                world.faults -= 1;
                let mut fates = Vec::new();
                let group = config.groups[*refused as usize];
                for seq in batch {
                    let follows = group.is_some() && config.groups[*seq as usize] == group && seq > refused;
                    if seq == refused {
                        fates.push((*seq, fate));
                    } else if follows && !crate::run::mutation::mutated("t08") {
                        fates.push((*seq, followers));
                    } else {
                        world.dlq.remove(seq);
                        world.arrive(config, *seq)?;
                        fates.push((*seq, FateOf::Moved));
                    }
                }
                world.process.as_mut().unwrap().machine.transferred(&fates);
                next.push(world);
            }
        }
        Ok(())
    }
}
