//! How long a placed program takes on an Ethos-U: the commands that code generation will emit, played by the referee.
//!
//! Owns the prediction of the command stream from steps and offsets, word for word: the geometry of each stripe, waits
//! between copies and kernels whose bytes overlap, and through `block_dependency`, `constants` and `register_image` what
//! stands around them. Kernels' costs and the play itself are the timing model's.

use std::sync::Arc;

use smallvec::SmallVec;

use super::addresses::address;
use super::block_dependency::{Access, Reading, Recent};
use super::constants::{self, Constants};
use super::operation_cost::{copy_cost, planned, table_cost, PlannedKernel};
use super::register_image::{Image, Setting};
use super::surface::Surface;
use crate::model::device::{EthosU, LookUpArea, KERNELS_IN_FLIGHT};
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, PartId, Piece, PoolId, TableId, TensorId};
use crate::model::memory::Memories;
use crate::model::operation::{Block, Element, LookUpTable, NpuOperation, OperandPools, Source, StripeOperation};
use crate::model::program::{ByteRange, CopySource, Placement, Program, Step, Stripe, View};
use crate::npu::registers::Register;
use crate::npu::timing::kernel::KernelCost;
use crate::npu::timing::schedule::play;
use crate::npu::timing::system::CONSTANTS_REGION;
use crate::npu::timing::walk::{Action, DmaCost, KernelShape, Step as Command};
use crate::stripe::{Region, Span};
use crate::util::hashing::Table;

/// Transfers that a kernel may have to wait for, on U55 and U65.
const COPIES_IN_FLIGHT: [usize; 2] = [1, 2];

/// Where the slots of tables are taken to begin among the addresses of the pools.
const LOOK_UP_AREA: u64 = 1 << 48;
/// The region of a transfer's registers that is the NPU's own memory, in all of its cores.
const OWN_MEMORY: usize = 0x103;
/// Bytes of all slots.
const LOOK_UP_BYTES: u64 = LookUpArea::SLOTS as u64 * LookUpArea::SLOT_BYTES;

/// Exact costs known so far, by geometry; for one graph.
#[derive(Debug, Default)]
pub struct Memo {
    kernels: Table<Geometry, CostedKernel>,
    copies: Table<(u64, PoolId), Arc<DmaCost>>,
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
    pools: OperandPools,
}

/// A kernel's cost, as a step for each BLOCKDEP that was asked for, and the operation with the constants that it uses.
#[derive(Debug)]
struct CostedKernel {
    operation: NpuOperation,
    kernel: PlannedKernel,
    steps: [Option<Arc<(KernelShape, KernelCost)>>; 4],
}

impl CostedKernel {
    fn with_blockdep(&mut self, blockdep: u32) -> Arc<(KernelShape, KernelCost)> {
        let slot = &mut self.steps[blockdep as usize];
        Arc::clone(slot.get_or_insert_with(|| {
            Arc::new((KernelShape { blockdep, ..self.kernel.shape.clone() }, self.kernel.cost.clone()))
        }))
    }
}

/// What a kernel in flight touches.
#[derive(Default)]
struct KernelRanges {
    ranges: SmallVec<[ByteRange; 12]>,
}

impl KernelRanges {
    fn meets(&self, other: ByteRange) -> bool {
        self.ranges.iter().any(|range| range.0 < other.1 && other.0 < range.1)
    }
}

/// A command and the registers that are sent before it.
pub struct Sent {
    /// The command.
    pub command: Command,
    /// Registers whose values change, with these.
    pub registers: Vec<(Register, u64)>,
}

/// An observer of each command before it is played.
trait Listener {
    fn hear(&mut self, command: &Command, image: &Image);
}

/// No observer.
impl Listener for () {
    fn hear(&mut self, _: &Command, _: &Image) {}
}

impl Listener for Vec<Sent> {
    fn hear(&mut self, command: &Command, image: &Image) {
        self.push(Sent { command: command.clone(), registers: image.sent().collect() });
    }
}

/// Cycles of all NPU runs of a program, one after the other; calls and handovers take no time but end a run.
pub fn cycles(graph: &CascaderGraph, npu: &EthosU, program: &Program, placement: &Placement, memo: &mut Memo) -> u64 {
    let constants = Constants::new(graph, program);
    let placed = PlacedProgram { graph, npu, program, placement, constants };
    runs(program)
        .map(|run| {
            let commands = Stream::new(&placed, memo, ()).run(run).0;
            play(&commands, npu.accelerator, &npu.system, &npu.rules).end.ceil()
        })
        .sum()
}

