//! The order in which the NPU wants weights, and back from it to dense arrays. Owns the traversal of blocks and
//! sub-kernels, nothing of the coding.

use super::error::Fault;
use crate::util::interrupt;

/// Everything that the order of one weight stream depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WeightGeometry {
    /// Output channels of this stream (of one core).
    pub ofm_depth: u32,
    /// Input channels; 1 for depthwise.
    pub ifm_depth: u32,
    /// Kernel rows, undilated.
    pub kernel_height: u32,
    /// Kernel columns, undilated.
    pub kernel_width: u32,
    /// Vertical dilation.
    pub dilation_y: u32,
    /// Horizontal dilation.
    pub dilation_x: u32,
    /// OFM block depth of this core.
    pub block_depth: u32,
    /// OFM micro-block depth.
    pub ofm_micro_depth: u32,
    /// IFM micro-block depth.
    pub ifm_micro_depth: u32,
    /// Whether each kernel is applied to one channel.
    pub depthwise: bool,
    /// Part-kernel-first instead of depth-first.
    pub part_kernel: bool,
    /// Whether the IFM is 16-bit.
    pub ifm_16bit: bool,
    /// Largest dilated sub-kernel side: 8, or 4 with 4x4 decomposition.
    pub sub_kernel: u32,
}

/// A sub-kernel within the kernel.
#[derive(Clone, Copy)]
struct SubKernel {
    y: u32,
    x: u32,
    height: u32,
    width: u32,
    /// Elements with padding.
    elements: u32,
}

impl WeightGeometry {
    fn input_block(&self) -> u32 {
        if self.part_kernel || self.ifm_16bit {
            16
        } else {
            32
        }
    }

    /// Channels that an input block takes in the stream, from block start `ib`.
    fn input_channels(&self, ib: u32) -> u32 {
        if self.depthwise {
            self.ifm_micro_depth
        } else if self.part_kernel {
            self.input_block().min(self.ifm_depth - ib)
        } else {
            self.input_block()
        }
    }

    fn sub_kernels(&self) -> Vec<SubKernel> {
        let limit = |dilation: u32| (self.sub_kernel / dilation).max(1) as usize;
        let round_to = match (self.part_kernel, self.ifm_16bit, self.depthwise) {
            (true, true, _) => 2,
            (true, false, _) | (false, _, true) => 4,
            (false, _, false) => 1,
        };
        let mut all = Vec::new();
        for y in (0..self.kernel_height).step_by(limit(self.dilation_y)) {
            let height = (limit(self.dilation_y) as u32).min(self.kernel_height - y);
            for x in (0..self.kernel_width).step_by(limit(self.dilation_x)) {
                let width = (limit(self.dilation_x) as u32).min(self.kernel_width - x);
                all.push(SubKernel { y, x, height, width, elements: (height * width).next_multiple_of(round_to) });
            }
        }
        all
    }

    /// Weights in the stream, padding included.
    pub fn stream_weights(&self) -> u64 {
        let elements: u64 = self.sub_kernels().iter().map(|s| u64::from(s.elements)).sum();
        let micro = self.ifm_micro_depth;
        let inputs: u64 = if self.depthwise {
            1
        } else {
            let blocks = (0..self.ifm_depth).step_by(self.input_block() as usize);
            blocks.map(|ib| u64::from(self.input_channels(ib).next_multiple_of(micro))).sum()
        };
        let block = self.block_depth.max(1);
        let whole = u64::from(self.ofm_depth / block) * u64::from(block.next_multiple_of(self.ofm_micro_depth));
        let rest = u64::from((self.ofm_depth % block).next_multiple_of(self.ofm_micro_depth));
        elements * inputs * (whole + rest)
    }

    /// Number of weights without padding.
    pub fn volume(&self) -> u64 {
        let taps = u64::from(self.kernel_height) * u64::from(self.kernel_width);
        u64::from(self.ofm_depth) * taps * u64::from(self.ifm_depth)
    }

    /// Puts a decoded stream in order: `[output][ky][kx][input]`, for depthwise `[ky][kx][output]`.
    ///
    /// # Errors
    /// [`Fault::WeightCount`] if the stream has another length than [`WeightGeometry::stream_weights`],
    /// [`Fault::Invalid`] if padding is not zero.
    pub fn reorder(&self, stream: &[i16]) -> Result<Vec<i16>, Fault> {
        if stream.len() as u64 != self.stream_weights() {
            return Err(Fault::WeightCount { found: stream.len(), needed: self.stream_weights() as usize });
        }
        let mut placer = Placer { geometry: self, stream: stream.iter(), out: vec![0; self.volume() as usize] };
        let sub_kernels = self.sub_kernels();
        let inputs = if self.depthwise { 1 } else { self.ifm_depth };
        for ob in (0..self.ofm_depth).step_by(self.block_depth.max(1) as usize) {
            let outputs = self.block_depth.max(1).min(self.ofm_depth - ob);
            for ib in (0..inputs).step_by(self.input_block() as usize) {
                for sub in &sub_kernels {
                    interrupt::ask();
                    placer.place_sub_kernel(ob, outputs, ib, *sub)?;
                }
            }
        }
        Ok(placer.out)
    }
}

/// Walks the stream and drops each weight into its place.
struct Placer<'a> {
    geometry: &'a WeightGeometry,
    stream: std::slice::Iter<'a, i16>,
    out: Vec<i16>,
}

