//! A kernel that writes over what it reads. Owns when it may.
//!
//! A block is read before it is written. So an operation on single elements may write over an operand where each result
//! lies exactly where its own element did. Any other byte in common is a hazard: which blocks are read ahead, and how much
//! of them, is not documented.

use super::access::{Access, Accesses, Place};
use super::hazard::{hazard, Hazard, HazardKind};
use super::ranges::Region3;
use crate::npu::feature_map::{FeatureMap, Layout};
use crate::npu::memory::Memory;
use crate::npu::operation::{Kernel, KernelKind, Operand2, Upscale};

/// Bytes that a kernel reads and writes, apart from operands that lie exactly where the output does.
pub fn overwritten(command: usize, kernel: &Kernel, accesses: &Accesses, memory: &Memory) -> Vec<Hazard> {
    let mut found = Vec::new();
    for write in accesses.writes.iter().filter(|write| write.place != Place::Shram) {
        for read in accesses.reads.iter().filter(|read| read.may_meet(write) && !is_exact(kernel, read, memory)) {
            let common = read.ranges().intersection(&write.ranges());
            found.extend(hazard(HazardKind::WriteAfterRead, (command, read.what), (command, write), &common));
        }
    }
    found
}

/// Whether a read is of an operand of single elements, each where its result lies.
fn is_exact(kernel: &Kernel, read: &Access, memory: &Memory) -> bool {
    let window = &kernel.window;
    let is_single =
        [window.height, window.width, window.stride_y, window.stride_x] == [1; 4] && window.upscale == Upscale::None;
    let keeps_elements =
        matches!(kernel.kind, KernelKind::Elementwise(_) | KernelKind::MaxPool | KernelKind::AveragePool);
    let second = match &kernel.ifm2 {
        Some(Operand2::Map(map)) => Some(map),
        _ => None,
    };
    let operand = std::iter::once(&kernel.ifm).chain(second).find(|map| map.name == read.what);
    is_single && keeps_elements && operand.is_some_and(|map| lies_alike(map, &kernel.ofm, memory))
}

/// Whether two feature maps have all elements in the same places.
fn lies_alike(one: &FeatureMap, other: &FeatureMap, memory: &Memory) -> bool {
    let shape = |map: &FeatureMap| (map.height, map.width, map.depth, map.element.bits);
    let strides = |map: &FeatureMap| {
        let bricks = (map.layout == Layout::Nhcwb16).then_some(map.stride_c);
        (map.stride_y, map.stride_x, bricks)
    };
    let bytes = |map: &FeatureMap| {
        let access = Access::part(map, Region3::whole(map), memory)?;
        Some((access.place, access.offset + map.bases[0], access.ranges()))
    };
    shape(one) == shape(other) && strides(one) == strides(other) && bytes(one) == bytes(other)
}
