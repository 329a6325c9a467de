//! NPU operations as Python describes them, made into the core's: names looked up, impossible combinations refused.

use std::sync::Arc;

use pyo3::prelude::*;

use super::error;
use crate::cost::ethosu::is_steady;
use crate::model::ids::TableId;
use crate::model::operation::{
    Element, Encoding, Function, JoinedOperation, Layout, LookUpTable, NpuOperation, OperationKind, Rounding, Scaling,
    SecondOperand, SlicedConstants, StreamTemplate, Upscale,
};
use crate::npu::registers::Register;
use crate::stripe::Region;

#[derive(FromPyObject)]
pub struct OperationSpec {
    kind: String,
    kernel: [i64; 2],
    stride: [i64; 2],
    dilation: [i64; 2],
    upscale: String,
    ifm_depth: i64,
    ofm_depth: i64,
    ifm_bits: u32,
    ifm_signed: bool,
    ofm_bits: u32,
    ofm_signed: bool,
    ifm2: String,
    ifm2_bits: u32,
    ifm2_layout: String,
    broadcast: [bool; 3],
    clamped: bool,
    function: String,
    table: Option<u32>,
    table_bytes: u64,
    scaling: String,
    rounding: String,
    accumulator_bits: u32,
    part_kernel: bool,
    block_depth: i64,
    constant_bytes: u64,
    staged: Option<EncodingSpec>,
    sliced: Option<SlicedSpec>,
    joined: Vec<JoinedSpec>,
    stream: StreamSpec,
}

#[derive(FromPyObject)]
struct JoinedSpec {
    operation: OperationSpec,
    first: [i64; 3],
    plane: [i64; 2],
}

impl JoinedSpec {
    fn build(&self) -> PyResult<JoinedOperation> {
        let [row, column, first_channel] = self.first;
        if self.plane.iter().any(|&extent| extent < 1) || self.first.iter().any(|&first| first < 0) {
            let fault = format!("a joined operation makes {:?} pixels from {:?} on", self.plane, self.first);
            return Err(error::no_extent(fault, [self.first.to_vec(), self.plane.to_vec()].concat()));
        }
        let region = Region::at([row, column], self.plane);
        Ok(JoinedOperation { operation: self.operation.build()?, region, first_channel })
    }
}

#[derive(FromPyObject)]
struct StreamSpec {
    registers: [Vec<(u32, u64)>; 2],
    contents: Vec<[u32; 2]>,
}

impl StreamSpec {
    /// What is emitted, without the registers that stripes set.
    fn build(&self) -> PyResult<StreamTemplate> {
        let mut registers = [Vec::new(), Vec::new()];
        for (found, given) in registers.iter_mut().zip(&self.registers) {
            for &(command, value) in given {
                let unknown = || error::impossible(format!("no register is set by command {command}"));
                let register = Register::from_code(command >> 14, command & 0x3FFF).ok_or_else(unknown)?;
                if is_steady(register) {
                    found.push((register, value));
                }
            }
        }
        Ok(StreamTemplate { registers, contents: self.contents.clone() })
    }
}

#[derive(FromPyObject)]
struct EncodingSpec {
    block_depth: i64,
    part_kernel: bool,
    bytes: u64,
}

#[derive(FromPyObject)]
struct SlicedSpec {
    depth: i64,
    block_depth: i64,
    part_kernel: bool,
    bytes: Vec<u64>,
}

/// What there is of something, by its names.
type Names<T> = &'static [(&'static str, T)];

const UPSCALES: Names<Upscale> = &[("none", Upscale::None), ("nearest", Upscale::Nearest), ("zeros", Upscale::Zeros)];
const SCALINGS: Names<Scaling> = &[
    ("none", Scaling::None),
    ("global", Scaling::Global),
    ("per_channel", Scaling::PerChannel),
    ("operands", Scaling::Operands),
];
const ROUNDINGS: Names<Rounding> =
    &[("tfl", Rounding::Tfl), ("natural", Rounding::Natural), ("truncate", Rounding::Truncate)];
/// Bytes of the tables that there are.
const TABLE_BYTES: [u64; 3] = [256, 1024, 2048];

/// A layout by its name.
pub fn layout_of(name: &str) -> PyResult<Layout> {
    match name {
        "NHWC" => Ok(Layout::Nhwc),
        "NHCWB16" => Ok(Layout::Nhcwb16),
        other => Err(error::unknown("layout", other, &["NHWC", "NHCWB16"])),
    }
}

