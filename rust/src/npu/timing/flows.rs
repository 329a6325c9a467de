//! What is active at one moment and how fast it advances: concurrent flows share the memories max-min fairly.

use smallvec::{smallvec, SmallVec};

use super::system::ByPort;
use super::ticks::Ticks;

/// Bits behind the point of speeds and intensities.
const SPEED_BITS: u32 = 30;
const FULL: u64 = 1 << SPEED_BITS;

/// Something that advances: a kernel, a transfer, the front end's fetching.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Time that is left if it runs alone.
    remaining: Ticks,
    /// Share of each memory's bandwidth that it takes at full speed, in 2^-30.
    intensity: ByPort<u64>,
    /// Time lost to each memory so far.
    lost: ByPort<Ticks>,
}

impl Flow {
    /// A flow that takes `alone` by itself and needs each memory for `demands` of that.
    pub fn new(alone: Ticks, demands: &[Ticks]) -> Flow {
        let share = |demand: &Ticks| {
            let whole = alone.get().max(1);
            let part = demand.get().min(whole);
            // Both are below 2^96, so 30 more bits fit.
            u64::try_from((part << SPEED_BITS).div_ceil(whole)).unwrap_or(FULL).min(FULL)
        };
        Flow {
            remaining: alone,
            intensity: demands.iter().map(share).collect(),
            lost: smallvec![Ticks::ZERO; demands.len()],
        }
    }

    /// Whether it has come to its end.
    pub fn done(&self) -> bool {
        self.remaining == Ticks::ZERO
    }

    /// Time lost to each memory that was shared.
    pub fn lost(&self) -> &[Ticks] {
        &self.lost
    }
}

/// By flow; of these, there are at most three.
type Speeds = SmallVec<[(u64, Option<usize>); 3]>;

/// What each flow asks of a memory.
type Demands = SmallVec<[u64; 3]>;

/// Speed of each flow, in 2^-30 of its speed alone, and the memory that limits it.
///
/// Each memory gives every flow what it asks for or, if that is more than there is, an equal share, what a modest flow
/// leaves going to the others. A flow runs at the speed of its scarcest memory and then asks the others for less, so
/// this is repeated until nothing changes (at most once per flow).
fn speeds(flows: &[&Flow], contention: bool) -> Speeds {
    let mut speeds: Speeds = smallvec![(FULL, None); flows.len()];
    if !contention {
        return speeds;
    }
    let ports = flows.iter().map(|flow| flow.intensity.len()).max().unwrap_or(0);
    let wanted = |port: usize| flows.iter().filter_map(|flow| flow.intensity.get(port)).sum::<u64>();
    if (0..ports).all(|port| wanted(port) <= FULL) {
        return speeds;
    }
    for _ in 0..=flows.len() {
        let before = speeds.clone();
        let mut next: Speeds = smallvec![(FULL, None); flows.len()];
        for port in 0..ports {
            let wanted: Demands = flows.iter().map(|flow| flow.intensity.get(port).copied().unwrap_or(0)).collect();
            // What a flow would take if only the other memories held it back.
            let held: Demands = wanted
                .iter()
                .zip(&before)
                .map(|(&want, &(speed, limit))| if limit == Some(port) { want } else { scale(want, speed) })
                .collect();
            let level = fair_level(&held);
            for (index, &want) in wanted.iter().enumerate() {
                if want > 0 && held[index] > level {
                    let speed = u64::try_from((u128::from(level) << SPEED_BITS) / u128::from(want)).unwrap_or(FULL);
                    if speed < next[index].0 {
                        next[index] = (speed.max(1), Some(port));
                    }
                }
            }
        }
        speeds = next;
        if speeds == before {
            break;
        }
    }
    for port in 0..ports {
        relieve(flows, &mut speeds, port);
    }
    speeds
}

/// Slows the users of a memory down together where the repetition above ended before it settled.
fn relieve(flows: &[&Flow], speeds: &mut [(u64, Option<usize>)], port: usize) {
    let want = |index: usize| flows[index].intensity.get(port).copied().unwrap_or(0);
    let used: u64 = speeds.iter().enumerate().map(|(index, &(speed, _))| scale(want(index), speed)).sum();
    if used <= FULL {
        return;
    }
    for (_, speed) in speeds.iter_mut().enumerate().filter(|(index, _)| want(*index) > 0) {
        let slower = u128::from(speed.0) * u128::from(FULL) / u128::from(used);
        *speed = (u64::try_from(slower).unwrap_or(FULL).max(1), speed.1.or(Some(port)));
    }
}

