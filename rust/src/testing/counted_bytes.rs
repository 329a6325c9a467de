//! The search's count of a Plan before there is a program, for tests to compare with the program.

use crate::model::graph::CascaderGraph;
use crate::model::ids::PartId;
use crate::model::memory::aligned;
use crate::model::plan::Plan;
use crate::model::program::{Content, Program};
use crate::plans::live_bytes::{LiveBytes, Share};
use crate::plans::made_rows::StripeId;
use crate::schedule::stripe_order::wanted;
use crate::stripe::Span;

/// Most bytes in the arena while a Plan of a program runs. Wherever is looked first, the search counts the same.
pub fn counted_bytes(graph: &CascaderGraph, plan: &Plan, program: &Program) -> u64 {
    let bytes_of = |content: Content| -> u64 {
        program.buffers.iter().filter(|b| b.content == content).map(|b| aligned(b.size_bytes)).sum()
    };
    let share = |part: PartId| Share {
        rolling: bytes_of(Content::Rolling(graph.output(part), plan.tiling.roll)),
        staged: bytes_of(Content::Constants(part)),
    };
    let occupancy = LiveBytes::new(graph, plan.first, plan.last, plan.tiling.roll);
    let shares: Vec<Share> = plan.parts().map(share).collect();
    if plan.tiling.tiles > 1 {
        return occupancy.whole_bytes() + shares.iter().map(|share| share.rolling + share.staged).sum::<u64>();
    }
    let ends: Vec<Span> = wanted(graph, plan, 0).iter().map(|wanted| wanted[0]).collect();
    let within = |limit_bytes, mut first_failed| {
        let peak = occupancy.peak_bytes(&plan.stripes, &ends, &shares, limit_bytes, &mut first_failed);
        (peak, first_failed)
    };
    let peak = within(u64::MAX, StripeId::default()).0.expect("below the limit");
    // Where it is looked at first changes nothing.
    let end = ends.last().map_or(0, |wanted| wanted.end);
    let anywhere = (0..=ends.len())
        .flat_map(|parts_behind| [-1, 0, end / 3, end / 2, end, end + 1].map(|line| StripeId { parts_behind, line }));
    for stripe in anywhere {
        assert_eq!(within(peak + 1, stripe), (Some(peak), stripe));
        let (found, left) = within(peak, stripe);
        assert_eq!((found, within(peak, left).0), (None, None));
    }
    peak
}