fn named<T: Copy>(what: &str, known: &[(&'static str, T)], name: &str) -> PyResult<T> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    Ok(known[error::known(what, name, &names)?].1)
}

impl OperationSpec {
    /// The core's operation.
    pub fn build(&self) -> PyResult<NpuOperation> {
        let kinds = OperationKind::ALL.map(|kind| (kind.name(), kind));
        let operation = NpuOperation {
            kind: named("kind of operation", &kinds, &self.kind)?,
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            upscale: named("upscale", UPSCALES, &self.upscale)?,
            ifm_depth: self.ifm_depth,
            ofm_depth: self.ofm_depth,
            ifm: element("ifm_bits", self.ifm_bits, self.ifm_signed)?,
            ofm: element("ofm_bits", self.ofm_bits, self.ofm_signed)?,
            second: self.second()?,
            clamped: self.clamped,
            function: self.function()?,
            scaling: named("scaling", SCALINGS, &self.scaling)?,
            rounding: named("rounding", ROUNDINGS, &self.rounding)?,
            accumulator_bits: self.accumulator_bits,
            part_kernel: self.part_kernel,
            block_depth: self.block_depth,
            constant_bytes: self.constant_bytes,
            staged: self.staged.as_ref().map(|staged| Encoding {
                block_depth: staged.block_depth,
                part_kernel: staged.part_kernel,
                bytes: staged.bytes,
            }),
            sliced: self.sliced.as_ref().map(|sliced| SlicedConstants {
                depth: sliced.depth,
                block_depth: sliced.block_depth,
                part_kernel: sliced.part_kernel,
                bytes: sliced.bytes.clone(),
            }),
            joined: self.joined.iter().map(JoinedSpec::build).collect::<PyResult<_>>()?,
            emitted: Arc::new(self.stream.build()?),
        };
        let extents =
            [operation.kernel, operation.stride, operation.dilation, [operation.ifm_depth, operation.ofm_depth]];
        if extents.iter().flatten().any(|&extent| extent < 1) {
            let fault =
                format!("{}: the extents, strides, dilations and depths are at least 1, not {extents:?}", self.kind);
            return Err(error::no_extent(fault, extents.concat()));
        }
        possible(&operation).map_err(|fault| error::impossible(format!("{}: {fault}", self.kind)))?;
        Ok(operation)
    }

    fn second(&self) -> PyResult<SecondOperand> {
        let broadcast = self.broadcast;
        let of = || element("ifm2_bits", self.ifm2_bits, self.ifm_signed);
        let found = match self.ifm2.as_str() {
            "none" => SecondOperand::None,
            "scalar" => SecondOperand::Scalar(of()?),
            "map" => return Ok(SecondOperand::Map { element: of()?, broadcast }),
            "constant" => {
                let layout = layout_of(&self.ifm2_layout)?;
                if layout == Layout::Nhcwb16 && (broadcast[2] || self.ifm_depth % 16 != 0) {
                    let fault =
                        format!("a constant of {} channels, repeated {broadcast:?}, has no bricks", self.ifm_depth);
                    return Err(error::impossible(fault));
                }
                return Ok(SecondOperand::Constant { element: of()?, broadcast, layout });
            }
            other => {
                let fault = format!("unknown ifm2 '{other}'; known are none, scalar, map, constant");
                return Err(error::impossible(fault));
            }
        };
        if broadcast.contains(&true) {
            let fault =
                format!("broadcast is {broadcast:?} and ifm2 '{}'; only a map is repeated, constant or not", self.ifm2);
            return Err(error::impossible(fault));
        }
        Ok(found)
    }

    fn function(&self) -> PyResult<Function> {
        let functions = [("clamp", Function::Clamp), ("tanh", Function::Tanh), ("sigmoid", Function::Sigmoid)];
        let (table, bytes) = (self.table, self.table_bytes);
        match (self.function.as_str(), table) {
            ("table", Some(id)) if TABLE_BYTES.contains(&bytes) => {
                Ok(Function::Table(LookUpTable { id: TableId(id), bytes }))
            }
            ("table", Some(_)) => {
                let fault = format!("table_bytes is {bytes}; tables have 256, 1024 or 2048 bytes");
                Err(error::impossible(fault))
            }
            ("table", None) => Err(error::impossible("the function is 'table' and table is None")),
            (other, Some(id)) if other != "table" => {
                Err(error::impossible(format!("table is {id} and the function '{other}', which has none")))
            }
            (other, _) => {
                let known = [("table", Function::Clamp)].into_iter().chain(functions).collect::<Vec<_>>();
                named("function", &known, other)
            }
        }
    }
}

fn element(field: &str, bits: u32, signed: bool) -> PyResult<Element> {
    if [8, 16, 32].contains(&bits) {
        return Ok(Element { bits, signed });
    }
    Err(error::impossible(format!("{field} is {bits}; elements have 8, 16 or 32 bits")))
}

/// What the figures of an operation contradict each other in.
fn possible(op: &NpuOperation) -> Result<(), String> {
    let (kind, extents) = (op.kind, [op.kernel, op.stride, op.dilation]);
    if kind.is_elementwise() && (extents.iter().flatten().any(|&extent| extent != 1) || op.upscale != Upscale::None) {
        return Err(format!(
            "kernel, stride and dilation of an element-wise operation are 1, not {extents:?}, without upscale"
        ));
    }
    if kind.is_binary() != (op.second != SecondOperand::None) {
        let needs = if kind.is_binary() { "a map, a constant or a scalar" } else { "none" };
        return Err(format!("the second operand is {:?}; it needs {needs}", op.second));
    }
    if kind.has_weights() && op.ifm.bits == 32 {
        return Err("an input of 32 bits has no weights".into());
    }
    if kind.has_weights() != (op.scaling == Scaling::PerChannel) {
        return Err(format!("scaling is {:?}; it is per channel where there are weights, and only there", op.scaling));
    }
    if op.scaling == Scaling::Operands && !matches!(kind, OperationKind::Add | OperationKind::Sub) {
        return Err("only the operands of add and sub are scaled".into());
    }
    if kind == OperationKind::SumOverDepth && op.ofm_depth != 1 {
        return Err(format!("it makes 1 channel, not {}", op.ofm_depth));
    }
    if ![32, 40].contains(&op.accumulator_bits) {
        return Err(format!("accumulator_bits is {}; it may be 32 or 40", op.accumulator_bits));
    }
    Ok(())
}
