//! What is fuzzed: functions of any bytes that must neither panic nor break what they assert.
//!
//! `fuzz_targets` hands them to libFuzzer, `rust/tests/fuzz.rs` runs them on the seeds and on damaged ones with `cargo test`.
//! Owns how bytes are read as inputs; what is right is for the library's own checkers to say.

use ethoscade_core::npu::timing::{self, Port, System};
use ethoscade_core::npu::{disassemble::disassemble, payload, weights as codec, Accelerator, Fault, Machine};
use ethoscade_core::usmp::{
    check::check, lower_bounds, plan, Algorithm, AllowedOverlap, Buffer, Gap, Lifetime, Params, Pool, Problem,
    UsmpError,
};

/// Bytes of the constants and of the arena that a payload runs in.
const MEMORY_BYTES: [usize; 2] = [1024, 1 << 17];
/// A damaged kernel may ask for any amount of work; the seeds need less than this.
const WORK: u64 = 1 << 20;

/// A driver payload: listed, timed and run on the device that it names, in memories of its own.
pub fn payload(data: &[u8]) {
    let named = payload::parse(data).ok().and_then(|parsed| Accelerator::by_config(parsed.config_word));
    let device = named.unwrap_or(&Accelerator::all()[0]);
    let _ = disassemble(data);
    let port = |name: &str, bytes_per_cycle| Port {
        name: name.into(),
        bytes_per_cycle: (bytes_per_cycle, 1),
        read_latency: 32,
        write_latency: 32,
        burst_bytes: 32,
    };
    let system = System::of_two(port("flash", 1), port("sram", 8)).expect("two memories with bandwidth");
    if let Ok(timing) = timing::simulate(data, device, &system, &timing::Rules::default()) {
        assert!(timing.events.len() <= data.len(), "more events than bytes");
    }
    let mut machine = Machine::new(device, true);
    machine.work_limit = WORK;
    for (region, bytes) in MEMORY_BYTES.into_iter().enumerate() {
        let content = (0..bytes).map(|at| (at % 251) as u8).collect();
        let buffer = machine.memory.add_buffer(content, region > 0, true);
        machine.memory.set_region(region, buffer, 0, bytes).expect("all of the buffer");
    }
    let _ = machine.run(data);
    for (region, bytes) in MEMORY_BYTES.into_iter().enumerate() {
        assert!(machine.memory.touched_end(region) <= bytes, "region {region} was left");
    }
}

/// A compressed weight stream, after the number of weights that it should hold in two bytes.
pub fn weights(data: &[u8]) {
    let Some((count, stream)) = data.split_first_chunk::<2>() else { return };
    let asked = usize::from(u16::from_le_bytes(*count));
    let counts = match codec::decode(stream, asked) {
        // Who is told how many weights there are may ask for them.
        Err(Fault::WeightCount { found, .. }) => [asked, found],
        _ => [asked; 2],
    };
    for needed in counts {
        if let Ok(found) = codec::decode(stream, needed) {
            assert_eq!(found.len(), needed);
            assert!(found.iter().all(|weight| weight.abs() <= 255), "a weight of more than nine bits");
        }
    }
}

/// A problem of the memory planner: what it answers is right, and only pools that are too small stop a valid one.
pub fn memory(data: &[u8]) {
    let (problem, params) = problem(&mut Bytes(data));
    match plan(&problem, &params) {
        Ok(solution) => {
            check(&problem, &solution.placement).expect("the checker agrees");
            let bounds = lower_bounds(&problem).expect("the problem was planned");
            assert!(bounds.iter().zip(&solution.placement.peaks).all(|(bound, peak)| bound <= peak));
        }
        Err(UsmpError::PoolOverflow { needed_bytes, available_bytes, .. }) => assert!(needed_bytes > available_bytes),
        Err(UsmpError::PinsOverlap { first, second }) => {
            assert!([first, second].iter().all(|&id| problem.buffers[id as usize].pinned_offset.is_some()));
        }
        Err(_) => assert!(problem.validate().is_err()),
    }
}

/// Bytes that are read one after the other; zeros when they have run out.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `end`.
    fn below(&mut self, end: u8) -> u8 {
        self.next() % end
    }
}

fn problem(bytes: &mut Bytes) -> (Problem, Params) {
    let algorithms = [Algorithm::Best, Algorithm::Exact, Algorithm::HillClimb, Algorithm::GreedyByConflicts];
    let params = Params {
        algorithm: algorithms[usize::from(bytes.below(4))],
        seed: bytes.next().into(),
        iterations: 100,
        threads: 1,
    };
    let pools: Vec<Pool> = (0..=bytes.below(2))
        .map(|_| Pool {
            limit_bytes: Some(u64::from(bytes.next())).filter(|&bytes| bytes > 0),
            alignment: u64::from(bytes.below(9)),
            base_address: u64::from(bytes.below(5)),
        })
        .collect();
    let count = bytes.below(9);
    let buffers = (0..count).map(|_| buffer(bytes, pools.len() as u8, count)).collect();
    (Problem { buffers, pools }, params)
}

fn buffer(bytes: &mut Bytes, pools: u8, count: u8) -> Buffer {
    let lower = i64::from(bytes.below(8));
    // Backwards now and then: nonsense must be refused.
    let upper = lower + i64::from(bytes.below(10)) - 1;
    let size_bytes = u64::from(bytes.below(64));
    let traits = bytes.next();
    let gaps = (traits & 1 > 0).then(|| {
        let from = lower + i64::from(bytes.below(4));
        let to = from + i64::from(bytes.below(4));
        let low = u64::from(bytes.below(64));
        let window = (traits & 2 > 0).then(|| (low, low + u64::from(bytes.below(64))));
        Gap { lower: from, upper: to, window }
    });
    let lifetime = Lifetime::with_gaps(lower, upper, gaps.into_iter().collect());
    let mut buffer = Buffer::new(size_bytes, u64::from(bytes.below(17)), lifetime);
    if pools > 1 {
        buffer.pools = [0, 1].into_iter().map(|pool| (pool + u32::from(traits >> 2 & 1)) % 2).collect();
        buffer.pools.truncate(1 + usize::from(traits >> 3 & 1));
    }
    buffer.pinned_offset = (traits & 16 > 0).then(|| bytes.next().into());
    buffer.conflicts = (traits & 32 > 0).then(|| bytes.below(count).into()).into_iter().collect();
    let share = (traits & 64 > 0).then(|| {
        let low = i64::from(bytes.next() as i8);
        AllowedOverlap { with: bytes.below(count).into(), low, high: low + i64::from(bytes.below(32)) }
    });
    buffer.shares = share.into_iter().collect();
    buffer
}