/// The command streams of a program's NPU runs.
pub fn commands(graph: &CascaderGraph, npu: &EthosU, program: &Program, placement: &Placement) -> Vec<Vec<Sent>> {
    let constants = Constants::new(graph, program);
    let placed = PlacedProgram { graph, npu, program, placement, constants };
    let memo = &mut Memo::default();
    runs(program).map(|run| Stream::new(&placed, memo, Vec::new()).run(run).1).collect()
}

/// The steps between calls and handovers.
fn runs(program: &Program) -> impl Iterator<Item = &[Step]> {
    program
        .steps
        .split(|step| matches!(step, Step::Feed { .. } | Step::Take { .. } | Step::Call { .. }))
        .filter(|run| !run.is_empty())
}

/// A program and where everything lies.
struct PlacedProgram<'a> {
    graph: &'a CascaderGraph,
    npu: &'a EthosU,
    program: &'a Program,
    placement: &'a Placement,
    constants: Constants,
}

/// One run's command stream under construction.
struct Stream<'a, L> {
    placed: &'a PlacedProgram<'a>,
    memo: &'a mut Memo,
    commands: Vec<Command>,
    kernels: Vec<KernelRanges>,
    copies: Vec<ByteRange>,
    /// Tables that are loaded, and their slots.
    tables: Vec<(TableId, [usize; 2])>,
    recent: Recent,
    image: Image,
    listener: L,
}

