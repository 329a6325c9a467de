//! Reads the feature maps of a kernel from registers: shapes, tiles, strides and their alignment.
//! A part of [`super::kernel_reader`], in its own file for its size.

use super::error::Fault;
use super::feature_map::{ElementType, FeatureMap, Layout};
use super::kernel_reader::{layout, Reader};
use super::operation::{KernelKind, Operand2, Window};
use super::registers::Register;

/// The registers of one feature map.
struct MapRegisters {
    name: &'static str,
    region: Register,
    zero_point: Register,
    bases: [Register; 4],
    strides: [Register; 3],
    tiles: [Register; 3],
}

const IFM: MapRegisters = MapRegisters {
    name: "IFM",
    region: Register::IFM_REGION,
    zero_point: Register::IFM_ZERO_POINT,
    bases: [Register::IFM_BASE0, Register::IFM_BASE1, Register::IFM_BASE2, Register::IFM_BASE3],
    strides: [Register::IFM_STRIDE_Y, Register::IFM_STRIDE_X, Register::IFM_STRIDE_C],
    tiles: [Register::IFM_WIDTH0_M1, Register::IFM_HEIGHT0_M1, Register::IFM_HEIGHT1_M1],
};

const IFM2: MapRegisters = MapRegisters {
    name: "IFM2",
    region: Register::IFM2_REGION,
    zero_point: Register::IFM2_ZERO_POINT,
    bases: [Register::IFM2_BASE0, Register::IFM2_BASE1, Register::IFM2_BASE2, Register::IFM2_BASE3],
    strides: [Register::IFM2_STRIDE_Y, Register::IFM2_STRIDE_X, Register::IFM2_STRIDE_C],
    tiles: [Register::IFM2_WIDTH0_M1, Register::IFM2_HEIGHT0_M1, Register::IFM2_HEIGHT1_M1],
};

const OFM: MapRegisters = MapRegisters {
    name: "OFM",
    region: Register::OFM_REGION,
    zero_point: Register::OFM_ZERO_POINT,
    bases: [Register::OFM_BASE0, Register::OFM_BASE1, Register::OFM_BASE2, Register::OFM_BASE3],
    strides: [Register::OFM_STRIDE_Y, Register::OFM_STRIDE_X, Register::OFM_STRIDE_C],
    tiles: [Register::OFM_WIDTH0_M1, Register::OFM_HEIGHT0_M1, Register::OFM_HEIGHT1_M1],
};

