//! Where the constants of a program lie in the memory of constants: those that some step uses, each once.
//!
//! Owns the prediction of their order, which is code generation's: Part by Part, what is whole first, equal bytes once; then
//! all tables.

use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, IdVec, PartId, TableId};
use crate::model::operation::{Joined, NpuOperation, Source};
use crate::model::program::{Moved, Program, Step};
use crate::util::hashing::Table;

/// Offset of each Part's constants: in place, staged, and of each slice, or each operation that is joined, in place and
/// staged; 0 for what no step uses.
pub struct Constants {
    places: IdVec<PartId, Vec<u64>>,
    /// Where the tables lie, by number, behind all else.
    tables: Vec<u64>,
}

/// What a Part's constants are numbered by, in the order in which they lie.
fn portion(kernel: &NpuOperation, source: Source) -> usize {
    match source {
        Source::InPlace => 0,
        Source::Staged => 1,
        Source::Piece(piece) if kernel.joined.is_empty() => 2 + piece.index(),
        Source::Piece(piece) => 2 + 2 * piece.index(),
        Source::StagedPiece(piece) => 3 + 2 * piece.index(),
    }
}

/// What has a number.
fn numbered(kernel: &NpuOperation, number: usize) -> Source {
    match number {
        0 => Source::InPlace,
        1 => Source::Staged,
        number if kernel.joined.is_empty() => Source::Piece(Id::at(number - 2)),
        number if number % 2 == 0 => Source::Piece(Id::at(number / 2 - 1)),
        number => Source::StagedPiece(Id::at(number / 2 - 1)),
    }
}

/// Numbers of the contents of an operation's constants, or of those that are joined, each in place and staged; these have
/// nothing together.
fn contents(kernel: &NpuOperation) -> Vec<u32> {
    if kernel.joined.iter().all(|joined| joined.operation.emitted.contents.is_empty()) {
        return kernel.emitted.contents.clone();
    }
    let own =
        |joined: &Joined, number: usize| joined.operation.emitted.contents.get(number).copied().unwrap_or(u32::MAX);
    let both = |joined: &Joined| [own(joined, 0), own(joined, 1)];
    [u32::MAX; 2].into_iter().chain(kernel.joined.iter().flat_map(both)).collect()
}

impl Constants {
    /// Of what the steps of a program use.
    pub fn new(graph: &CascaderGraph, program: &Program) -> Constants {
        let contents: IdVec<PartId, Vec<u32>> =
            graph.parts.ids().map(|part| graph.kernel(part).map_or(Vec::new(), contents)).collect();
        let mut places: IdVec<PartId, Vec<u64>> = contents.iter().map(|numbers| vec![0; numbers.len()]).collect();
        for step in &program.steps {
            let part = match step {
                Step::Copy { moved: Moved::Constants(part, _), .. } => *part,
                Step::Stripe(stripe) => stripe.part,
                Step::Copy { moved: Moved::Tensor { .. }, .. } | Step::LoadTable { .. } | Step::Call { .. } => continue,
            };
            let Some(kernel) = graph.kernel(part) else { continue };
            let source = match step {
                Step::Copy { moved: Moved::Constants(_, piece), .. } => kernel.copied(*piece),
                Step::Stripe(stripe) => stripe.source(kernel),
                _ => continue,
            };
            if let Some(place) = places[part].get_mut(portion(kernel, source)) {
                *place = 1;
            }
        }
        let (mut known, mut end) = (Table::default(), 0);
        for part in graph.parts.ids() {
            let Some(kernel) = graph.kernel(part) else { continue };
            for (number, place) in places[part].iter_mut().enumerate().filter(|(_, place)| **place > 0) {
                let bytes = kernel.encoding(numbered(kernel, number)).map_or(0, |encoding| encoding.bytes);
                *place = *known.entry(contents[part][number]).or_insert_with(|| {
                    end += bytes;
                    end - bytes
                });
            }
        }
        Constants { places, tables: table_offsets(graph, end) }
    }

    /// Where a Part's constants begin that a step uses.
    pub fn offset(&self, (part, kernel): (PartId, &NpuOperation), source: Source) -> u64 {
        self.places[part].get(portion(kernel, source)).copied().unwrap_or(0)
    }

    /// Where a table begins.
    pub fn table(&self, table: TableId) -> u64 {
        self.tables[table.index()]
    }
}

/// All tables of a graph in the order of their numbers, used or not, from `end` on.
fn table_offsets(graph: &CascaderGraph, mut end: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    for table in graph.parts.ids().filter_map(|part| graph.kernel(part)).flat_map(NpuOperation::tables) {
        sizes.resize(sizes.len().max(table.id.index() + 1), 0);
        sizes[table.id.index()] = table.bytes;
    }
    let place = |bytes| {
        end += bytes;
        end - bytes
    };
    sizes.into_iter().map(place).collect()
}