impl<'a, L: Listener> Stream<'a, L> {
    fn new(placed: &'a PlacedProgram<'a>, memo: &'a mut Memo, listener: L) -> Stream<'a, L> {
        let mut image = Image::default();
        if placed.npu.accelerator.is_u65 {
            image.set(Register::PARALLEL_MODE, u64::from(placed.npu.accelerator.cores - 1));
        }
        Stream {
            placed,
            memo,
            commands: Vec::with_capacity(2 * placed.program.steps.len()),
            kernels: Vec::new(),
            copies: Vec::new(),
            tables: Vec::new(),
            recent: Recent::new(placed.npu.accelerator),
            image,
            listener,
        }
    }

    /// The commands of a run.
    fn run(mut self, steps: &[Step]) -> (Vec<Command>, L) {
        for step in steps {
            match step {
                Step::Copy { moved: CopySource::Constants(part, piece), buffer, .. } => {
                    self.copy(*part, *buffer, *piece)
                }
                Step::LoadTable { table, slot, .. } => self.table(*table, *slot),
                Step::Stripe(stripe) => self.stripe(stripe),
                // No command copies tensors, see `tensor_copy_cycles`.
                Step::Copy { moved: CopySource::Tensor { .. }, .. }
                | Step::Feed { .. }
                | Step::Take { .. }
                | Step::Call { .. } => {}
            }
        }
        self.push(Action::Stop);
        (self.commands, self.listener)
    }

    fn push(&mut self, action: Action) {
        let command = Command { command: self.commands.len(), words: self.image.words() + 1, action };
        self.listener.hear(&command, &self.image);
        self.image.end_command();
        self.commands.push(command);
    }

    fn copy(&mut self, part: PartId, buffer: BufferId, piece: Option<Piece>) {
        let Some(kernel) = self.placed.graph.kernel(part) else { return };
        let source = kernel.copied(piece);
        let bytes = kernel.encoding(source).map_or(0, |encoding| encoding.bytes);
        let (pool, to) = (self.placed.placement.pools[buffer], self.placed.address(buffer));
        let range = (to, to + bytes);
        let [from, _] = self.placed.constants.offsets((part, kernel), source);
        let npu = self.placed.npu;
        self.image.copy(from, (npu.command_region(pool), to), bytes);
        let cost = self.memo.copies.entry((bytes, pool)).or_insert_with(|| Arc::new(copy_cost(npu, bytes, pool)));
        let cost = Arc::clone(cost);
        self.transfer(range, cost);
    }

    /// A table into its slots.
    fn table(&mut self, table: LookUpTable, slot: u32) {
        let npu = self.placed.npu;
        let [first, end] = [slot as usize, slot as usize + LookUpArea::slots_of(table.bytes)];
        self.tables.retain(|(id, [start, stop])| *id != table.id && (*stop <= first || end <= *start));
        self.tables.push((table.id, [first, end]));
        let to = LookUpArea::SLOT_BYTES * first as u64;
        let area = npu.accelerator.lut_base() as u64;
        self.image.copy(self.placed.constants.table(table.id), (OWN_MEMORY, area + to), table.bytes);
        self.transfer((LOOK_UP_AREA + to, LOOK_UP_AREA + to + table.bytes), Arc::new(table_cost(npu, table.bytes)));
    }

    /// A transfer to where `range` is, once no kernel in flight touches that.
    fn transfer(&mut self, range: ByteRange, cost: Arc<DmaCost>) {
        // The last kernel that meets the copy, and with it all before, must have ended.
        if let Some(index) = self.kernels.iter().rposition(|touched| touched.meets(range)) {
            let outstanding = self.kernels.len() - 1 - index;
            self.kernels.drain(..=index);
            self.push(Action::KernelWait(outstanding as u32));
        }
        if self.copies.len() == COPIES_IN_FLIGHT[usize::from(self.placed.npu.accelerator.is_u65)] {
            self.copies.remove(0);
        }
        self.copies.push(range);
        self.push(Action::Dma(cost));
    }

    /// The first slot of a table that is loaded.
    fn slot_of(&self, table: TableId) -> Option<u32> {
        self.tables.iter().find(|(id, _)| *id == table).map(|(_, slots)| slots[0] as u32)
    }

    fn stripe(&mut self, stripe: &Stripe) {
        let placed = self.placed;
        let Some(kernel) = placed.graph.kernel(stripe.part) else { return };
        let access = placed.access(kernel, stripe);
        let table = kernel.piece(stripe.piece).table().and_then(|table| Some((self.slot_of(table.id)?, table)));
        let costed = placed.costed(&mut self.memo.kernels, kernel, stripe);
        let blockdep = self.recent.block_dependency(&Reading::of(&costed.operation, stripe.padding), &access);
        let constants = placed.constants(kernel, stripe);
        let (pools, region) = (placed.pools(stripe), |pool| placed.npu.command_region(pool));
        let operands: SmallVec<[Surface; 2]> = access.inputs.iter().chain(&access.constant).copied().collect();
        self.image.kernel(&Setting {
            kernel: &costed.operation,
            inputs: &operands,
            output: &access.output,
            padding: stripe.padding,
            block: stripe.cost.block,
            shram: costed.kernel.shram,
            constants,
            regions: (pools.inputs.map(region), region(pools.output)),
            slot: table.map(|(slot, _)| slot),
        });
        let step = costed.with_blockdep(blockdep);
        let touched = placed.touched(stripe, &access, table);
        if let Some(index) = self.copies.iter().rposition(|&range| touched.meets(range)) {
            let outstanding = self.copies.len() - 1 - index;
            self.copies.drain(..=index);
            self.push(Action::DmaWait(outstanding as u32));
        }
        if self.kernels.len() == KERNELS_IN_FLIGHT {
            self.kernels.remove(0);
        }
        self.kernels.push(touched);
        self.recent.push(access);
        // Waits come between the other registers and this one.
        self.image.set(Register::BLOCKDEP, u64::from(blockdep));
        self.push(Action::Kernel(step));
    }
}

impl PlacedProgram<'_> {
    fn address(&self, buffer: BufferId) -> u64 {
        address(self.placement.pools[buffer], self.placement.offsets[buffer])
    }

    /// The pools of what a stripe touches.
    fn pools(&self, stripe: &Stripe) -> OperandPools {
        let pools = &self.placement.pools;
        let input = |number: usize| stripe.inputs.get(number).map_or(Memories::SCARCE, |view| pools[view.buffer]);
        OperandPools {
            inputs: [input(0), input(1)],
            output: pools[stripe.output.buffer],
            constants: stripe.constants.map_or(Memories::SCARCE, |buffer| pools[buffer]),
        }
    }