impl Reader<'_> {
    pub(super) fn ofm(&self) -> Result<FeatureMap, Fault> {
        let precision = self.registers.get(Register::OFM_PRECISION)?;
        let shape = [
            self.registers.size(Register::OFM_HEIGHT_M1)?,
            self.registers.size(Register::OFM_WIDTH_M1)?,
            self.registers.size(Register::OFM_DEPTH_M1)?,
        ];
        let element = element(precision & 1, precision >> 1 & 3, "OFM_PRECISION")?;
        self.map(&OFM, shape, element, layout(precision, "OFM_PRECISION layout")?)
    }

    pub(super) fn ifm(&self, kind: KernelKind, ofm: &FeatureMap, window: &Window) -> Result<FeatureMap, Fault> {
        let precision = self.registers.get(Register::IFM_PRECISION)?;
        let element = element(precision & 1, precision >> 2 & 3, "IFM_PRECISION")?;
        let layout = layout(precision, "IFM_PRECISION layout")?;
        let elementwise = matches!(kind, KernelKind::Elementwise(_));
        if element.bits == 32 && !elementwise && kind != KernelKind::ReduceSum {
            return Err(Fault::Invalid { what: "a 32-bit IFM is only for elementwise kernels and reduce_sum" });
        }
        let depth = match kind {
            KernelKind::Conv | KernelKind::ReduceSum => self.registers.size(Register::IFM_DEPTH_M1)?,
            _ => ofm.depth,
        };
        if kind == KernelKind::ReduceSum {
            if ofm.depth != 1 {
                return Err(Fault::Invalid { what: "the OFM of reduce_sum is deeper than 1" });
            }
            if element.bits == 32 && layout != Layout::Nhwc {
                return Err(Fault::Invalid { what: "reduce_sum of 32-bit elements needs an NHWC IFM" });
            }
        }
        let height = stored_size(window, window.padded_rows(ofm.height), window.pad_top + window.pad_bottom)?;
        let width = stored_size(window, window.padded_columns(ofm.width), window.pad_left + window.pad_right)?;
        self.map(&IFM, [height, width, depth], element, layout)
    }

    pub(super) fn ifm2(&self, ifm: &FeatureMap, ofm: &FeatureMap) -> Result<Operand2, Fault> {
        let precision = self.registers.get(Register::IFM2_PRECISION)?;
        let element = element(precision & 1, precision >> 2 & 3, "IFM2_PRECISION")?;
        if element != ifm.element {
            return Err(Fault::Invalid { what: "IFM2 has another element type than the IFM" });
        }
        let broadcast = self.registers.get(Register::IFM2_BROADCAST)?;
        if broadcast >> 7 & 1 == 1 {
            let zero_point = i64::from(self.registers.signed16(Register::IFM2_ZERO_POINT)?);
            let value = if element.signed {
                i64::from(self.registers.signed16(Register::IFM2_SCALAR)?)
            } else {
                i64::from(self.registers.get(Register::IFM2_SCALAR)?)
            };
            return Ok(Operand2::Scalar(value - zero_point));
        }
        let size = |bit: u32, full: u32| if broadcast >> bit & 1 == 1 { 1 } else { full };
        let shape = [size(0, ofm.height), size(1, ofm.width), size(2, ofm.depth)];
        let layout = layout(precision, "IFM2_PRECISION layout")?;
        Ok(Operand2::Map(self.map(&IFM2, shape, element, layout)?))
    }

    fn map(
        &self,
        names: &MapRegisters,
        shape: [u32; 3],
        element: ElementType,
        layout: Layout,
    ) -> Result<FeatureMap, Fault> {
        let [height, width, depth] = shape;
        let registers = self.registers;
        let (width0, height0) = (registers.size(names.tiles[0])?, registers.size(names.tiles[1])?);
        // Tiles that the map does not reach need no registers.
        let (right, lower) = (width > width0, height > height0);
        let height1 = if right { registers.size(names.tiles[2])? } else { 65536 };
        let used = [true, right, lower, right && height > height1];
        let mut bases = [0; 4];
        for (i, register) in names.bases.into_iter().enumerate().filter(|(i, _)| used[*i]) {
            bases[i] = registers.address(register)?;
        }
        let stride_c = if layout == Layout::Nhcwb16 { registers.stride(names.strides[2])? } else { 0 };
        let map = FeatureMap {
            name: names.name,
            region: self.in_range(names.region, 0, 7, "0..=7")? as usize,
            height,
            width,
            depth,
            element,
            layout,
            zero_point: registers.signed16(names.zero_point)?,
            bases,
            width0,
            height0,
            height1,
            stride_x: registers.stride(names.strides[1])?,
            stride_y: registers.stride(names.strides[0])?,
            stride_c,
        };
        check_alignment(&map, names)?;
        Ok(map)
    }
}

/// Rows or columns of the stored IFM for `padded` rows of which `padding` are not data.
fn stored_size(window: &Window, padded: u32, padding: u32) -> Result<u32, Fault> {
    match padded.checked_sub(padding) {
        Some(data) if data > 0 => Ok(data.div_ceil(window.upscale.factor())),
        _ => Err(Fault::Invalid { what: "the padding leaves no row or column of the IFM" }),
    }
}

fn element(signed: u32, code: u32, register: &'static str) -> Result<ElementType, Fault> {
    let bits = match code {
        0 => 8,
        1 => 16,
        2 => 32,
        n => return Err(Fault::Range { register, value: i64::from(n), allowed: "precision 0..=2" }),
    };
    Ok(ElementType { bits, signed: signed == 1 })
}

fn check_alignment(map: &FeatureMap, names: &MapRegisters) -> Result<(), Fault> {
    let check = |register: Register, value: i64, alignment: u32| {
        if value % i64::from(alignment) == 0 {
            Ok(())
        } else {
            Err(Fault::Misaligned { register: register.name(), value, alignment })
        }
    };
    let bricks = map.layout == Layout::Nhcwb16;
    let alignment = if bricks { 16 } else { map.element.bytes() as u32 };
    for (register, base) in names.bases.into_iter().zip(map.bases) {
        check(register, base, alignment)?;
    }
    check(names.strides[0], map.stride_y, alignment)?;
    check(names.strides[1], map.stride_x, alignment)?;
    check(names.strides[2], map.stride_c, alignment)
}
