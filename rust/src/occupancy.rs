//! How many bytes the arena holds while a group runs: what the group touches, moment by moment, and what stays beside it.
//!
//! Owns this count, which follows the demand-driven order of stripes without walking it: rows of dying inputs go as rows
//! of outputs come, rolling buffers and staged constants live from first use to last. What a whole program really takes is
//! `lifetimes` and the memory planner's to say.

use crate::graph::{aligned, CascaderGraph, PartId, TensorId, Work};
use crate::stripe::{Axis, Span};

/// Stripes of a group's last output that are looked at besides an even sample: the first, and the last.
const ENDS: [i64; 2] = [1, 4];
/// Stripes sampled in between, where bytes change steadily.
const SAMPLES: i64 = 6;

/// One read, flattened: needed rows are `[scale * start + offset, ... + length_scale * length + length)`, clamped.
#[derive(Clone, Copy, Debug)]
struct Link {
    reader: usize,
    source: Source,
    extent: i64,
    /// Scale, offset, length scale, length; None where every stripe reads all rows.
    rows: Option<[i64; 4]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Output of a Part of the group, by offset.
    Inside(usize),
    /// A tensor that dies in the group, by index.
    Dying(usize),
}

impl Link {
    #[inline]
    fn needed(&self, out: Span) -> Span {
        let Some([scale, offset, length_scale, length]) = self.rows else { return Span::new(0, self.extent) };
        let start = scale * out.start + offset;
        Span::new(start, start + length_scale * out.len() + length).clamp(self.extent)
    }
}

/// Rows and bytes of a row of a whole tensor.
#[derive(Clone, Copy, Debug)]
struct Rows {
    count: i64,
    bytes: u64,
}

/// What the arena holds while Parts `first..=last` run as one group, whatever the group's Plan decides.
#[derive(Debug)]
pub struct Occupancy {
    links: Vec<Link>,
    /// Inputs that nobody wants after the group.
    dying: Vec<Rows>,
    /// Per Part, its output's rows if somebody outside the group wants it.
    kept: Vec<Option<Rows>>,
    /// Bytes that stay from the group's first step to its last.
    resident_bytes: u64,
}

/// Bytes that a Plan's decisions add for one Part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The rolling buffer of its output; 0 where that is whole.
    pub rolling: u64,
    /// Its staged constants.
    pub staged: u64,
}

impl Occupancy {
    /// The group of Parts `first..=last`.
    pub fn new(graph: &CascaderGraph, first: PartId, last: PartId) -> Occupancy {
        let is_group = graph.kernel(last).is_some();
        let mut dying: Vec<TensorId> = Vec::new();
        let mut links = Vec::new();
        for part in first..=last {
            for input in graph.parts[part as usize].inputs.iter().filter(|_| is_group) {
                let inside = graph.producer[input.tensor as usize].filter(|&producer| producer >= first);
                let source = match inside {
                    Some(producer) => Source::Inside((producer - first) as usize),
                    None if graph.outlives(input.tensor, last) => continue,
                    None => Source::Dying(dying.iter().position(|&t| t == input.tensor).unwrap_or_else(|| {
                        dying.push(input.tensor);
                        dying.len() - 1
                    })),
                };
                let extent = graph.tensors[input.tensor as usize].plane[0];
                let rows = graph.is_aligned(input).then(|| {
                    let [zero, one, two] = [0, 1, 2].map(|n| input.propagator.span(Axis::Height, Span::new(0, n)));
                    let scale = input.propagator.span(Axis::Height, Span::new(1, 2)).start - one.start;
                    let length = zero.end - zero.start;
                    [scale, zero.start, two.end - one.end, length]
                });
                links.push(Link { reader: (part - first) as usize, source, extent, rows });
            }
        }
        links.reverse();
        let whole_rows = |tensor: TensorId| {
            let tensor = &graph.tensors[tensor as usize];
            Rows { count: tensor.plane[0], bytes: tensor.plane[1] as u64 * tensor.pixel_bytes }
        };
        let wanted_later = |part: PartId| is_group && (part == last || graph.outlives(graph.output(part), last));
        let kept = (first..=last).map(|part| wanted_later(part).then(|| whole_rows(graph.output(part)))).collect();
        let resident_bytes = resident_bytes(graph, first, last, &dying, is_group);
        Occupancy { links, dying: dying.into_iter().map(whole_rows).collect(), kept, resident_bytes }
    }

    /// Bytes in the arena while every tensor that the group touches is whole, and nothing rolls or is staged.
    pub fn whole_bytes(&self) -> u64 {
        let sizes = self.dying.iter().chain(self.kept.iter().flatten()).map(|r| aligned(r.count as u64 * r.bytes));
        self.resident_bytes + sizes.sum::<u64>()
    }

