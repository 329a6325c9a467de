//! Loads of look-up tables, right before the stripes that use them, unless the table is there already.
//!
//! Owns which table lies where, and since when its last content is not needed: `prefetch` may load it earlier. What is
//! looked up again last makes way for others, and of what never is, what was looked up in longest ago: a load waits for the
//! kernels in flight that use its slots. Every NPU run starts with an empty area, and where the area is not apart from the
//! buffers of kernels, one that looks nothing up leaves none of it.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::cost::table_cycles;
use crate::model::device::LookUpArea;
use crate::model::graph::CascaderGraph;
use crate::model::ids::TableId;
use crate::model::operation::LookUpTable;
use crate::model::program::{CopySource, Step, Stripe};
use crate::util::hashing::Table;

/// What a step does to the look-up area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It looks results up.
    LooksUp(LookUpTable),
    /// Nothing.
    Spares,
    /// It leaves nothing of it.
    Empties,
}

/// Put loads of tables into the steps of a program that has none.
pub fn load_tables(graph: &CascaderGraph, steps: &mut Vec<Step>) {
    let Some(area) = graph.device.look_up_area() else { return };
    let use_of = |step: &Step| match step {
        Step::Stripe(stripe) => match graph.kernel(stripe.part).and_then(|kernel| kernel.piece(stripe.piece).table()) {
            Some(table) => Use::LooksUp(table),
            None if area.is_apart => Use::Spares,
            None => Use::Empties,
        },
        Step::Feed { .. } | Step::Take { .. } | Step::Call { .. } => Use::Empties,
        Step::Copy { .. } | Step::LoadTable { .. } => Use::Spares,
    };
    let uses: Vec<Use> = steps.iter().map(use_of).collect();
    if !uses.iter().any(|of| matches!(of, Use::LooksUp(_))) {
        return;
    }
    let slots = slots(&uses);
    let mut found = Vec::with_capacity(steps.len());
    let mut needed = SlotDemand::default();
    for (step, (of, slot)) in steps.drain(..).zip(uses.into_iter().zip(slots)) {
        if let (Step::Stripe(stripe), Use::LooksUp(table), Some(slot)) = (&step, of, slot) {
            let cycles = table_cycles(&graph.device, table.bytes);
            let &Stripe { part, piece, .. } = stripe;
            found.push(Step::LoadTable { part, piece, table, slot, ahead: needed.load(table, slot), cycles });
        }
        if !matches!(step, Step::Copy { moved: CopySource::Constants(..), .. }) {
            needed.kernel(of);
        }
        found.push(step);
    }
    *steps = found;
}

/// Until when each slot is needed, in kernels (all steps but copies of constants).
#[derive(Default)]
struct SlotDemand {
    kernels: u32,
    held: [Option<TableId>; LookUpArea::SLOTS],
    /// The first kernel that does not need what lies in a slot.
    until: [u32; LookUpArea::SLOTS],
}

impl SlotDemand {
    /// Load a table into slots from `first` on; returns how many kernels ago they were last needed.
    fn load(&mut self, table: LookUpTable, first: u32) -> u32 {
        let slots = first as usize..first as usize + LookUpArea::slots_of(table.bytes);
        self.held[slots.clone()].fill(Some(table.id));
        self.kernels - self.until[slots].iter().max().copied().unwrap_or(0)
    }

    /// One more kernel, which uses the area like that.
    fn kernel(&mut self, of: Use) {
        self.kernels += 1;
        for (held, until) in self.held.iter().zip(&mut self.until) {
            let needs = match of {
                Use::LooksUp(table) => *held == Some(table.id),
                Use::Spares => false,
                Use::Empties => true,
            };
            if needs {
                *until = self.kernels;
            }
        }
    }
}

/// By use, the slot for the load of its table; None where the table is there, or none is used.
fn slots(uses: &[Use]) -> Vec<Option<u32>> {
    let mut coming: Table<TableId, VecDeque<usize>> = Table::default();
    for (index, of) in uses.iter().enumerate() {
        if let Use::LooksUp(table) = of {
            coming.entry(table.id).or_default().push_back(index);
        }
    }
    let mut held = Held::default();
    let slot = |of: &Use| match *of {
        Use::Spares => None,
        Use::Empties => {
            held = Held::default();
            None
        }
        Use::LooksUp(table) => {
            coming.entry(table.id).or_default().pop_front();
            let next = |id: TableId| coming.get(&id).and_then(|uses| uses.front()).copied();
            let placed = (!held.slots.contains(&Some(table.id))).then(|| held.place(table, next));
            held.look_up(table.id);
            placed
        }
    };
    uses.iter().map(slot).collect()
}

/// The table in each slot.
#[derive(Default)]
struct Held {
    slots: [Option<TableId>; LookUpArea::SLOTS],
    /// The number of the look-up that used each slot last.
    used: [usize; LookUpArea::SLOTS],
    look_ups: usize,
}

