//! Words of a command stream to commands. Owns the word formats, not the registers' meaning.

use super::error::{Fault, NpuError};
use super::registers::{Register, RegisterValue};

/// An operation opcode (one-word commands below 256).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// End of the stream; parameter is the interrupt mask.
    Stop,
    /// Raises an interrupt.
    Irq,
    /// Convolution.
    Conv,
    /// Depthwise convolution.
    Depthwise,
    /// Pooling; parameter 0 maximum, 1 average, 2 sum over depth.
    Pool,
    /// Elementwise; parameter is the function.
    Elementwise,
    /// Starts a DMA.
    DmaStart,
    /// Waits until at most "parameter" DMAs are outstanding.
    DmaWait,
    /// Waits until at most "parameter" kernels are outstanding.
    KernelWait,
    /// Performance counter mask.
    PmuMask,
}

impl Opcode {
    fn from_code(code: u32) -> Option<Opcode> {
        Some(match code {
            0 => Opcode::Stop,
            1 => Opcode::Irq,
            2 => Opcode::Conv,
            3 => Opcode::Depthwise,
            5 => Opcode::Pool,
            6 => Opcode::Elementwise,
            16 => Opcode::DmaStart,
            17 => Opcode::DmaWait,
            18 => Opcode::KernelWait,
            19 => Opcode::PmuMask,
            _ => return None,
        })
    }

    /// Name as in the hardware's documentation.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Stop => "OP_STOP",
            Opcode::Irq => "OP_IRQ",
            Opcode::Conv => "OP_CONV",
            Opcode::Depthwise => "OP_DEPTHWISE",
            Opcode::Pool => "OP_POOL",
            Opcode::Elementwise => "OP_ELEMENTWISE",
            Opcode::DmaStart => "OP_DMA_START",
            Opcode::DmaWait => "OP_DMA_WAIT",
            Opcode::KernelWait => "OP_KERNEL_WAIT",
            Opcode::PmuMask => "OP_PMU_MASK",
        }
    }
}

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Starts something.
    Operation {
        /// What.
        opcode: Opcode,
        /// Its 16-bit parameter.
        parameter: u16,
    },
    /// Sets a register.
    Set {
        /// Which.
        register: Register,
        /// To what.
        value: RegisterValue,
    },
}

impl Command {
    /// Name of the operation or the register.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Operation { opcode, .. } => opcode.name(),
            Command::Set { register, .. } => register.name(),
        }
    }
}

/// A whole stream as commands, up to and including OP_STOP. The index in the vector is the command index of errors.
///
/// # Errors
/// [`NpuError::Command`] with an unknown word, a missing second word, a missing OP_STOP or words after it.
pub fn decode(stream: &[u32]) -> Result<Vec<Command>, NpuError> {
    let mut commands = Vec::new();
    let mut position = 0;
    while let Some(&word) = stream.get(position) {
        let fault = |fault| NpuError::Command { command: commands.len(), operation: "decode", fault };
        let (command, words) = decode_one(word, stream.get(position + 1).copied()).map_err(fault)?;
        position += words;
        commands.push(command);
        if matches!(command, Command::Operation { opcode: Opcode::Stop, .. }) {
            let words = stream.len() - position;
            if words > 0 {
                let fault = Fault::AfterStop { words };
                return Err(NpuError::Command { command: commands.len(), operation: "decode", fault });
            }
            return Ok(commands);
        }
    }
    Err(NpuError::Command { command: commands.len(), operation: "decode", fault: Fault::Truncated })
}

/// One command and the number of words it takes.
fn decode_one(word: u32, next: Option<u32>) -> Result<(Command, usize), Fault> {
    let unknown = Fault::UnknownCommand { word };
    let (code, format, parameter) = (word & 0x3FF, word >> 14 & 3, (word >> 16) as u16);
    if word & 0x3C00 != 0 || format > 1 {
        return Err(unknown);
    }
    if format == 1 {
        let register = Register::from_code(1, code).ok_or(unknown)?;
        let low = next.ok_or(Fault::Truncated)?;
        return Ok((Command::Set { register, value: RegisterValue { low, high: parameter } }, 2));
    }
    if code < 256 {
        let opcode = Opcode::from_code(code).ok_or(unknown)?;
        return Ok((Command::Operation { opcode, parameter }, 1));
    }
    let register = Register::from_code(0, code).ok_or(unknown)?;
    Ok((Command::Set { register, value: RegisterValue { low: u32::from(parameter), high: 0 } }, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_word_commands() {
        let commands = decode(&[0x0007_0104, 0x0003_4024, 0x1234_5678, 0xFFFF_0000]).unwrap();
        assert_eq!(commands[0].name(), "IFM_DEPTH_M1");
        let value = RegisterValue { low: 0x1234_5678, high: 3 };
        assert_eq!(commands[1], Command::Set { register: Register::OFM_SCALE, value });
        assert_eq!(commands[2], Command::Operation { opcode: Opcode::Stop, parameter: 0xFFFF });
    }

    #[test]
    fn damage_is_named_with_its_command() {
        let fault = |stream: &[u32]| match decode(stream) {
            Err(NpuError::Command { command, fault, .. }) => (command, fault),
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(&[]), (0, Fault::Truncated));
        assert_eq!(fault(&[0x0007_0104, 0x4024]), (1, Fault::Truncated));
        assert_eq!(fault(&[0x0000_0004]), (0, Fault::UnknownCommand { word: 4 }));
        assert_eq!(fault(&[0x0000_8002]), (0, Fault::UnknownCommand { word: 0x8002 }));
        assert_eq!(fault(&[0xFFFF_0000, 1]), (1, Fault::AfterStop { words: 1 }));
    }
}
