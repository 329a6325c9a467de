//! The Proposal of fewest bytes, by a search for these alone.
//!
//! A front that is thinned much more coarsely, with fewer open groups kept, has room for groups that finer ones crowd out,
//! and costs little. Its fast end is worth nothing, but its lean end often takes fewer bytes. Owns that search.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::plans::options::Options;
use crate::proposals::arena::Placer;
use crate::proposals::contenders::Contenders;
use crate::proposals::enumerated::{Enumerated, Uncascaded};
use crate::proposals::error::SearchError;
use crate::proposals::filling::Found;
use crate::proposals::within::Placements;

/// The leanest Proposal that the options' search for the least bytes finds; None where they make none.
///
/// # Errors
/// Where a program has no place.
pub fn leanest(
    graph: &CascaderGraph,
    options: &Options,
    uncascaded: Uncascaded,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<Option<Found>, SearchError> {
    let Some(options) = options.leanest() else { return Ok(None) };
    let enumerated = Enumerated::new(graph, &options, 0, uncascaded, costs);
    let contenders = Contenders::new(graph, &enumerated, &options, costs)?;
    Placements::default().floor(graph, &contenders, costs, place)
}
