//! The model's broker: everything that may come of a send, a settle, a transaction, or of dying in one.

use super::{Config, Proofs, World};
use crate::run::lanes::Seq;
use crate::run::machine::{FateOf, Reply, SettleReply};

impl World {
    pub(super) fn send(
        &mut self,
        config: &Config,
        publish: &[Seq],
        settle: &[Seq],
        next: &mut Vec<World>,
    ) -> Result<(), String> {
        if !self.process.as_ref().unwrap().lock && !publish.is_empty() {
            return Err("§8.2: sends without the lock".to_owned());
        }
        // What each publish may come to: (answer, arrives now, arrives late, costs a fault).
        let resend = config.proofs == Proofs::Resend;
        let unknown = Reply::Unknown { resend };
        let publishes = [
            (Some(Reply::Ack), true, false, 0),
            (Some(Reply::Transient), false, false, 1),
            (Some(Reply::Permanent), false, false, 1),
            (Some(unknown), true, false, 1),
            (Some(unknown), false, false, 1),
            (Some(unknown), false, true, 1),
        ];
        let settles =
            [(SettleReply::Settled, true, 0), (SettleReply::Stale, false, 1), (SettleReply::Failed, true, 1)];
        let mut worlds = vec![(self.clone(), Vec::new(), Vec::new())];
        for seq in settle {
            let mut more = Vec::new();
            for (world, answers, settled) in worlds {
                for (reply, removed, cost) in settles {
                    let mut world: World = world.clone();
                    let mut settled: Vec<(Seq, SettleReply)> = settled.clone();
                    if cost > world.faults {
                        continue;
                    }
                    world.faults -= cost;
                    if removed {
                        world.remove_original(config, *seq)?;
                    }
                    settled.push((*seq, reply));
                    more.push((world, Vec::clone(&answers), settled));
                }
            }
            worlds = more;
        }
        for seq in publish {
            let mut more = Vec::new();
            for (world, answers, settled) in worlds {
                for (reply, now, late, cost) in publishes {
                    let mut world: World = world.clone();
                    let mut answers: Vec<(Seq, Reply)> = answers.clone();
                    if cost > world.faults {
                        continue;
                    }
                    world.faults -= cost;
                    if now {
                        world.arrive(config, *seq)?;
                    }
                    if late {
                        world.late.push(*seq);
                    }
                    answers.extend(reply.map(|reply| (*seq, reply)));
                    more.push((world, answers, settled.clone()));
                }
            }
            worlds = more;
        }
        for (mut world, answers, settled) in worlds {
            if world.faults > 0 {
                // The process dies before it hears any answer.
                next.push(world.crash(config));
            }
            world.process.as_mut().unwrap().machine.sent(&answers, &settled);
            next.push(world);
        }
        self.die_while_sending(config, publish, settle, next)
    }

    /// Killed in the middle: any part of the sends is there or on its way, any part of the settles done.
    fn die_while_sending(
        &self,
        config: &Config,
        publish: &[Seq],
        settle: &[Seq],
        next: &mut Vec<World>,
    ) -> Result<(), String> {
        if self.faults == 0 {
            return Ok(());
        }
        let mut worlds = vec![self.crash(config)];
        for seq in settle {
            let mut more = worlds.clone();
            for world in &mut worlds {
                world.dlq.remove(seq);
            }
            more.append(&mut worlds);
            worlds = more;
        }
        for seq in publish {
            let mut more = worlds.clone();
            for world in &worlds {
                let mut late = world.clone();
                late.late.push(*seq);
                more.push(late);
                let mut there = world.clone();
                there.arrive(config, *seq)?;
                more.push(there);
            }
            worlds = more;
        }
        next.append(&mut worlds);
        Ok(())
    }

    /// A transaction during which the next one is picked: sent right behind it if that moved everything, else
    /// given back.
    pub(super) fn transfer_two(
        &mut self,
        config: &Config,
        batch: &[Seq],
        next: &mut Vec<World>,
    ) -> Result<(), String> {
        let mut world = self.clone();
        let ahead = world.process.as_mut().unwrap().machine.ahead();
        if ahead.is_empty() {
            return Ok(());
        }
        let mut came = Vec::new();
        world.transfer(config, batch, &mut came)?;
        let mut came = came.into_iter();
        // What moved everything comes first.
        if let Some(mut moved) = came.next() {
            let mut asked_to_stop = moved.clone();
            asked_to_stop.process.as_mut().unwrap().machine.withdrawn(&ahead);
            next.push(asked_to_stop);
            moved.transfer(config, &ahead, next)?;
        }
        for mut world in came {
            if let Some(process) = &mut world.process {
                process.machine.withdrawn(&ahead);
            }
            next.push(world);
        }
        Ok(())
    }

    /// A transaction during which lines are read and letters claimed: taken in at once if all are there, else
    /// when the transaction has its answer.
    pub(super) fn transfer_reading_on(
        &mut self,
        config: &Config,
        batch: &[Seq],
        next: &mut Vec<World>,
    ) -> Result<(), String> {
        let mut world = self.clone();
        let process = world.process.as_ref().unwrap();
        let room = if process.resumed { 0 } else { process.machine.room() };
        if process.offered < config.groups.len() && room > 0 {
            world.offer(config, room);
        }
        let process = world.process.as_mut().unwrap();
        let asked = process.machine.claim_ahead(process.offered < config.groups.len());
        if asked.is_empty() {
            return Ok(());
        }
        if asked.iter().all(|seq| world.dlq.contains(seq)) {
            let mut plain = world.clone();
            plain.process.as_mut().unwrap().machine.claimed(&asked, &asked, &[], false);
            plain.transfer(config, batch, next)?;
            plain.transfer_two(config, batch, next)?;
        }
        let mut came = Vec::new();
        world.transfer(config, batch, &mut came)?;
        for mut world in came {
            match world.process.is_some() {
                true => world.claim(config, &asked, next),
                false => next.push(world),
            }
        }
        Ok(())
    }

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
                    } else if follows && !crate::proof::mutation::mutated("t08") {
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
