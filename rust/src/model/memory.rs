//! Memories as data: pools, each behind a port and perhaps limited, and what each of them is for.
//!
//! Owns the description and what makes sense of it. What moving bytes costs is asked of `cost`; where buffers lie is for
//! the memory planner to say.

use smallvec::SmallVec;

use super::ids::{Id, IdVec, PoolId};
use crate::npu::timing::Port;

/// Alignment of buffers in the arena, bytes.
pub const ALIGNMENT: u64 = 16;

/// Bytes rounded up to the arena's alignment.
pub fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Most pools of a device.
pub const MAX_POOLS: usize = 8;

/// Most external inputs: an NPU has eight regions, and three are others'.
pub const MAX_INPUTS: usize = 5;

/// Pools that may hold something, the preferred one first.
pub type Candidates = SmallVec<[PoolId; 2]>;

/// A memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What the device reaches it by: name, bandwidth, latencies, bursts.
    pub port: Port,
    /// Bytes; None for as many as it takes.
    pub limit_bytes: Option<u64>,
}

/// The pools of a device. Pool [`Memories::SCARCE`] is the scarce one: tensors lie there as far as it holds them, and
/// frontiers count its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memories {
    pools: IdVec<PoolId, Pool>,
    constants: PoolId,
    tensors: Candidates,
    /// A pool for each external input.
    inputs: Candidates,
    shared: IdVec<PoolId, PoolId>,
}

impl Memories {
    /// The pool whose bytes are scarce.
    pub const SCARCE: PoolId = PoolId(0);

    /// The pools that tensors may lie in, the scarce one first, and the one that holds constants, perhaps the same.
    ///
    /// # Errors
    /// The sentence that names the pool that makes no sense.
    pub fn new(tensors: Vec<Pool>, constants: Pool) -> Result<Memories, String> {
        Memories::with_inputs(tensors, constants, None)
    }

    /// The same, and the memory of external inputs.
    ///
    /// # Errors
    /// The sentence that names the pool that makes no sense.
    pub fn with_inputs(tensors: Vec<Pool>, constants: Pool, inputs: Option<Pool>) -> Result<Memories, String> {
        let count = tensors.len();
        let Some((_, limited)) = tensors.split_last() else {
            return Err("tensors may lie in no memory; name at least one".into());
        };
        if let Some(number) = limited.iter().position(|pool| pool.limit_bytes.is_none()) {
            let [name, next] = [number, number + 1].map(|index| &tensors[index].port.name);
            return Err(format!("the size of the memory '{name}' is None; tensors lie in '{next}' where it ends"));
        }
        let mut pools = IdVec::from(tensors);
        let known = pools.iter().position(|pool| *pool == constants);
        let constants = known.map_or_else(|| pools.push(constants), PoolId::at);
        let copies = inputs.into_iter().flat_map(|pool| std::iter::repeat_n(pool, MAX_INPUTS));
        let inputs = copies.map(|pool| pools.push(pool)).collect();
        if pools.len() > MAX_POOLS {
            return Err(format!("there are {} memories; a device has at most {MAX_POOLS}", pools.len()));
        }
        let first = |pool: &Pool| pools.iter().position(|other| other.port == pool.port).map_or(constants, PoolId::at);
        let shared = pools.iter().map(first).collect();
        Ok(Memories { constants, tensors: (0..count).map(PoolId::at).collect(), inputs, shared, pools })
    }

    /// A pool.
    pub fn pool(&self, pool: PoolId) -> &Pool {
        &self.pools[pool]
    }

    /// The name of a pool.
    pub fn name(&self, pool: PoolId) -> &str {
        &self.pools[pool].port.name
    }

    /// All pools: those of tensors, then that of constants, unless it is one of them, then those of external inputs.
    pub fn pools(&self) -> &IdVec<PoolId, Pool> {
        &self.pools
    }

    /// Where constants live.
    pub fn constants(&self) -> PoolId {
        self.constants
    }

    /// Where tensors, workspace and copies of constants may lie, the scarce pool first.
    pub fn tensors(&self) -> &Candidates {
        &self.tensors
    }

    /// The pools of external inputs, one for each; empty where there is no memory for any.
    pub fn inputs(&self) -> &Candidates {
        &self.inputs
    }

    /// Where tensors may lie but for the scarce pool; empty where that is the only one.
    pub fn spacious(&self) -> Candidates {
        self.tensors[1..].into()
    }

    /// The pool that stands for all behind the same port, as they share its bandwidth.
    pub fn memory(&self, pool: PoolId) -> PoolId {
        self.shared[pool]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, limit_bytes: Option<u64>) -> Pool {
        let port =
            Port { name: name.into(), bytes_per_cycle: (1, 1), read_latency: 0, write_latency: 0, burst_bytes: 1 };
        Pool { port, limit_bytes }
    }

    #[test]
    fn pools_have_roles() {
        let [fast, large, flash] = [("fast", Some(64)), ("large", None), ("flash", None)].map(|(n, l)| pool(n, l));
        let three = Memories::new(vec![fast.clone(), large.clone()], flash).expect("it makes sense");
        assert_eq!((three.tensors()[0], three.constants(), three.pools().len()), (Memories::SCARCE, PoolId(2), 3));
        assert_eq!((three.spacious().as_slice(), three.name(PoolId(1))), ([PoolId(1)].as_slice(), "large"));
        let two = Memories::new(vec![fast.clone(), large.clone()], large).expect("it makes sense");
        assert_eq!((two.constants(), two.pools().len()), (PoolId(1), 2));
        let one = Memories::new(vec![fast.clone()], fast).expect("it makes sense");
        assert_eq!((one.constants(), one.spacious().len()), (Memories::SCARCE, 0));
    }

    #[test]
    fn pools_behind_one_port_share_it() {
        let memories = Memories::new(vec![pool("ram", Some(64))], pool("ram", Some(128))).expect("it makes sense");
        assert_eq!(memories.constants(), PoolId(1));
        assert_eq!(memories.memory(PoolId(1)), Memories::SCARCE);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let none = Memories::new(Vec::new(), pool("flash", None));
        assert!(none.is_err_and(|why| why.contains("at least one")));
        let endless = Memories::new(vec![pool("sram", None), pool("dram", None)], pool("flash", None));
        assert!(endless.is_err_and(|why| why.contains("'sram' is None") && why.contains("'dram'")));
        let many = (0..9).map(|number| pool(&format!("m{number}"), Some(64))).collect();
        assert!(Memories::new(many, pool("flash", None)).is_err_and(|why| why.contains("10 memories")));
    }
}
