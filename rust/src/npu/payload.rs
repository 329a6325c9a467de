//! The driver payload around a command stream ("COP1" and its actions). Owns its format and the driver's refusals.

use super::accelerator::Accelerator;
use super::error::PayloadError;

const MAGIC: u32 = u32::from_le_bytes(*b"COP1");
const ACTION_CONFIG: u32 = 1;
const ACTION_STREAM: u32 = 2;
const ACTION_NOP: u32 = 5;
const MAX_STREAM_BYTES: usize = 1 << 24;

/// A payload taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Configuration word: MACs, SHRAM size, product that the stream was made for.
    pub config_word: u32,
    /// Identity word: architecture version that the stream was made for.
    pub id_word: u32,
    /// Byte offset of the stream in the payload, a multiple of 16.
    pub stream_offset_bytes: usize,
    /// The command stream.
    pub stream: Vec<u32>,
}

/// Takes a payload apart.
///
/// # Errors
/// Every refusal of the driver that does not depend on the device: magic, size, unknown actions, truncation,
/// alignment of the stream inside the payload, number of streams.
pub fn parse(bytes: &[u8]) -> Result<Payload, PayloadError> {
    if bytes.len() % 4 != 0 || bytes.is_empty() {
        return Err(PayloadError::Size { bytes: bytes.len() });
    }
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    if words[0] != MAGIC {
        return Err(PayloadError::Magic { word: words[0] });
    }
    let mut config = None;
    let mut streams: Vec<std::ops::Range<usize>> = Vec::new();
    let mut index = 1;
    while let Some(&word) = words.get(index) {
        let length = match word & 0xFF {
            ACTION_CONFIG => 2,
            ACTION_STREAM => (((word >> 8) & 0xFF) << 16 | word >> 16) as usize,
            ACTION_NOP => 0,
            code => return Err(PayloadError::UnknownAction { index, word, code }),
        };
        let body = index + 1..index + 1 + length;
        if body.end > words.len() {
            return Err(PayloadError::Truncated { index, needed: length, left: words.len() - index - 1 });
        }
        match word & 0xFF {
            ACTION_CONFIG => config = Some((words[body.start], words[body.start + 1])),
            ACTION_STREAM if config.is_none() => return Err(PayloadError::NoConfig),
            ACTION_STREAM => streams.push(body.clone()),
            _ => {}
        }
        index = body.end;
    }
    let (Some((config_word, id_word)), [range]) = (config, streams.as_slice()) else {
        return Err(PayloadError::StreamCount { count: streams.len() });
    };
    let offset = range.start * 4;
    if offset % 16 != 0 {
        return Err(PayloadError::StreamMisaligned { offset });
    }
    if range.len() * 4 >= MAX_STREAM_BYTES {
        return Err(PayloadError::StreamTooLong { bytes: range.len() * 4 });
    }
    Ok(Payload { config_word, id_word, stream_offset_bytes: offset, stream: words[range.clone()].to_vec() })
}

/// Compares the payload's words with the device's as the driver does.
///
/// # Errors
/// [`PayloadError::ConfigMismatch`] or [`PayloadError::IdMismatch`] with the field that differs.
pub fn check_device(payload: &Payload, device: &Accelerator) -> Result<(), PayloadError> {
    let (word, expected) = (payload.config_word, device.config_word);
    let config = |what| Err(PayloadError::ConfigMismatch { word, expected, accelerator: device.name, what });
    if word != expected {
        if word >> 28 != expected >> 28 {
            return config("product");
        }
        if word & 0xF != expected & 0xF {
            return config("MACs per cycle");
        }
        if (word >> 4) & 0xF != (expected >> 4) & 0xF {
            return config("command stream version");
        }
        if word >> 27 & 1 == 1 {
            return config("custom DMA");
        }
    }
    let (word, expected) = (payload.id_word, device.id_word);
    if word >> 28 != expected >> 28 {
        return Err(PayloadError::IdMismatch { word, expected, what: "the architecture's major version differs" });
    }
    if (word >> 20) & 0xFF > (expected >> 20) & 0xFF {
        return Err(PayloadError::IdMismatch { word, expected, what: "the payload needs a newer minor version" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    const GOOD: [u32; 9] = [MAGIC, 0x0010_0001, 0x3008, 0x1006_0000, 5, 5, 5, 0x0001_0002, 0xFFFF_0000];

    #[test]
    fn a_payload_as_vela_lays_it_out() {
        let parsed = parse(&payload(&GOOD)).unwrap();
        assert_eq!(parsed.stream, [0xFFFF_0000]);
        assert_eq!(parsed.stream_offset_bytes, 32);
        check_device(&parsed, Accelerator::by_name("ethos-u55-256").unwrap()).unwrap();
    }

    #[test]
    fn refusals() {
        assert_eq!(parse(&[1, 2, 3]), Err(PayloadError::Size { bytes: 3 }));
        assert_eq!(parse(&[]), Err(PayloadError::Size { bytes: 0 }));
        assert!(matches!(parse(b"COP2"), Err(PayloadError::Magic { .. })));
        assert!(matches!(parse(&payload(&GOOD[..8])), Err(PayloadError::Truncated { index: 7, needed: 1, left: 0 })));
        assert_eq!(parse(&payload(&GOOD[..7])), Err(PayloadError::StreamCount { count: 0 }));
        let mut odd = GOOD.to_vec();
        odd.remove(4);
        assert_eq!(parse(&payload(&odd)), Err(PayloadError::StreamMisaligned { offset: 28 }));
        odd[4] = 9;
        assert!(matches!(parse(&payload(&odd)), Err(PayloadError::UnknownAction { index: 4, code: 9, .. })));
        let parsed = parse(&payload(&GOOD)).unwrap();
        let other = Accelerator::by_name("ethos-u65-256").unwrap();
        assert!(matches!(check_device(&parsed, other), Err(PayloadError::ConfigMismatch { what: "product", .. })));
    }
}
