//! The network of docs/worked-example.md: `expand`, `filter` and `project` on eight rows of eight pixels.
//!
//! Owns its one constructor and the Plans of that page. The figures in examples are derived by hand there.

use crate::cost::Costs;
use crate::model::graph::{CascaderGraph, Part, Work};
use crate::model::ids::{IdVec, PartId};
use crate::model::operation::OperationKind;
use crate::model::plan::{Plan, Staging};
use crate::plans::options::Options;
use crate::search::arena::placer;
use crate::search::Context;
use crate::stripe::Tiling;
use crate::testing::networks::{Network, INPUT};

/// Bytes of the layers' constants, by the page's table of layers.
const CONSTANT_BYTES: [u64; 3] = [640, 656, 352];

/// 8 channels are expanded to 32, filtered by a 3x3 depthwise convolution, and projected back to 8.
pub fn worked_example() -> CascaderGraph {
    let mut net = Network::new([8, 8], 8);
    let expand = net.window(INPUT, OperationKind::Convolution, 1, 1, 32);
    let filter = net.window(expand, OperationKind::Depthwise, 3, 1, 32);
    let project = net.window(filter, OperationKind::Convolution, 1, 1, 8);
    let graph = net.finish(project);
    let parts: IdVec<PartId, Part> =
        graph.parts.iter().zip(CONSTANT_BYTES).map(|(part, bytes)| encoded(part.clone(), bytes)).collect();
    CascaderGraph::new(graph.tensors, parts, graph.device).expect("a sample graph is right")
}

/// The Part with constants of a given size, copied as a whole or not at all.
fn encoded(mut part: Part, bytes: u64) -> Part {
    if let Work::Npu(kernel) = &mut part.work {
        (kernel.constant_bytes, kernel.sliced) = (bytes, None);
        kernel.staged.iter_mut().for_each(|encoding| encoding.bytes = bytes);
    }
    part
}

/// The Plan for Parts `first` and on with the given rows at a time, all constants in flash.
pub fn rows_at_a_time(first: u32, stripes: &[i64]) -> Plan {
    Plan {
        first: PartId(first),
        last: PartId(first).after(stripes.len() - 1),
        tiling: Tiling::WHOLE_ROWS,
        backwards: false,
        stripes: stripes.to_vec(),
        staging: vec![Staging::InPlace; stripes.len()],
        copied: Vec::new(),
    }
}

/// Every layer whole, one after the other, its constants copied to SRAM.
pub fn copied_layers() -> Vec<Plan> {
    (0..3).map(|part| Plan { staging: vec![Staging::Whole], ..rows_at_a_time(part, &[8]) }).collect()
}

/// The result of `work` in a context of the network with default options.
pub fn in_context<T>(work: impl FnOnce(&mut Context) -> T) -> T {
    let (graph, options) = (worked_example(), Options::default());
    let (mut costs, mut placer) = (Costs::default(), placer(&graph));
    work(&mut Context::new(&graph, &options, &mut costs, &mut placer))
}
