//! How long a placed program takes on an Ethos-U: the commands that code generation will emit, played by the referee.
//!
//! Owns the prediction of the command stream from steps and offsets: the exact geometry of each stripe, waits between
//! copies and kernels whose bytes overlap, and through `block_dependency` and `register_words` what stands around them.
//! Kernels' costs and the play itself are the timing model's.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::cost::ethosu::block_dependency::Recent;
use crate::cost::ethosu::operation_cost::{copy_cost, planned, table_cost, Planned};
use crate::cost::ethosu::register_words::{Image, Surface};
use crate::model::device::{EthosU, LookUpArea, KERNELS_IN_FLIGHT};
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, IdVec, PartId, Piece, TableId, TensorId};
use crate::model::operation::{Block, LookUpTable, NpuOperation, Source};
use crate::model::program::{ByteRange, Moved, Program, Step, Stripe, View};
use crate::npu::timing::kernel::KernelCost;
use crate::npu::timing::schedule::play;
use crate::npu::timing::walk::{Action, DmaCost, KernelShape, Step as Command};
use crate::util::hashing::Table;

/// Transfers that a kernel may have to wait for, on U55 and U65.
const COPIES_IN_FLIGHT: [usize; 2] = [1, 2];

/// Where the slots of tables are taken to begin among the addresses of the arena.
const LOOK_UP_AREA: u64 = 1 << 48;

/// Exact costs known so far, by geometry; for one graph.
#[derive(Debug, Default)]
pub struct Memo {
    kernels: Table<Geometry, Costed>,
    copies: Table<u64, Arc<DmaCost>>,
}

/// All that the cost of a stripe depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Geometry {
    part: PartId,
    source: Source,
    input: [i64; 2],
    output: [i64; 2],
    padding: [i64; 4],
    block: Block,
}

/// A kernel's cost, as a step for each BLOCKDEP that was asked for.
#[derive(Debug)]
struct Costed {
    kernel: Planned,
    steps: [Option<Arc<(KernelShape, KernelCost)>>; 4],
}

impl Costed {
    fn with_blockdep(&mut self, blockdep: u32) -> Arc<(KernelShape, KernelCost)> {
        let slot = &mut self.steps[blockdep as usize];
        Arc::clone(slot.get_or_insert_with(|| {
            Arc::new((KernelShape { blockdep, ..self.kernel.shape.clone() }, self.kernel.cost.clone()))
        }))
    }
}

/// What a kernel in flight touches.
#[derive(Default)]
struct Touched {
    ranges: SmallVec<[ByteRange; 12]>,
}

impl Touched {
    fn meets(&self, other: ByteRange) -> bool {
        self.ranges.iter().any(|range| range.0 < other.1 && other.0 < range.1)
    }
}

/// Cycles of all NPU runs of a program, one after the other; calls take no time but end a run.
pub fn cycles(
    graph: &CascaderGraph,
    npu: &EthosU,
    program: &Program,
    offsets: &IdVec<BufferId, u64>,
    memo: &mut Memo,
) -> u64 {
    program
        .steps
        .split(|step| matches!(step, Step::Call { .. }))
        .filter(|run| !run.is_empty())
        .map(|run| {
            let mut stream = Stream::new(graph, npu, program, offsets, memo);
            for step in run {
                match step {
                    Step::Copy { moved: Moved::Constants(part, piece), buffer, .. } => {
                        stream.copy(*part, *buffer, *piece)
                    }
                    Step::LoadTable { table, slot, .. } => stream.table(*table, *slot),
                    Step::Stripe(stripe) => stream.stripe(stripe),
                    // Tensors have one pool here, see `Device::ethos_u`.
                    Step::Copy { moved: Moved::Tensor { .. }, .. } | Step::Call { .. } => {}
                }
            }
            stream.end()
        })
        .sum()
}

/// One run's command stream under construction.
struct Stream<'a> {
    graph: &'a CascaderGraph,
    npu: &'a EthosU,
    program: &'a Program,
    offsets: &'a IdVec<BufferId, u64>,
    memo: &'a mut Memo,
    commands: Vec<Command>,
    words: u64,
    kernels: Vec<Touched>,
    copies: Vec<ByteRange>,
    /// Tables that are loaded, and where.
    tables: Vec<(TableId, ByteRange)>,
    recent: Recent<'a>,
    image: Image,
}

