//! The memories that an NPU sees: regions over buffers, SHRAM, and a shadow that knows which bytes were ever written.
//! Owns bounds, read-only constants and the count of what was touched. Knows nothing of tensors.

use super::error::Fault;

/// Number of base address registers.
pub const REGION_COUNT: usize = 8;

/// One bit per byte.
#[derive(Debug, Clone, Default)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    fn new(bytes: usize, value: bool) -> Bitmap {
        Bitmap { words: vec![if value { u64::MAX } else { 0 }; bytes.div_ceil(64)] }
    }

    /// Mask of the bits of word `index` that lie in `[start, end)`.
    fn mask(index: usize, start: usize, end: usize) -> u64 {
        let (first, last) = (index * 64, index * 64 + 64);
        let mut mask = u64::MAX;
        if start > first {
            mask &= u64::MAX << (start - first);
        }
        if end < last {
            mask &= u64::MAX >> (last - end);
        }
        mask
    }

    fn fill(&mut self, start: usize, end: usize, value: bool) {
        if start >= end {
            return;
        }
        for index in start / 64..end.div_ceil(64) {
            let mask = Bitmap::mask(index, start, end);
            if value {
                self.words[index] |= mask;
            } else {
                self.words[index] &= !mask;
            }
        }
    }

    /// First bit in `[start, end)` that is not `value`.
    fn first_other(&self, start: usize, end: usize, value: bool) -> Option<usize> {
        if start >= end {
            return None;
        }
        (start / 64..end.div_ceil(64)).find_map(|index| {
            let word = if value { !self.words[index] } else { self.words[index] };
            let odd = word & Bitmap::mask(index, start, end);
            (odd != 0).then(|| index * 64 + odd.trailing_zeros() as usize)
        })
    }

    /// The maximal ranges of `[start, end)` whose bits are not set.
    fn gaps(&self, start: usize, end: usize) -> Vec<std::ops::Range<usize>> {
        let mut gaps = Vec::new();
        let mut at = start;
        while let Some(first) = self.first_other(at, end, true) {
            at = self.first_other(first, end, false).unwrap_or(end);
            gaps.push(first..at);
        }
        gaps
    }
}

/// Bytes that one or more regions are windows of.
#[derive(Debug, Clone)]
struct Buffer {
    data: Vec<u8>,
    writable: bool,
    /// Bytes that were written, by the host or by the NPU.
    written: Bitmap,
}

/// A window into a buffer, and what happened in it.
#[derive(Debug, Clone)]
struct Region {
    buffer: usize,
    offset: usize,
    size: usize,
    touched_end: usize,
}

/// The regions of one NPU, with their shadow.
#[derive(Debug, Clone)]
pub struct Memory {
    buffers: Vec<Buffer>,
    regions: [Option<Region>; REGION_COUNT],
    shram: Buffer,
    /// Whether reading bytes never written is a finding.
    watch_uninitialised: bool,
    first_uninitialised: Option<(usize, usize, usize)>,
    /// Bytes that operations read so far (SHRAM apart).
    pub bytes_read: u64,
    /// Bytes that operations wrote so far (SHRAM apart).
    pub bytes_written: u64,
}

impl Memory {
    /// No regions yet, and SHRAM of `shram_bytes`. With `watch_uninitialised` off, unwritten bytes may be read freely.
    pub fn new(shram_bytes: usize, watch_uninitialised: bool) -> Memory {
        let written = Bitmap::new(shram_bytes, false);
        Memory {
            buffers: Vec::new(),
            regions: Default::default(),
            shram: Buffer { data: vec![0; shram_bytes], writable: true, written },
            watch_uninitialised,
            first_uninitialised: None,
            bytes_read: 0,
            bytes_written: 0,
        }
    }

    /// Adds a buffer and returns its index. `initialised` says whether its bytes count as written.
    pub fn add_buffer(&mut self, data: Vec<u8>, writable: bool, initialised: bool) -> usize {
        let written = Bitmap::new(data.len(), initialised);
        self.buffers.push(Buffer { data, writable, written });
        self.buffers.len() - 1
    }

