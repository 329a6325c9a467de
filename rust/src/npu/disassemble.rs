//! A payload as text, one line per command. Owns the wording; golden tests compare it.

use super::decode::{decode, Command, Opcode};
use super::error::NpuError;
use super::payload;
use super::registers::{Register, RegisterValue};

const ELEMENTWISE: [&str; 10] = ["MUL", "ADD", "SUB", "MIN", "MAX", "LRELU", "ABS", "CLZ", "SHR", "SHL"];
const POOL: [&str; 3] = ["MAX", "AVERAGE", "REDUCE_SUM"];

/// One line per command: `index  NAME  value`. The first two lines are the payload's config and id words.
///
/// # Errors
/// What [`payload::parse`] and [`decode`] refuse.
pub fn disassemble(bytes: &[u8]) -> Result<Vec<String>, NpuError> {
    let payload = payload::parse(bytes)?;
    let mut lines = vec![format!("config {:#010x}", payload.config_word), format!("id     {:#010x}", payload.id_word)];
    for (index, command) in decode(&payload.stream)?.iter().enumerate() {
        lines.push(format!("{index:5}  {}", describe(command)));
    }
    Ok(lines)
}

fn describe(command: &Command) -> String {
    match *command {
        Command::Operation { opcode, parameter } => {
            let name = opcode.name();
            let detail = match opcode {
                Opcode::Pool => POOL.get(usize::from(parameter)).copied(),
                Opcode::Elementwise => ELEMENTWISE.get(usize::from(parameter)).copied(),
                _ => None,
            };
            match detail {
                Some(detail) => format!("{name} {detail}"),
                None if parameter == 0 => name.to_string(),
                None => format!("{name} {parameter}"),
            }
        }
        Command::Set { register, value } => format!("  {:<18} {}", register.name(), describe_value(register, value)),
    }
}

fn describe_value(register: Register, value: RegisterValue) -> String {
    use Register::*;
    match register {
        IFM_ZERO_POINT | IFM2_ZERO_POINT | OFM_ZERO_POINT | ACTIVATION_MIN | ACTIVATION_MAX | IFM2_SCALAR => {
            format!("{}", value.low as u16 as i16)
        }
        IFM_PRECISION | IFM2_PRECISION | OFM_PRECISION | KERNEL_STRIDE | ACTIVATION | IFM2_BROADCAST
        | DMA0_SRC_REGION | DMA0_DST_REGION => format!("{:#06x}", value.low),
        OFM_SCALE | OPA_SCALE | OPB_SCALE => format!("{} >> {}", value.low, value.high & 0x3F),
        _ if !register.is_wide() => format!("{}", value.low),
        _ => format!("{:#x}", u64::from(value.low) | u64::from(value.high) << 32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_stream() {
        let words = [0x3150_4F43, 0x0010_0001, 0x3008, 0x1006_0000, 5, 5, 5, 0x0006_0002];
        let stream = [0xFF80_0109, 0x0026_4024, 0x4000_0000, 0x0001_0005, 0x0002_0011, 0xFFFF_0000];
        let bytes: Vec<u8> = words.iter().chain(&stream).flat_map(|w: &u32| w.to_le_bytes()).collect();
        let lines = disassemble(&bytes).unwrap();
        let expected = [
            "config 0x00003008",
            "id     0x10060000",
            "    0    IFM_ZERO_POINT     -128",
            "    1    OFM_SCALE          1073741824 >> 38",
            "    2  OP_POOL AVERAGE",
            "    3  OP_DMA_WAIT 2",
            "    4  OP_STOP 65535",
        ];
        assert_eq!(lines, expected);
    }
}