    /// What a stripe reads and writes.
    fn access(&self, kernel: &NpuOperation, stripe: &Stripe) -> Access {
        let reads = stripe.inputs.iter().zip(self.graph.reads(stripe.part, stripe.piece));
        let inputs = reads.enumerate().map(|(operand, (view, input))| {
            let (element, depth) = kernel.piece(stripe.piece).operand(operand);
            let channels = [input.first_channel, input.first_channel + depth];
            match input.strides {
                Some(strides) => Surface::strided(view, self.address(view.buffer), strides, element, channels),
                None => self.surface(view, (input.tensor, input.pixel_bytes), element, channels),
            }
        });
        let made = self.graph.output(stripe.part);
        let plane = self.graph.tensors[made].plane;
        let (pixel_bytes, channels) = (self.graph.tensors[made].pixel_bytes, kernel.channels(stripe.piece));
        Access {
            inputs: inputs.collect(),
            constant: kernel.constant_map(plane).map(|map| {
                let whole = [0, 1].map(|axis| Span::new(0, map.plane[axis]));
                let wanted = stripe.output.region.spans;
                let spans = [0, 1].map(|axis| if kernel.is_repeated(1, axis) { whole[axis] } else { wanted[axis] });
                let (offset, element) = (self.constants(kernel, stripe).1[0], kernel.operand(1).0);
                Surface::of_whole(Region { spans }, map.plane, offset, (map.pixel_bytes, map.layout), element)
            }),
            output: self.surface(&stripe.output, (made, pixel_bytes), kernel.ofm, channels),
            block: stripe.cost.block,
            looks_up: kernel.piece(stripe.piece).table().is_some(),
        }
    }

    fn surface(
        &self,
        view: &View,
        (tensor, pixel_bytes): (TensorId, u64),
        element: Element,
        channels: [i64; 2],
    ) -> Surface {
        let layout = self.graph.tensors[tensor].layout;
        Surface::new(view, self.address(view.buffer), (pixel_bytes, layout), element, channels)
    }

    /// Bytes of the pools that a stripe reads or writes, and of its table. Where no banks are kept for tables, the buffers
    /// of a stripe without one may lie over all of them.
    fn touched(&self, stripe: &Stripe, access: &Access, table: Option<(u32, LookUpTable)>) -> KernelRanges {
        let mut touched = KernelRanges::default();
        for surface in access.inputs.iter().chain([&access.output]) {
            touched.ranges.extend(surface.ranges());
        }
        if let Some((slot, table)) = table {
            let start = LOOK_UP_AREA + LookUpArea::SLOT_BYTES * u64::from(slot);
            touched.ranges.push((start, start + table.bytes));
        } else if self.npu.accelerator.reserved_banks == 0 {
            touched.ranges.push((LOOK_UP_AREA, LOOK_UP_AREA + LOOK_UP_BYTES));
        }
        match (stripe.constants, &access.constant) {
            (Some(_), Some(constant)) => touched.ranges.extend(constant.ranges()),
            (Some(buffer), None) => {
                let start = self.address(buffer);
                touched.ranges.push((start, start + self.program.buffers[buffer].size_bytes));
            }
            (None, _) => {}
        }
        touched
    }

    /// Region of a stripe's constants, and the first bytes of weights and scales.
    fn constants(&self, kernel: &NpuOperation, stripe: &Stripe) -> (usize, [u64; 2]) {
        let source = stripe.source(kernel);
        match stripe.constants {
            Some(buffer) => {
                let [weights, _] = constants::sizes(kernel, source);
                let (start, pool) = (self.address(buffer), self.placement.pools[buffer]);
                (self.npu.command_region(pool), [start, start + weights])
            }
            None => (CONSTANTS_REGION, self.constants.offsets((stripe.part, kernel), source)),
        }
    }

    fn costed<'m>(
        &self,
        known: &'m mut Table<Geometry, CostedKernel>,
        kernel: &NpuOperation,
        stripe: &Stripe,
    ) -> &'m mut CostedKernel {
        let geometry = Geometry {
            part: stripe.part,
            source: stripe.source(kernel),
            input: stripe.inputs[0].plane(),
            output: stripe.output.plane(),
            padding: stripe.padding,
            block: stripe.cost.block,
            pools: self.pools(stripe),
        };
        known.entry(geometry).or_insert_with(|| {
            let operation = kernel.with(geometry.source).expect("a stripe's constants are encoded");
            let op = StripeOperation { pools: geometry.pools, ..stripe.operation(self.graph, &operation) };
            let kernel = planned(self.npu, &op, stripe.cost.block);
            CostedKernel { operation, kernel, steps: [None, None, None, None] }
        })
    }
}