    /// Makes region `index` the bytes `[offset, offset + size)` of a buffer. Several regions may share bytes.
    ///
    /// # Errors
    /// [`Fault::NoRegion`] if there is no such region or buffer, [`Fault::OutOfBounds`] if the window leaves the buffer.
    pub fn set_region(&mut self, index: usize, buffer: usize, offset: usize, size: usize) -> Result<(), Fault> {
        let what = "a region's definition";
        let Some(capacity) = self.buffers.get(buffer).map(|b| b.data.len()) else {
            return Err(Fault::NoRegion { what, region: index });
        };
        if index >= REGION_COUNT {
            return Err(Fault::NoRegion { what, region: index });
        }
        match offset.checked_add(size) {
            Some(end) if end <= capacity => {}
            end => {
                let end = end.unwrap_or(usize::MAX) as i64;
                return Err(Fault::OutOfBounds { what, region: index, start: offset as i64, end, size: capacity });
            }
        }
        self.regions[index] = Some(Region { buffer, offset, size, touched_end: 0 });
        Ok(())
    }

    /// The buffer that a region is a window of, with the window's offset and size in bytes.
    pub fn window(&self, region: usize) -> Option<(usize, usize, usize)> {
        self.regions.get(region)?.as_ref().map(|r| (r.buffer, r.offset, r.size))
    }

    /// One past the highest byte of a region that was read or written; 0 if none was or there is no such region.
    pub fn touched_end(&self, region: usize) -> usize {
        self.regions.get(region).and_then(Option::as_ref).map_or(0, |r| r.touched_end)
    }

    /// Checks an access, records it, and returns its place: buffer, start and end in the buffer.
    fn place(
        &mut self,
        what: &'static str,
        region: usize,
        start: i64,
        len: usize,
    ) -> Result<(usize, usize, usize), Fault> {
        let Some(window) = self.regions.get_mut(region).and_then(Option::as_mut) else {
            return Err(Fault::NoRegion { what, region });
        };
        let end = i128::from(start) + len as i128;
        if start < 0 || end > window.size as i128 {
            let end = end.clamp(0, i128::from(i64::MAX)) as i64;
            return Err(Fault::OutOfBounds { what, region, start, end, size: window.size });
        }
        let (start, end) = (start as usize, end as usize);
        if len > 0 {
            window.touched_end = window.touched_end.max(end);
        }
        Ok((window.buffer, window.offset + start, window.offset + end))
    }

    /// The bytes `[start, start + len)` of a region, for an operation to read.
    ///
    /// # Errors
    /// [`Fault::NoRegion`], [`Fault::OutOfBounds`]. Unwritten bytes are remembered for [`Memory::take_uninitialised`].
    pub fn read(&mut self, what: &'static str, region: usize, start: i64, len: usize) -> Result<&[u8], Fault> {
        let (buffer, from, to) = self.place(what, region, start, len)?;
        self.bytes_read += len as u64;
        let buffer = &self.buffers[buffer];
        if self.watch_uninitialised && self.first_uninitialised.is_none() {
            if let Some(byte) = buffer.written.first_other(from, to, true) {
                let end = buffer.written.first_other(byte, to, false).unwrap_or(to);
                self.first_uninitialised =
                    Some((region, start as usize + (byte - from), start as usize + (end - from)));
            }
        }
        Ok(&buffer.data[from..to])
    }

    /// The bytes `[start, start + len)` of a region, for an operation to write; they count as written from now on.
    ///
    /// # Errors
    /// [`Fault::NoRegion`], [`Fault::OutOfBounds`], [`Fault::ReadOnly`].
    pub fn write(&mut self, what: &'static str, region: usize, start: i64, len: usize) -> Result<&mut [u8], Fault> {
        let (buffer, from, to) = self.place(what, region, start, len)?;
        self.bytes_written += len as u64;
        let buffer = &mut self.buffers[buffer];
        if !buffer.writable {
            return Err(Fault::ReadOnly { what, region, start, end: start.saturating_add(len as i64) });
        }
        buffer.written.fill(from, to, true);
        Ok(&mut buffer.data[from..to])
    }