    /// Most bytes in the arena at once while a Plan of one band that rolls along the height runs; None once they are found
    /// to reach `limit_bytes`.
    ///
    /// `ends` are the rows wanted of each Part's output, `shares` what the Plan adds for each Part. Whole stripes are
    /// counted live while they are read or written. Exact at the moments looked at, which are all where the last output
    /// has few stripes.
    pub fn peak_bytes(&self, stripes: &[i64], ends: &[Span], shares: &[Share], limit_bytes: u64) -> Option<u64> {
        let last = stripes.len() - 1;
        let (made, alive) = (vec![0; stripes.len()], vec![false; stripes.len()]);
        let oldest = vec![0; self.dying.len()];
        let mut moment = Moment { occupancy: self, stripes, ends, shares, made, alive, oldest };
        let count = stripes_of(ends[last].len(), stripes[last]);
        let late = (count - ENDS[1]).max(ENDS[0]);
        let step = ((late - ENDS[0]) / SAMPLES).max(1);
        let mut peak = 0;
        // The last moment first, as more often than not it tells that a Plan is of no use.
        let moments = (1..=count.min(ENDS[0])).chain((ENDS[0] + 1..=late).step_by(step as usize));
        for index in std::iter::once(count).chain(moments).chain(late + 1..count) {
            let end = (ends[last].start + index * stripes[last]).min(ends[last].end);
            peak = peak.max(moment.bytes(last, end));
            if peak >= limit_bytes {
                return None;
            }
        }
        let inputs: u64 = self.dying.iter().map(|rows| rows.count as u64 * rows.bytes).sum();
        let mut before = self.resident_bytes + inputs;
        for root in 0..last {
            before += shares[root].rolling + shares[root].staged;
            if before > peak {
                peak = peak.max(moment.bytes(root, (ends[root].start + stripes[root]).min(ends[root].end)));
            }
        }
        Some(peak).filter(|&peak| peak < limit_bytes)
    }
}

fn stripes_of(rows: i64, stripe: i64) -> i64 {
    (rows + stripe - 1) / stripe
}

/// The state of a group while one stripe of one Part is made.
struct Moment<'a> {
    occupancy: &'a Occupancy,
    stripes: &'a [i64],
    ends: &'a [Span],
    shares: &'a [Share],
    /// Rows made of each Part's output: one past the last.
    made: Vec<i64>,
    /// Whether some reader in the group still wants rows of a Part's output.
    alive: Vec<bool>,
    /// Oldest row still wanted of each dying input.
    oldest: Vec<i64>,
}

impl Moment<'_> {
    /// Bytes in use while Part `root` makes the stripe that ends at row `end`, Parts after it not having begun.
    fn bytes(&mut self, root: usize, end: i64) -> u64 {
        self.look(root, end);
        let Moment { occupancy, stripes, ends, shares, made, alive, oldest } = self;
        let mut bytes = occupancy.resident_bytes;
        for (rows, &oldest) in occupancy.dying.iter().zip(oldest.iter()) {
            bytes += (rows.count - oldest.clamp(0, rows.count)) as u64 * rows.bytes;
        }
        for offset in 0..stripes.len() {
            let begun = made[offset] > ends[offset].start;
            if let Some(rows) = occupancy.kept[offset] {
                bytes += (made[offset] - ends[offset].start) as u64 * rows.bytes;
            }
            if begun && alive[offset] {
                bytes += shares[offset].rolling;
            }
            if begun && (offset == root || made[offset] < ends[offset].end) {
                bytes += shares[offset].staged;
            }
        }
        aligned(bytes)
    }

    /// What is made and what is wanted at the moment, by following demand back from `root`.
    fn look(&mut self, root: usize, end: i64) {
        let Moment { occupancy, stripes, ends, made, alive, oldest, .. } = self;
        for (made, wanted) in made.iter_mut().zip(ends.iter()) {
            *made = wanted.start;
        }
        made[root] = end;
        alive.fill(false);
        oldest.fill(i64::MAX);
        for link in &occupancy.links {
            let reader = link.reader;
            let (at, stripe, wanted) = (made[reader], stripes[reader], ends[reader]);
            let begun = at > wanted.start;
            let begin = if begun { wanted.start + (at - 1 - wanted.start) / stripe * stripe } else { at };
            match link.source {
                Source::Inside(inner) => {
                    if begun {
                        let needed = link.needed(Span::new(begin, at)).end - ends[inner].start;
                        let whole = ends[inner].start + stripes_of(needed, stripes[inner]) * stripes[inner];
                        made[inner] = made[inner].max(whole.min(ends[inner].end));
                    }
                    alive[inner] |= reader == root || at < wanted.end;
                }
                Source::Dying(tensor) => {
                    let next = Span::new(at, (at + stripe).min(wanted.end));
                    let reading = if reader == root { Span::new(begin, at) } else { next };
                    if !reading.is_empty() {
                        oldest[tensor] = oldest[tensor].min(link.needed(reading).start);
                    }
                }
            }
        }
    }
}

/// Bytes of whole tensors, and of workspace, that stay while a group runs and that it neither kills nor makes.
fn resident_bytes(graph: &CascaderGraph, first: PartId, last: PartId, dying: &[TensorId], is_group: bool) -> u64 {
    let mut bytes = 0;
    for (id, tensor) in graph.tensors.iter().enumerate() {
        let wanted = || tensor.is_output || graph.consumers[id].last().is_some_and(|&part| part >= first);
        let stays = match graph.producer[id] {
            Some(part) if part > last => false,
            Some(part) if part >= first => !is_group,
            Some(_) => wanted(),
            None => first == 0 || wanted(),
        };
        if stays && !dying.contains(&(id as TensorId)) {
            bytes += aligned(tensor.size_bytes());
        }
    }
    for part in first..=last {
        if let Work::Opaque { workspace_bytes } = graph.parts[part as usize].work {
            bytes += aligned(workspace_bytes);
        }
    }
    bytes
}