impl Placer<'_> {
    fn place_sub_kernel(&mut self, ob: u32, outputs: u32, ib: u32, sub: SubKernel) -> Result<(), Fault> {
        let g = self.geometry;
        let channels = g.input_channels(ib);
        let micro = g.ifm_micro_depth as usize;
        // Part-kernel-first walks the kernel inside a micro-block of inputs, depth-first the inputs inside an element.
        let (outer, inner) = if g.part_kernel { (channels, 1) } else { (1, channels) };
        for io in (0..outer).step_by(micro) {
            for ou in (0..outputs).step_by(g.ofm_micro_depth as usize) {
                for e in 0..sub.elements {
                    for ii in (0..inner).step_by(micro) {
                        self.place_micro_block(ob + ou, ib + io + ii, e, sub)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// One micro-block of outputs by one of inputs, at element `e` of a sub-kernel.
    fn place_micro_block(&mut self, output: u32, input: u32, e: u32, sub: SubKernel) -> Result<(), Fault> {
        let g = self.geometry;
        let (ky, kx) = (e / sub.width, e % sub.width);
        let inside = ky < sub.height;
        let tap = ((sub.y + ky) * g.kernel_width + sub.x + kx) as usize;
        let taps = (g.kernel_height * g.kernel_width) as usize;
        let columns = if g.depthwise { 1 } else { g.ifm_micro_depth };
        // A micro-block may reach beyond the block into the next one's channels only where those do not exist here.
        for oz in output..output + g.ofm_micro_depth {
            let row = self.stream.by_ref().take(columns as usize);
            let count = if inside && oz < g.ofm_depth { columns.min(g.ifm_depth.saturating_sub(input)) } else { 0 };
            let start = if g.depthwise {
                tap * g.ofm_depth as usize + oz as usize
            } else {
                (oz as usize * taps + tap) * g.ifm_depth as usize + input as usize
            };
            for (i, weight) in row.enumerate() {
                if i < count as usize {
                    self.out[start + i] = *weight;
                } else if *weight != 0 {
                    return Err(Fault::Invalid { what: "the padding of the weight stream is not zero" });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::weights::decode;
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    fn geometry(ohwi: [u32; 4], block_depth: u32, ofm_micro_depth: u32) -> WeightGeometry {
        WeightGeometry {
            ofm_depth: ohwi[0],
            ifm_depth: ohwi[3],
            kernel_height: ohwi[1],
            kernel_width: ohwi[2],
            dilation_y: 1,
            dilation_x: 1,
            block_depth,
            ofm_micro_depth,
            ifm_micro_depth: 8,
            depthwise: false,
            part_kernel: false,
            ifm_16bit: false,
            sub_kernel: 8,
        }
    }

    fn check(geometry: &WeightGeometry, count: u64, text: &str, want: &[i16]) {
        assert_eq!(geometry.stream_weights(), count);
        let stream = decode(&hex(text), count as usize).unwrap();
        assert_eq!(geometry.reorder(&stream).unwrap(), want);
    }

    #[test]
    fn depth_first_vector() {
        let text = "d10068a134b9d48a6752e90900301203e0d2ce9207c000f87f0d048740fc1ce600c000002a00fefff3e1ffffffffffff";
        let want =
            [4, -5, -4, -3, -4, 4, 5, 1, -6, -5, -2, -1, 2, 0, -3, -4, 2, 3, -6, -5, -1, -1, 5, 0, -1, -1, 2, 1, -4, 3];
        check(&geometry([3, 1, 1, 10], 16, 8), 256, text, &want);
    }

    #[test]
    fn part_kernel_vector() {
        let text = "d101dc068e31c698aff845d2d773c35c8814630e0eac4e0d8dd5226112c6202b8bbabb6320c3dc498e71a35d6d8d0fce74800e09c6c0b3270c00b2d9f29724c6884f82e53097d621bb96f4ff91289a291ab592fb5692f867b833f38fe7ff02001900e01cf0e8ffffffffffffffffffff";
        let want = [
            131, 233, 146, -110, -92, 76, 77, 100, 189, -106, 224, -255, -216, 242, 227, -103, -184, -95, -233, 200,
            83, 44, -130, -15, -158, 140, -13, -240, -125, 106, 10, -64, -126, -209, 55, 82, 10, 220, 219, -150, 55,
            66, -129, -103, -6, 124, -106, 114, 79, -144, -57, 169, 175, 81, -253, 93, -140, 164, 211, -36,
        ];
        check(&WeightGeometry { part_kernel: true, ..geometry([5, 2, 2, 3], 8, 4) }, 256, text, &want);
    }

    #[test]
    fn depthwise_vector() {
        let text = "68005c119c2c404fdf6f34ea911f0c007006f2ffffffffffffffffffffffffff";
        let ohwi = [
            -100, -100, 0, -100, 0, 0, 1, -100, 1, 0, -100, 0, 0, 0, 0, 1, -100, 0, 1, -100, 0, 0, 1, 1, 0, 0, 0, 1,
            -100, 0,
        ];
        let want: Vec<i16> = (0..30).map(|i| ohwi[(i % 5) * 6 + i / 5]).collect();
        check(&WeightGeometry { depthwise: true, ..geometry([5, 2, 3, 1], 8, 8) }, 64, text, &want);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let g = geometry([3, 1, 1, 10], 16, 8);
        assert_eq!(g.reorder(&[0; 10]), Err(Fault::WeightCount { found: 10, needed: 256 }));
        assert!(matches!(g.reorder(&[1; 256]), Err(Fault::Invalid { .. })));
    }
}
