//! Where the constants of a program lie in the memory of constants: those that some step uses, each once.
//!
//! Owns the prediction of their order, which is code generation's: Part by Part, what is whole first, equal weights and equal
//! scales once; then all tables.

use super::described::scale_bytes;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, IdVec, PartId, TableId};
use crate::model::operation::{Home, JoinedOperation, NpuOperation, Source};
use crate::model::program::{CopySource, Program, Step};
use crate::util::hashing::Table;

/// Offsets of each Part's weights and scales: in place, staged, and of each slice, or each operation that is joined, in place
/// and staged; none for what no step uses.
pub struct Constants {
    places: IdVec<PartId, Vec<Option<[u64; 2]>>>,
    /// Where the tables lie, by number, behind all else.
    tables: Vec<u64>,
}

/// A blob in the making: where what has a number lies, and which weights have their scales right behind them.
#[derive(Default)]
struct Room {
    end: u64,
    known: Table<u32, u64>,
    together: Table<[u32; 2], [u64; 2]>,
}

impl Room {
    /// Where weights and scales lie of these numbers and bytes, the scales right behind the weights if `together`.
    fn place(&mut self, content: [u32; 2], bytes: [u64; 2], together: bool) -> [u64; 2] {
        if let Some(&found) = self.together.get(&content) {
            return found;
        }
        let known = content.map(|number| self.known.get(&number).copied());
        if !together && known != [None; 2] {
            return [0, 1].map(|part| known[part].unwrap_or_else(|| self.anew(content[part], bytes[part])));
        }
        let found = [0, 1].map(|part| self.anew(content[part], bytes[part]));
        self.together.insert(content, found);
        found
    }

    fn anew(&mut self, content: u32, bytes: u64) -> u64 {
        let offset = self.end;
        self.end += bytes;
        self.known.entry(content).or_insert(offset);
        offset
    }
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
fn contents(kernel: &NpuOperation) -> Vec<[u32; 2]> {
    if kernel.joined.iter().all(|joined| joined.operation.emitted.contents.is_empty()) {
        return kernel.emitted.contents.clone();
    }
    let none = [u32::MAX; 2];
    let own = |joined: &JoinedOperation, number: usize| {
        joined.operation.emitted.contents.get(number).copied().unwrap_or(none)
    };
    let both = |joined: &JoinedOperation| [own(joined, 0), own(joined, 1)];
    [none; 2].into_iter().chain(kernel.joined.iter().flat_map(both)).collect()
}

impl Constants {
    /// Of what the steps of a program use.
    pub fn new(graph: &CascaderGraph, program: &Program) -> Constants {
        let contents: IdVec<PartId, Vec<[u32; 2]>> =
            graph.parts.ids().map(|part| graph.kernel(part).map_or(Vec::new(), contents)).collect();
        let mut places: IdVec<PartId, Vec<Option<[u64; 2]>>> =
            contents.iter().map(|numbers| vec![None; numbers.len()]).collect();
        for step in &program.steps {
            let part = match step {
                Step::Copy { moved: CopySource::Constants(part, _), .. } => *part,
                Step::Stripe(stripe) => stripe.part,
                Step::Copy { moved: CopySource::Tensor { .. }, .. }
                | Step::LoadTable { .. }
                | Step::Feed { .. }
                | Step::Take { .. }
                | Step::Call { .. } => continue,
            };
            let Some(kernel) = graph.kernel(part) else { continue };
            let source = match step {
                Step::Copy { moved: CopySource::Constants(_, piece), .. } => kernel.copied(*piece),
                Step::Stripe(stripe) => stripe.source(kernel),
                _ => continue,
            };
            if let Some(place) = places[part].get_mut(portion(kernel, source)) {
                *place = Some([0; 2]);
            }
        }
        let mut room = Room::default();
        for part in graph.parts.ids() {
            let Some(kernel) = graph.kernel(part) else { continue };
            for (number, place) in places[part].iter_mut().enumerate().filter(|(_, place)| place.is_some()) {
                let source = numbered(kernel, number);
                let is_copied = kernel.home(source) == Home::Arena;
                *place = Some(room.place(contents[part][number], sizes(kernel, source), is_copied));
            }
        }
        Constants { places, tables: table_offsets(graph, room.end) }
    }

    /// Where a Part's weights and its scales begin that a step uses.
    pub fn offsets(&self, (part, kernel): (PartId, &NpuOperation), source: Source) -> [u64; 2] {
        self.places[part].get(portion(kernel, source)).copied().flatten().unwrap_or_default()
    }

    /// Where a table begins.
    pub fn table(&self, table: TableId) -> u64 {
        self.tables[table.index()]
    }
}

/// Bytes of the weights and of the scales of an operation that uses its constants from where they are.
pub fn sizes(kernel: &NpuOperation, source: Source) -> [u64; 2] {
    let Some(operation) = kernel.with(source) else { return [0; 2] };
    let scales = if operation.kind.has_weights() { scale_bytes(&operation) } else { 0 };
    [operation.constant_bytes - scales, scales]
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
