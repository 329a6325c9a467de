//! Networks whose tensors are read again: forks, sums with what was made long before, joins, several outputs.
//!
//! Owns their generator. `exhaustive` says what must hold of them.

use proptest::prelude::*;

use crate::model::graph::CascaderGraph;
use crate::model::ids::TensorId;
use crate::model::operation::OperationKind;
use crate::testing::networks::{Network, INPUT};

/// One layer. Each `back` counts the tensors between what it reads and the newest one.
#[derive(Clone, Copy, Debug)]
pub enum BranchingLayer {
    /// A pool or convolution.
    Window { kernel: i64, stride: i64, back: usize },
    /// The sum of two tensors.
    Add { backs: [usize; 2] },
    /// The channels of two tensors, one behind the other.
    Join { backs: [usize; 2] },
}

/// A tensor, its plane and its channels.
type Shaped = (TensorId, [i64; 2], i64);

/// A network of such layers. What no layer reads is an output.
pub fn branching(size: [i64; 2], kind: OperationKind, layers: &[BranchingLayer]) -> CascaderGraph {
    let mut net = Network::new(size, 16);
    let mut made: Vec<Shaped> = vec![(INPUT, size, 16)];
    for &layer in layers {
        let next = match layer {
            BranchingLayer::Window { kernel, stride, back } => {
                window(&mut net, kind, made[at(&made, back)], [kernel, stride])
            }
            BranchingLayer::Add { backs } | BranchingLayer::Join { backs } => match (pair(&made, backs), layer) {
                (Some([(a, plane, depth), (b, ..)]), BranchingLayer::Join { .. }) => {
                    (net.join(&[a, b]), plane, 2 * depth)
                }
                (Some([(a, plane, depth), (b, ..)]), _) => (net.add(a, b), plane, depth),
                (None, _) => window(&mut net, kind, made[at(&made, backs[0])], [3, 1]),
            },
        };
        made.push(next);
    }
    let CascaderGraph { mut tensors, parts, device, consumers, .. } = net.finish(made[made.len() - 1].0);
    for (id, readers) in consumers.iter_ids() {
        tensors[id].is_output |= readers.is_empty() && !tensors[id].is_input;
    }
    CascaderGraph::new(tensors, parts, device).expect("a sample graph is right")
}

fn window(net: &mut Network, kind: OperationKind, (from, plane, depth): Shaped, [kernel, stride]: [i64; 2]) -> Shaped {
    let tensor = net.window(from, kind, kernel, stride, depth);
    (tensor, plane.map(|extent| (extent + stride - 1) / stride), depth)
}

fn at(made: &[Shaped], back: usize) -> usize {
    made.len() - 1 - back % made.len()
}

/// Two tensors of one shape, the second counted among those that have the first one's; None where no other has.
fn pair(made: &[Shaped], backs: [usize; 2]) -> Option<[Shaped; 2]> {
    let first = at(made, backs[0]);
    let is_alike = |&index: &usize| index != first && made[index].1 == made[first].1 && made[index].2 == made[first].2;
    let alike: Vec<usize> = (0..made.len()).rev().filter(is_alike).collect();
    let second = *alike.get(backs[1] % alike.len().max(1))?;
    Some([made[first], made[second]])
}

fn kernel() -> impl Strategy<Value = i64> {
    prop::sample::select(vec![1i64, 3, 3, 5])
}

fn back() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0usize), 1 => 0usize..6]
}

/// Up to `most` layers that read any tensors.
pub fn layers_that_branch(most: usize) -> impl Strategy<Value = Vec<BranchingLayer>> {
    let stride = prop::sample::select(vec![1i64, 1, 1, 2]);
    let layer = prop_oneof![
        5 => (kernel(), stride, back()).prop_map(|(kernel, stride, back)| BranchingLayer::Window { kernel, stride, back }),
        4 => [back(), back()].prop_map(|backs| BranchingLayer::Add { backs }),
        1 => [back(), back()].prop_map(|backs| BranchingLayer::Join { backs }),
    ];
    prop::collection::vec(layer, 1..=most)
}