impl Held {
    /// One more look-up, in a table that is there.
    fn look_up(&mut self, table: TableId) {
        self.look_ups += 1;
        let slots = self.slots.iter().zip(&mut self.used).filter(|(held, _)| **held == Some(table));
        slots.for_each(|(_, used)| *used = self.look_ups);
    }

    /// Put a table where those are that are looked up again last, by `next`, of these where none was for longest, the
    /// first such place; returns its first slot.
    fn place(&mut self, table: LookUpTable, next: impl Fn(TableId) -> Option<usize>) -> u32 {
        let size = LookUpArea::slots_of(table.bytes);
        let soonest = |first: &usize| {
            let held = self.slots[*first..first + size].iter().flatten();
            held.map(|&id| next(id).unwrap_or(usize::MAX - 1)).min().unwrap_or(usize::MAX)
        };
        let latest = |first: usize| self.used[first..first + size].iter().max().copied();
        let places = (0..LookUpArea::SLOTS).step_by(size);
        let first = places.rev().max_by_key(|first| (soonest(first), Reverse(latest(*first)))).unwrap_or(0);
        // A table that loses a part is lost.
        let held = self.slots;
        for lost in held[first..first + size].iter().filter(|lost| lost.is_some()) {
            self.slots.iter_mut().filter(|slot| *slot == lost).for_each(|slot| *slot = None);
        }
        self.slots[first..first + size].fill(Some(table.id));
        first as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn table(id: u32, bytes: u64) -> Use {
        Use::LooksUp(LookUpTable { id: TableId(id), bytes })
    }

    fn loads(uses: &[Use]) -> usize {
        slots(uses).iter().flatten().count()
    }

    #[test]
    fn eight_small_tables_are_loaded_once() {
        let round = |count: u32| (0..24).map(|at| table(at % count, 256)).collect::<Vec<_>>();
        assert_eq!(loads(&round(8)), 8);
        assert!(loads(&round(9)) > 9);
    }

    #[test]
    fn tables_take_slots_that_begin_at_multiples_of_their_size() {
        let uses = [table(0, 256), table(1, 1024), table(2, 1024), table(0, 256), table(3, 2048), table(1, 1024)];
        assert_eq!(slots(&uses), [Some(0), Some(4), Some(4), None, Some(0), Some(0)]);
    }

    #[test]
    fn tables_that_are_looked_up_once_take_all_slots_in_turn() {
        let once: Vec<Use> = (0..20).map(|id| table(id, 256)).collect();
        assert_eq!(slots(&once), (0..20).map(|id| Some(id % 8)).collect::<Vec<_>>());
        // Table 0 is used until the end, so the others leave it where it is.
        let often: Vec<Use> = (1..15).flat_map(|id| [table(0, 256), table(id, 256)]).chain([table(0, 256)]).collect();
        let taken: Vec<u32> = slots(&often).into_iter().flatten().collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7]);
        let large = [table(0, 1024), table(1, 1024), table(2, 256), table(3, 1024), table(4, 1024)];
        assert_eq!(slots(&large), [Some(0), Some(4), Some(0), Some(4), Some(0)]);
    }

    #[test]
    fn nothing_is_left_behind_what_empties_the_area() {
        let uses = [table(0, 256), Use::Spares, table(0, 256), Use::Empties, table(0, 256)];
        assert_eq!(slots(&uses), [Some(0), None, None, None, Some(0)]);
    }

    /// The fewest loads of tables that take half of the area each, by trying every place.
    fn fewest(uses: &[Use]) -> usize {
        let mut states: HashMap<[Option<TableId>; 2], usize> = HashMap::from([([None; 2], 0)]);
        for of in uses {
            let mut next: HashMap<[Option<TableId>; 2], usize> = HashMap::new();
            for (state, loads) in states {
                let mut reach = |state, loads| {
                    let known = next.entry(state).or_insert(loads);
                    *known = loads.min(*known);
                };
                match of {
                    Use::Empties => reach([None; 2], loads),
                    Use::Spares => reach(state, loads),
                    Use::LooksUp(table) if state.contains(&Some(table.id)) => reach(state, loads),
                    Use::LooksUp(table) => {
                        reach([Some(table.id), state[1]], loads + 1);
                        reach([state[0], Some(table.id)], loads + 1);
                    }
                }
            }
            states = next;
        }
        states.into_values().min().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_choice_loads_fewer(uses in prop::collection::vec(0u32..6, 0..20)) {
            let use_of = |number| match number {
                0 => Use::Empties,
                1 => Use::Spares,
                id => table(id, 1024),
            };
            let uses: Vec<Use> = uses.into_iter().map(use_of).collect();
            prop_assert_eq!(loads(&uses), fewest(&uses));
        }
    }
}
