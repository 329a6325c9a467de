//! DMA: one transfer as its registers describe it, and its copying. Owns alignment and the strided forms.

use super::accelerator::Accelerator;
use super::error::Fault;
use super::memory::Memory;
use super::registers::{Register, RegisterFile};
use crate::util::interrupt;

/// Most rows times planes of a strided transfer that are simulated.
const MAX_ROWS: u64 = 1 << 24;

/// One end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Region index; `None` is SHRAM.
    pub region: Option<usize>,
    /// First byte.
    pub address: i64,
    /// Dimensions that are strided at this end: 0, 1 or 2.
    pub strided: u32,
}

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dma {
    /// Where from.
    pub source: End,
    /// Where to.
    pub destination: End,
    /// Bytes of one row.
    pub length: usize,
    /// Rows of a plane (1 unless strided).
    pub rows: u32,
    /// Planes (1 unless strided twice).
    pub planes: u32,
    /// Bytes skipped after a row at the strided end.
    pub skip_row: i64,
    /// Bytes skipped after a plane at the strided end.
    pub skip_plane: i64,
}

/// Reads the transfer that OP_DMA_START starts.
///
/// # Errors
/// [`Fault::NotSet`], [`Fault::Range`], [`Fault::Misaligned`]; [`Fault::Invalid`] for strided transfers on U55.
pub fn read_dma(registers: &RegisterFile, accelerator: &Accelerator) -> Result<Dma, Fault> {
    use Register::*;
    let source = end(registers, DMA0_SRC_REGION, DMA0_SRC)?;
    let destination = end(registers, DMA0_DST_REGION, DMA0_DST)?;
    let length = registers.get(DMA0_LEN)?;
    let strided = source.strided.max(destination.strided);
    if strided > 0 && !accelerator.is_u65 {
        return Err(Fault::Invalid { what: "strided DMA exists on U65 only" });
    }
    let dma = Dma {
        source,
        destination,
        length: length as usize,
        rows: if strided >= 1 { registers.get(DMA0_SIZE0)? } else { 1 },
        planes: if strided >= 2 { registers.get(DMA0_SIZE1)? } else { 1 },
        skip_row: if strided >= 1 { registers.stride(DMA0_SKIP0)? } else { 0 },
        skip_plane: if strided >= 2 { registers.stride(DMA0_SKIP1)? } else { 0 },
    };
    for (register, end) in [(DMA0_SRC, source), (DMA0_DST, destination)] {
        if (!accelerator.is_u65 || end.region.is_none()) && end.address % 16 != 0 {
            return Err(Fault::Misaligned { register: register.name(), value: end.address, alignment: 16 });
        }
    }
    let internal = source.region.is_none() || destination.region.is_none();
    if (!accelerator.is_u65 || internal) && length % 16 != 0 {
        return Err(Fault::Misaligned { register: DMA0_LEN.name(), value: i64::from(length), alignment: 16 });
    }
    Ok(dma)
}

fn end(registers: &RegisterFile, region: Register, address: Register) -> Result<End, Fault> {
    let value = registers.get(region)?;
    let strided = value >> 9 & 3;
    if strided > 2 {
        return Err(Fault::Range { register: region.name(), value: i64::from(value), allowed: "stride modes 0..=2" });
    }
    let internal = value >> 8 & 1 == 1;
    let region = if internal { None } else { Some((value & 7) as usize) };
    Ok(End { region, address: registers.address(address)?, strided })
}

impl Dma {
    /// Bytes that are copied, and one for every row.
    pub fn work(&self) -> u64 {
        let rows = u64::from(self.rows).saturating_mul(u64::from(self.planes));
        rows.saturating_mul(self.length as u64 + 1)
    }

    /// Copies the bytes.
    ///
    /// # Errors
    /// Faults of memory; [`Fault::TooLarge`] for more rows than the simulator copies.
    pub fn execute(&self, memory: &mut Memory) -> Result<(), Fault> {
        let amount = u64::from(self.rows) * u64::from(self.planes);
        if amount > MAX_ROWS {
            return Err(Fault::TooLarge { what: "rows of a DMA", amount, limit: MAX_ROWS });
        }
        for plane in 0..i64::from(self.planes) {
            for row in 0..i64::from(self.rows) {
                interrupt::ask();
                let from = self.row_address(&self.source, plane, row);
                let to = self.row_address(&self.destination, plane, row);
                memory.copy((self.source.region, from), (self.destination.region, to), self.length)?;
            }
        }
        Ok(())
    }

    /// Address of a row at one end: strided ends skip bytes, the other end is dense.
    pub(super) fn row_address(&self, end: &End, plane: i64, row: i64) -> i64 {
        let length = self.length as i64;
        let rows = i64::from(self.rows);
        let (skip_row, skip_plane) = match end.strided {
            0 => (0, 0),
            1 => (self.skip_row, 0),
            _ => (self.skip_row, self.skip_plane),
        };
        // A plane's stride counts rows without their skips: SIZE0 * LEN + SKIP1.
        end.address
            .wrapping_add(row.wrapping_mul(length.wrapping_add(skip_row)))
            .wrapping_add(plane.wrapping_mul(length.wrapping_mul(rows).wrapping_add(skip_plane)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::new(1024, true);
        let a = memory.add_buffer((0..64).collect(), true, true);
        let b = memory.add_buffer(vec![0; 64], true, false);
        memory.set_region(0, a, 0, 64).unwrap();
        memory.set_region(1, b, 0, 64).unwrap();
        memory
    }

    fn dma(source: End, destination: End) -> Dma {
        Dma { source, destination, length: 4, rows: 2, planes: 2, skip_row: 6, skip_plane: 20 }
    }

    #[test]
    fn strided_source_becomes_dense() {
        let source = End { region: Some(0), address: 2, strided: 2 };
        let destination = End { region: Some(1), address: 0, strided: 0 };
        let mut memory = memory();
        dma(source, destination).execute(&mut memory).unwrap();
        let want = [2, 3, 4, 5, 12, 13, 14, 15, 30, 31, 32, 33, 40, 41, 42, 43];
        assert_eq!(memory.peek("test", 1, 0, 16).unwrap(), want);
    }

    #[test]
    fn strided_destination_spreads() {
        let source = End { region: Some(0), address: 0, strided: 0 };
        let destination = End { region: Some(1), address: 0, strided: 1 };
        let mut memory = memory();
        Dma { planes: 1, ..dma(source, destination) }.execute(&mut memory).unwrap();
        assert_eq!(memory.peek("test", 1, 0, 14).unwrap(), [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7]);
        assert_eq!(memory.find_uninitialised(1, 0, 14), Ok(Some(4)));
    }

    #[test]
    fn unwritten_bytes_stay_unwritten() {
        let mut memory = memory();
        memory.write("test", 1, 0, 20).unwrap();
        memory.set_initialised(0, 5, 3, false).unwrap();
        let end = |region| End { region: Some(region), address: 0, strided: 0 };
        Dma { length: 16, rows: 1, planes: 1, ..dma(end(0), end(1)) }.execute(&mut memory).unwrap();
        assert_eq!(memory.take_uninitialised(), None);
        assert_eq!(memory.find_uninitialised(1, 0, 20), Ok(Some(5)));
        assert_eq!(memory.find_uninitialised(1, 8, 12), Ok(None));
    }
}