fn scale(value: u64, speed: u64) -> u64 {
    u64::try_from((u128::from(value) * u128::from(speed)) >> SPEED_BITS).unwrap_or(u64::MAX)
}

/// The level at which `demands` cut off there add up to no more than a full memory; `u64::MAX` if all fit.
fn fair_level(demands: &[u64]) -> u64 {
    if demands.iter().sum::<u64>() <= FULL {
        return u64::MAX;
    }
    let mut sorted = Demands::from_slice(demands);
    sorted.sort_unstable();
    let (mut left, mut takers) = (FULL, sorted.len() as u64);
    for demand in sorted {
        let share = left / takers;
        if demand > share {
            return share;
        }
        left -= demand;
        takers -= 1;
    }
    u64::MAX
}

/// Advances all flows until the first of them ends; returns the time that took.
///
/// Progress is rounded up to a tick, so an event may be early by 2^-16 cycle per flow.
pub fn advance(flows: &mut [&mut Flow], contention: bool) -> Ticks {
    let view: SmallVec<[&Flow; 3]> = flows.iter().map(|flow| &**flow).collect();
    let speeds = speeds(&view, contention);
    let time = view
        .iter()
        .zip(&speeds)
        .map(|(flow, &(speed, _))| (flow.remaining.get() << SPEED_BITS).div_ceil(u128::from(speed)))
        .min()
        .unwrap_or(0);
    drop(view);
    for (flow, (speed, limit)) in flows.iter_mut().zip(speeds) {
        // `time` is at most `remaining << 30 / speed` of this flow, so the product stays below 2^127.
        let progress = Ticks::raw((time * u128::from(speed)).div_ceil(1 << SPEED_BITS));
        flow.remaining = flow.remaining.saturating_sub(progress);
        if let Some(port) = limit {
            flow.lost[port] += Ticks::raw(time).saturating_sub(progress);
        }
    }
    Ticks::raw(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(alone: u128, demands: &[u128]) -> Flow {
        Flow::new(Ticks::cycles(alone), &demands.iter().map(|&d| Ticks::cycles(d)).collect::<Vec<_>>())
    }

    #[test]
    fn flows_on_different_memories_do_not_meet() {
        let (mut a, mut b) = (flow(100, &[100, 0]), flow(60, &[0, 60]));
        assert_eq!(advance(&mut [&mut a, &mut b], true).ceil(), 60);
        assert!(b.done() && !a.done());
        assert_eq!(advance(&mut [&mut a], true).ceil(), 40);
    }

    #[test]
    fn a_full_memory_is_halved() {
        let (mut a, mut b) = (flow(100, &[100]), flow(100, &[100]));
        assert_eq!(advance(&mut [&mut a, &mut b], true).ceil(), 200);
        assert!(a.done() && b.done());
        assert_eq!(a.lost()[0].ceil(), 100);
    }

    #[test]
    fn a_modest_flow_is_not_slowed() {
        // A quarter of the bandwidth against all of it: the greedy one gets three quarters.
        let (mut modest, mut greedy) = (flow(300, &[75]), flow(300, &[300]));
        assert_eq!(advance(&mut [&mut modest, &mut greedy], true).ceil(), 300);
        assert!(modest.done());
        assert_eq!(advance(&mut [&mut greedy], true).ceil(), 75);
    }

    #[test]
    fn what_one_memory_holds_back_the_other_gives_away() {
        // Both fill memory 0, so they get half; memory 1 then has room for the third flow.
        let mut a = flow(100, &[100, 100]);
        let mut b = flow(100, &[100, 0]);
        let mut c = flow(50, &[0, 25]);
        assert_eq!(advance(&mut [&mut a, &mut b, &mut c], true).ceil(), 50);
        assert!(c.done() && c.lost()[1] == Ticks::ZERO);
    }

    #[test]
    fn without_contention_everybody_is_alone() {
        let (mut a, mut b) = (flow(100, &[100]), flow(100, &[100]));
        assert_eq!(advance(&mut [&mut a, &mut b], false).ceil(), 100);
    }
}
