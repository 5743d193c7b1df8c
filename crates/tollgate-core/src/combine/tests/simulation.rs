//! Seeded schedules with losses, cancelled callers, dropped rounds and silence. In each of them,
//! every caller is answered exactly once or cancelled; a caller that is cancelled before its round
//! was sent is not charged; no round is too large; and each cancelled caller is classified by what
//! really happened.

use core::cell::RefCell;
use std::rc::Rc;

use std::sync::Mutex;

use super::*;
use crate::store::cas::tests::{Random, Sim};

use crate::clock::{Clock as _, ManualClock, sleep_until};

const CALLERS: usize = 40;
const ROUND: usize = 8;

/// What happened, as the backend knows it.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Truth>>);

#[derive(Default)]
struct Truth {
    /// How often each job was charged.
    charged: Vec<u32>,
    /// Jobs in requests that were sent and are not answered.
    under_way: Vec<Vec<u64>>,
    random: Option<Random>,
}

impl Ledger {
    fn seeded(seed: u64) -> Self {
        let ledger = Self::default();
        ledger.with(|truth| {
            truth.charged = vec![0; CALLERS];
            truth.random = Some(Random::seeded(seed));
        });
        ledger
    }

    fn with<T>(&self, act: impl FnOnce(&mut Truth) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }

    fn below(&self, bound: usize) -> usize {
        self.with(|truth| truth.random.as_mut().unwrap().below(bound))
    }

    /// One round: reads, sends, and is answered, loses, fails or is dropped.
    async fn run<Q: Queues<u64, Answer>>(
        self,
        clock: ManualClock,
        mut round: Round<u64, Answer, Q>,
    ) {
        let retries = Retries::default().max_retries(3);
        loop {
            sleep_until(&clock, clock.now() + self.below(3) as u64).await;
            if self.below(30) == 0 {
                return; // Dropped before it was sent.
            }
            round.take_late_arrivals();
            round.mark_sent();
            assert!(round.len() <= ROUND, "a round of {}", round.len());
            let jobs: Vec<u64> = round.jobs().copied().collect();
            if jobs.is_empty() {
                return;
            }
            self.with(|truth| truth.under_way.push(jobs.clone()));
            sleep_until(&clock, clock.now() + self.below(4) as u64).await;
            let fate = self.below(10);
            self.with(|truth| {
                truth.under_way.retain(|under_way| *under_way != jobs);
                if fate > 3 {
                    for job in &jobs {
                        truth.charged[usize::try_from(*job).unwrap()] += 1;
                    }
                }
            });
            match fate {
                0..=2 if round.lost_race(&retries) == 0 => return,
                0..=2 => {}
                3 => return round.fail(&Error::new(Code::StoreUnavailable, "refused").not_sent()),
                _ => return round.finish(jobs.into_iter().map(Ok)),
            }
        }
    }
}

/// How callers wait: in one queue, or for keys.
fn simulate(seed: u64, is_keyed: bool) -> usize {
    let (clock, ledger) = (ManualClock::at(1), Ledger::seeded(seed));
    let combiner = Sum::new(1, Limits { waiting: 100, round: ROUND, concurrent: 2 });
    let keys = KeyQueues::<u64, Answer>::new(ROUND);
    let facts: Vec<CallFacts> = (0..CALLERS).map(|_| CallFacts::new()).collect();
    let answers = Rc::new(RefCell::new(vec![None; CALLERS]));
    let mut sim = Sim::seeded(seed, &clock);
    for job in 0..CALLERS {
        let (combiner, keys, facts) = (&combiner, &keys, &facts[job]);
        let (clock, ledger, answers) = (clock.clone(), ledger.clone(), Rc::clone(&answers));
        sim.spawn(async move {
            sleep_until(&clock, 1 + job as u64 / 4).await;
            let (cx, number) = (NOW.with_facts(facts), job as u64);
            let answer = if is_keyed {
                let needs: &[&str] = [&["a"][..], &["a", "b"], &["b"]][(job % 7).min(2)];
                let call = keys.submit(needs, (number, true), cx);
                let run = |round| ledger.clone().run(clock.clone(), round);
                call.answer_or_lead(|lead| lead.run_here(run)).await
            } else {
                let call = combiner.submit(0, number, cx).unwrap();
                let run = |round| ledger.clone().run(clock.clone(), round);
                call.answer_or_lead(|lead| lead.run_here(run)).await
            };
            assert!(answers.borrow_mut()[job].replace(answer).is_none(), "answered twice");
        });
    }
    let mut expired = 0;
    while sim.turn() {
        let alive = sim.alive();
        if alive.is_empty() || ledger.below(12) > 0 {
            continue;
        }
        let victim = alive[ledger.below(alive.len())];
        let was_sent =
            ledger.with(|truth| truth.under_way.iter().any(|jobs| jobs.contains(&(victim as u64))));
        sim.drop_task(victim);
        let error = facts[victim].expired();
        assert_eq!(error.is_not_sent(), !was_sent && facts[victim].is_recorded(), "seed {seed}");
        if error.is_not_sent() {
            expired += 1;
            let charged = ledger.with(|truth| truth.charged[victim]);
            assert_eq!(charged, 0, "seed {seed}: {error}");
            // And never later.
            ledger.with(|truth| truth.charged[victim] = 1_000);
        }
    }
    assert_eq!((keys.busy(), combiner.gate(0).running()), (0, 0), "seed {seed}");
    for (job, answer) in answers.borrow().iter().enumerate() {
        let charged = ledger.with(|truth| truth.charged[job]);
        match answer {
            Some(Ok(own)) => assert_eq!((*own, charged), (job as u64, 1), "seed {seed}"),
            Some(Err(error)) => {
                assert!(error.is_not_sent() && charged == 0, "seed {seed}: {charged} {error}");
            }
            None => assert!(charged <= 1 || charged == 1_000, "seed {seed}: {charged} times"),
        }
    }
    expired
}

#[test]
fn callers_of_one_queue_are_answered_once_whatever_ends() {
    let expired: usize = (0..300).map(|seed| simulate(seed, false)).sum();
    println!("seeds 0..300, {expired} callers were cancelled before they were sent");
    assert!(expired > 300, "{expired}");
}

#[test]
fn callers_of_several_keys_are_answered_once_whatever_ends() {
    let expired: usize = (0..300).map(|seed| simulate(seed, true)).sum();
    println!("seeds 0..300, {expired} callers were cancelled before they were sent");
    assert!(expired > 300, "{expired}");
}
