//! Trivial Parts have one way to run: alone, uncut, whatever is decided for other Parts.
//!
//! An operator that is lowered to dozens of small operations, on one pixel each, would else fill groups of up to
//! `Options::max_group` Parts whose Plans are all alike.
//! Owns which Parts these are. Decides nothing about any other.

use crate::cost::Costs;
use crate::model::graph::{CascaderGraph, Input, Part};
use crate::model::ids::{Id, IdVec, PartId};
use crate::model::operation::Source;
use crate::stripe::Axis;

/// Of each Part whether it is trivial.
///
/// - A Part has no choice of its own if it makes one pixel, so that nothing can be cut, and stages no constants.
/// - The places before and behind it are whole: no Part behind reads stripe by stripe what was made before. So all
///   that crosses there lies in the arena as a whole, in a cascade as without one, and whatever a cascade across such a
///   place does, the two cascades into which it parts do in the same cycles and no more bytes.
/// - Its neighbour is such a Part as well. One alone, as the mean before a classifier, is as well left to its group.
pub struct TrivialParts(IdVec<PartId, bool>);

impl TrivialParts {
    /// Of a graph. One pass over its reads.
    pub fn new(graph: &CascaderGraph) -> TrivialParts {
        let whole = whole_before(graph);
        let fixed = |part: PartId| whole[part.index()] && whole[part.index() + 1] && has_no_choice(graph, part);
        let fixed: Vec<bool> = graph.parts.ids().map(fixed).collect();
        let beside = |at: usize| at > 0 && fixed[at - 1] || fixed.get(at + 1) == Some(&true);
        TrivialParts((0..fixed.len()).map(|at| fixed[at] && beside(at)).collect::<Vec<_>>().into())
    }

    /// Cycles that they take in every Proposal, as far as kernels on their own tell.
    pub fn cycles(&self, graph: &CascaderGraph, costs: &mut Costs) -> u64 {
        let whole = |part: PartId| graph.tensors[graph.output(part)].plane;
        let trivial = graph.parts.ids().filter(|&part| self.holds(part));
        let cost = trivial.filter_map(|part| costs.stripe(graph, part, whole(part), Source::InPlace));
        cost.map(|cost| cost.cycles).sum()
    }

    /// Whether a Part is one of them.
    pub fn holds(&self, part: PartId) -> bool {
        self.0[part]
    }
}

/// Whether a Part can neither be cut nor read its constants in another way.
fn has_no_choice(graph: &CascaderGraph, part: PartId) -> bool {
    graph.kernel(part).is_some_and(|kernel| kernel.staged_bytes() == 0 && kernel.sliced.is_none())
        && is_one_pixel(graph, &graph.parts[part])
}

fn is_one_pixel(graph: &CascaderGraph, part: &Part) -> bool {
    part.outputs.iter().all(|&output| graph.tensors[output].plane == [1; 2])
}

/// By the number of Parts before a place, whether no read crosses the place stripe by stripe.
fn whole_before(graph: &CascaderGraph) -> Vec<bool> {
    // How many reads begin and end to cross at each place.
    let mut change = vec![0i64; graph.parts.len() + 2];
    for (reader, part) in graph.parts.iter_ids() {
        let has_stripes = |input: &Input| match graph.is_aligned(input, Axis::Width) {
            true => input.plane != [1; 2],
            false => graph.is_aligned(input, Axis::Height) && input.plane[0] > 1,
        };
        let by_stripes = |input: &&Input| has_stripes(input) && !is_one_pixel(graph, part);
        for input in part.inputs.iter().filter(by_stripes) {
            if let Some(producer) = graph.producer[input.tensor] {
                change[producer.index() + 1] += 1;
                change[reader.index() + 1] -= 1;
            }
        }
    }
    let mut crossing = 0;
    let whole = change.iter().map(|change| {
        crossing += change;
        crossing == 0
    });
    whole.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::TensorId;
    use crate::model::operation::OperationKind;
    use crate::plans::options::Options;
    use crate::search::search;
    use crate::testing::networks::{Network, INPUT};

    /// Two convolutions and a pool over all, and the pool's one pixel.
    fn head() -> (Network, TensorId) {
        let mut net = Network::new([16, 16], 16);
        let t = net.window(INPUT, OperationKind::Convolution, 3, 1, 32);
        let t = net.window(t, OperationKind::Convolution, 3, 2, 32);
        let t = net.squeezed(t, 0);
        let t = net.squeezed(t, 1);
        (net, t)
    }

    fn tail(net: &mut Network, t: TensorId, count: usize) -> TensorId {
        (0..count).fold(t, |t, _| net.pointwise(OperationKind::Abs, t, None, 8))
    }

    fn trivial(graph: &CascaderGraph) -> Vec<usize> {
        let trivial = TrivialParts::new(graph);
        graph.parts.ids().filter(|&part| trivial.holds(part)).map(Id::index).collect()
    }

    #[test]
    fn single_pixels_without_constants_are_settled() {
        let (mut net, t) = head();
        let t = tail(&mut net, t, 3);
        // A classifier has constants that may be staged or not; the last one has no neighbour.
        let t = net.window(t, OperationKind::Convolution, 1, 1, 32);
        let t = tail(&mut net, t, 1);
        assert_eq!(trivial(&net.finish(t)), [3, 4, 5, 6]);
    }

    #[test]
    fn what_runs_beside_a_cascade_is_not_settled() {
        let (mut net, t) = head();
        // Rows of the network's first convolution are read behind all pixels.
        let scale = tail(&mut net, t, 4);
        let first = TensorId(1);
        let t = net.window(first, OperationKind::Convolution, 1, 1, 32);
        let t = net.join(&[t, first]);
        let t = net.squeezed(t, 0);
        let t = net.squeezed(t, 1);
        let t = net.join(&[t, scale]);
        // Only behind the second pool nothing is left to be read row by row.
        assert_eq!(trivial(&net.finish(t)), [11, 12]);
    }

    #[test]
    fn dozens_of_settled_parts_take_no_work_and_coarsen_nothing() {
        let run = |count| {
            let (mut net, t) = head();
            let t = tail(&mut net, t, count);
            search(&net.finish(t), &Options::default()).expect("every block fits")
        };
        let (few, many) = (run(2), run(102));
        assert_eq!(few.plans_considered, many.plans_considered);
        assert_eq!(few.proposals.len(), many.proposals.len());
        let more = |index: usize| many.proposals[index].cycles - few.proposals[index].cycles;
        for (index, (few, many)) in few.proposals.iter().zip(&many.proposals).enumerate() {
            assert_eq!(few.sram_bytes(), many.sram_bytes());
            assert_eq!(few.plans[..4], many.plans[..4]);
            assert_eq!(more(index), more(0));
        }
    }
}