    /// Copies `len` bytes, each end a region or SHRAM (`None`) and its first byte. Unwritten bytes stay unwritten:
    /// only who uses them is at fault.
    ///
    /// # Errors
    /// Those of [`Memory::read`] and [`Memory::write`].
    pub fn copy(&mut self, from: (Option<usize>, i64), to: (Option<usize>, i64), len: usize) -> Result<(), Fault> {
        let source = "DMA source";
        let (buffer, start, end) = match from.0 {
            Some(region) => {
                let (buffer, start, end) = self.place(source, region, from.1, len)?;
                self.bytes_read += len as u64;
                (&self.buffers[buffer], start, end)
            }
            None => {
                let (start, end) = self.shram_place(source, from.1, len)?;
                (&self.shram, start, end)
            }
        };
        let bytes = buffer.data[start..end].to_vec();
        let unwritten = if self.watch_uninitialised { buffer.written.gaps(start, end) } else { Vec::new() };
        let destination = "DMA destination";
        match to.0 {
            Some(region) => self.write(destination, region, to.1, len)?.copy_from_slice(&bytes),
            None => self.write_shram(destination, to.1, len)?.copy_from_slice(&bytes),
        }
        for gap in unwritten {
            let offset = to.1 + (gap.start - start) as i64;
            match to.0 {
                Some(region) => self.set_initialised(region, offset, gap.len(), false)?,
                None => self.shram.written.fill(offset as usize, offset as usize + gap.len(), false),
            }
        }
        Ok(())
    }

    /// Bytes of a region without any trace of having looked.
    ///
    /// # Errors
    /// [`Fault::NoRegion`], [`Fault::OutOfBounds`].
    pub fn peek(&self, what: &'static str, region: usize, start: i64, len: usize) -> Result<&[u8], Fault> {
        let (buffer, from, to) = self.clone_place(what, region, start, len)?;
        Ok(&self.buffers[buffer].data[from..to])
    }

    /// As [`Memory::place`], without recording.
    fn clone_place(
        &self,
        what: &'static str,
        region: usize,
        start: i64,
        len: usize,
    ) -> Result<(usize, usize, usize), Fault> {
        let Some(window) = self.regions.get(region).and_then(Option::as_ref) else {
            return Err(Fault::NoRegion { what, region });
        };
        let end = i128::from(start) + len as i128;
        if start < 0 || end > window.size as i128 {
            let end = end.clamp(0, i128::from(i64::MAX)) as i64;
            return Err(Fault::OutOfBounds { what, region, start, end, size: window.size });
        }
        Ok((window.buffer, window.offset + start as usize, window.offset + end as usize))
    }

    /// Counts `[start, start + len)` of a region as used, without reading or writing.
    ///
    /// # Errors
    /// [`Fault::NoRegion`], [`Fault::OutOfBounds`].
    pub fn touch(&mut self, what: &'static str, region: usize, start: i64, len: usize) -> Result<(), Fault> {
        self.place(what, region, start, len).map(|_| ())
    }

    /// Sets whether `[start, start + len)` of a region counts as written.
    ///
    /// # Errors
    /// [`Fault::NoRegion`], [`Fault::OutOfBounds`].
    pub fn set_initialised(&mut self, region: usize, start: i64, len: usize, value: bool) -> Result<(), Fault> {
        let (buffer, from, to) = self.clone_place("an initialised range", region, start, len)?;
        self.buffers[buffer].written.fill(from, to, value);
        Ok(())
    }

    /// First byte of `[start, start + len)` never written, as an offset in the region.
    ///
    /// # Errors
    /// [`Fault::NoRegion`], [`Fault::OutOfBounds`].
    pub fn find_uninitialised(&self, region: usize, start: i64, len: usize) -> Result<Option<usize>, Fault> {
        let (buffer, from, to) = self.clone_place("an initialised range", region, start, len)?;
        let byte = self.buffers[buffer].written.first_other(from, to, true);
        Ok(byte.map(|b| b - from + start as usize))
    }

    /// Region, start and end of the first unwritten bytes that were read since the last call. Region [`REGION_COUNT`] is
    /// SHRAM.
    pub fn take_uninitialised(&mut self) -> Option<(usize, usize, usize)> {
        self.first_uninitialised.take()
    }

    /// Calls `visit` with start and bytes of every maximal written range of a buffer.
    pub fn for_each_written(&self, buffer: usize, mut visit: impl FnMut(usize, &[u8])) {
        let Some(buffer) = self.buffers.get(buffer) else {
            return;
        };
        let mut at = 0;
        while let Some(start) = buffer.written.first_other(at, buffer.data.len(), false) {
            let end = buffer.written.first_other(start, buffer.data.len(), true).unwrap_or(buffer.data.len());
            visit(start, &buffer.data[start..end]);
            at = end;
        }
    }