impl<'a> Stream<'a> {
    fn new(
        graph: &'a CascaderGraph,
        npu: &'a EthosU,
        program: &'a Program,
        offsets: &'a IdVec<BufferId, u64>,
        memo: &'a mut Memo,
    ) -> Stream<'a> {
        // U65 sets the number of cores first.
        let words = u64::from(npu.accelerator.is_u65);
        Stream {
            graph,
            npu,
            program,
            offsets,
            memo,
            commands: Vec::with_capacity(2 * program.steps.len()),
            words,
            kernels: Vec::new(),
            copies: Vec::new(),
            tables: Vec::new(),
            recent: Recent::new(graph),
            image: Image::default(),
        }
    }

    fn push(&mut self, action: Action) {
        self.commands.push(Command { command: self.commands.len(), words: self.words + 1, action });
        self.words = 0;
    }

    fn copy(&mut self, part: PartId, buffer: BufferId, piece: Option<Piece>) {
        let encoding = self.graph.kernel(part).and_then(|kernel| kernel.encoding(Source::copied(piece)));
        let bytes = encoding.map_or(0, |encoding| encoding.bytes);
        let offset = self.offsets[buffer];
        let range = (offset, offset + bytes);
        self.words += self.image.copy((part, piece), offset, bytes);
        let npu = self.npu;
        let cost = self.memo.copies.entry(bytes).or_insert_with(|| Arc::new(copy_cost(npu, bytes)));
        let cost = Arc::clone(cost);
        self.transfer(range, cost);
    }

    /// A table into its slots, which lie behind all addresses of the arena.
    fn table(&mut self, table: LookUpTable, slot: u32) {
        let first = LOOK_UP_AREA + u64::from(slot) * LookUpArea::SLOT_BYTES;
        let range = (first, first + table.bytes);
        self.tables.retain(|(_, other)| other.1 <= range.0 || range.1 <= other.0);
        self.tables.push((table.id, range));
        self.words += self.image.table(table.id, first, table.bytes);
        let cost = Arc::new(table_cost(self.npu, table.bytes));
        self.transfer(range, cost);
    }

    /// A transfer to where `range` is, once no kernel in flight touches that.
    fn transfer(&mut self, range: ByteRange, cost: Arc<DmaCost>) {
        // The last kernel that meets the copy, and with it all before, must have ended.
        if let Some(index) = self.kernels.iter().rposition(|touched| touched.meets(range)) {
            let outstanding = self.kernels.len() - 1 - index;
            self.kernels.drain(..=index);
            self.push(Action::KernelWait(outstanding as u32));
        }
        if self.copies.len() == COPIES_IN_FLIGHT[usize::from(self.npu.accelerator.is_u65)] {
            self.copies.remove(0);
        }
        self.copies.push(range);
        self.push(Action::Dma(cost));
    }

    fn stripe(&mut self, stripe: &'a Stripe) {
        let graph = self.graph;
        let Some(kernel) = graph.kernel(stripe.part) else { return };
        let blockdep = self.recent.block_dependency(stripe);
        self.recent.push(stripe);
        let costed = self.costed(kernel, stripe);
        let (banks, step) = (costed.kernel.banks, costed.with_blockdep(blockdep));
        let touched = self.registers(kernel, stripe, banks, blockdep);
        if let Some(index) = self.copies.iter().rposition(|&range| touched.meets(range)) {
            let outstanding = self.copies.len() - 1 - index;
            self.copies.drain(..=index);
            self.push(Action::DmaWait(outstanding as u32));
        }
        if self.kernels.len() == KERNELS_IN_FLIGHT {
            self.kernels.remove(0);
        }
        self.kernels.push(touched);
        self.push(Action::Kernel(step));
    }

    /// Count the words that set a kernel's registers; returns what it touches.
    fn registers(&mut self, kernel: &NpuOperation, stripe: &Stripe, banks: [u32; 2], blockdep: u32) -> Touched {
        let mut touched = Touched::default();
        let reads = stripe.inputs.iter().zip(self.graph.reads(stripe.part, stripe.piece));
        let read = |operand: usize, first: i64| {
            let (element, depth) = kernel.piece(stripe.piece).operand(operand);
            [first, first + depth].map(|channel| channel * element.bytes())
        };
        let inputs: SmallVec<[Surface; 2]> = reads
            .enumerate()
            .map(|(operand, (view, input))| {
                self.surface(view, input.tensor, input.pixel_bytes, read(operand, input.first_channel))
            })
            .collect();
        let made = self.graph.output(stripe.part);
        let pixel_bytes = self.graph.tensors[made].pixel_bytes;
        let written = kernel.channels(stripe.piece).map(|channel| channel * kernel.ofm.bytes());
        let output = self.surface(&stripe.output, made, pixel_bytes, written);
        for surface in inputs.iter().chain([&output]) {
            touched.ranges.extend(surface.ranges());
        }
        let table = kernel.table().and_then(|table| self.tables.iter().find(|(id, _)| *id == table.id));
        touched.ranges.extend(table.map(|&(_, range)| range));
        // Its buffers may lie where tables do.
        if kernel.table().is_none() && self.npu.accelerator.reserved_banks == 0 {
            touched.ranges.push((LOOK_UP_AREA, LOOK_UP_AREA + LookUpArea::SLOTS as u64 * LookUpArea::SLOT_BYTES));
        }
        let staged = stripe.constants.map(|buffer| self.offsets[buffer]);
        if let (Some(offset), Some(buffer)) = (staged, stripe.constants) {
            touched.ranges.push((offset, offset + self.program.buffers[buffer].size_bytes));
        }
        self.words += self.image.kernel(kernel, stripe, (&inputs, &output), staged, banks, blockdep);
        touched
    }

    fn surface(&self, view: &View, tensor: TensorId, pixel_bytes: u64, channels: [i64; 2]) -> Surface {
        let layout = self.graph.tensors[tensor].layout;
        Surface::new(view, self.offsets[view.buffer], pixel_bytes, layout, channels)
    }

    fn costed(&mut self, kernel: &NpuOperation, stripe: &Stripe) -> &mut Costed {
        let (graph, npu) = (self.graph, self.npu);
        let geometry = Geometry {
            part: stripe.part,
            source: stripe.source(),
            input: stripe.inputs[0].plane(),
            output: stripe.output.plane(),
            padding: stripe.padding,
            block: stripe.cost.block,
        };
        self.memo.kernels.entry(geometry).or_insert_with(|| {
            let kernel = kernel.with(geometry.source).expect("a stripe's constants are encoded");
            let op = stripe.operation(graph, &kernel);
            Costed { kernel: planned(npu, &op, stripe.cost.block), steps: [None, None, None, None] }
        })
    }

    /// Cycles of the finished run.
    fn end(mut self) -> u64 {
        self.push(Action::Stop);
        play(&self.commands, self.npu.accelerator, &self.npu.system, &self.npu.rules).end.ceil()
    }
}