    /// SHRAM bytes for a table look-up.
    ///
    /// # Errors
    /// [`Fault::OutOfBounds`].
    pub fn read_shram(&mut self, what: &'static str, start: i64, len: usize) -> Result<&[u8], Fault> {
        let (from, to) = self.shram_place(what, start, len)?;
        if self.first_uninitialised.is_none() {
            // SHRAM is the NPU's own, so this is watched even when the host's memory is not.
            let written = &self.shram.written;
            let byte = written.first_other(from, to, true);
            let end = |byte| written.first_other(byte, to, false).unwrap_or(to);
            self.first_uninitialised = byte.map(|b| (REGION_COUNT, b, end(b)));
        }
        Ok(&self.shram.data[from..to])
    }

    /// SHRAM bytes for a DMA to fill.
    ///
    /// # Errors
    /// [`Fault::OutOfBounds`].
    pub fn write_shram(&mut self, what: &'static str, start: i64, len: usize) -> Result<&mut [u8], Fault> {
        let (from, to) = self.shram_place(what, start, len)?;
        self.shram.written.fill(from, to, true);
        Ok(&mut self.shram.data[from..to])
    }

    /// Forgets SHRAM from byte `start`: an operation used it for something else.
    pub fn clobber_shram(&mut self, start: usize) {
        self.shram.written.fill(start, self.shram.data.len(), false);
    }

    fn shram_place(&self, what: &'static str, start: i64, len: usize) -> Result<(usize, usize), Fault> {
        let size = self.shram.data.len();
        let end = i128::from(start) + len as i128;
        if start < 0 || end > size as i128 {
            let end = end.clamp(0, i128::from(i64::MAX)) as i64;
            return Err(Fault::OutOfBounds { what, region: REGION_COUNT, start, end, size });
        }
        Ok((start as usize, end as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory() -> Memory {
        let mut memory = Memory::new(1024, true);
        let constants = memory.add_buffer(vec![7; 32], false, true);
        let arena = memory.add_buffer(vec![0; 100], true, false);
        memory.set_region(0, constants, 0, 32).unwrap();
        memory.set_region(1, arena, 0, 100).unwrap();
        memory.set_region(2, arena, 50, 50).unwrap();
        memory
    }

    #[test]
    fn accesses_outside_are_refused() {
        let mut memory = memory();
        assert!(matches!(memory.read("IFM", 1, 90, 11), Err(Fault::OutOfBounds { end: 101, size: 100, .. })));
        assert!(matches!(memory.read("IFM", 1, -1, 4), Err(Fault::OutOfBounds { start: -1, .. })));
        assert!(matches!(memory.read("IFM", 1, i64::MAX, usize::MAX), Err(Fault::OutOfBounds { .. })));
        assert!(matches!(memory.read("IFM", 3, 0, 1), Err(Fault::NoRegion { region: 3, .. })));
        assert!(matches!(memory.write("OFM", 0, 0, 1), Err(Fault::ReadOnly { region: 0, .. })));
        assert!(memory.set_region(2, 1, 60, 50).is_err() && memory.set_region(9, 1, 0, 1).is_err());
    }

    #[test]
    fn regions_that_share_bytes_share_their_shadow() {
        let mut memory = memory();
        memory.write("OFM", 1, 60, 10).unwrap().fill(9);
        assert_eq!(memory.read("IFM", 2, 10, 10).unwrap(), [9; 10]);
        assert_eq!(memory.take_uninitialised(), None);
        memory.read("IFM", 2, 10, 11).unwrap();
        assert_eq!(memory.take_uninitialised(), Some((2, 20, 21)));
        assert_eq!((memory.touched_end(1), memory.touched_end(2), memory.touched_end(0)), (70, 21, 0));
        let mut ranges = Vec::new();
        memory.for_each_written(1, |start, bytes| ranges.push((start, bytes.len())));
        assert_eq!(ranges, [(60, 10)]);
    }

    proptest! {
        #[test]
        fn bitmaps_are_sets(ranges in proptest::collection::vec((0usize..300, 0usize..300, any::<bool>()), 0..8),
                            ask in (0usize..300, 0usize..300), value: bool) {
            let mut bitmap = Bitmap::new(300, false);
            let mut model = [false; 300];
            for (start, end, value) in ranges {
                bitmap.fill(start, end, value);
                if start < end { model[start..end].fill(value); }
            }
            let want = (ask.0..ask.1.max(ask.0)).find(|&i| model[i] != value);
            prop_assert_eq!(bitmap.first_other(ask.0, ask.1, value), want);
        }
    }
}
