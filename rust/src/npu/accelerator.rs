//! The six NPU variants: what differs between them. Owns capacities and identity words, no behaviour.

/// One Ethos-U variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accelerator {
    /// Name as users type it, for example `ethos-u55-256`.
    pub name: &'static str,
    /// Whether this is an Ethos-U65 (40-bit addresses, relaxed DMA alignment, strided DMA).
    pub is_u65: bool,
    /// 8-bit multiply-accumulates per cycle, all cores together.
    pub macs: u32,
    /// Number of cores that can share one operation (1 or 2).
    pub cores: u32,
    /// OFM micro-block height, width, depth.
    pub micro_block: [u32; 3],
    /// IFM micro-block depth.
    pub ifm_micro_depth: u32,
    /// SHRAM banks of 1 KiB per core.
    pub banks: u32,
    /// Banks at the end of SHRAM that are always kept for look-up tables.
    pub reserved_banks: u32,
    /// Allocation granules in banks.
    pub granules: Granules,
    /// Word that the device reports as its configuration.
    pub config_word: u32,
    /// Word that the device reports as its identity.
    pub id_word: u32,
}

/// SHRAM allocation granules in banks, by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granules {
    /// IFM buffers of windowed kernels, 8-bit.
    pub ifm8: u32,
    /// IFM buffers of windowed kernels, 16-bit.
    pub ifm16: u32,
    /// Elementwise operands, 8-bit.
    pub elementwise8: u32,
    /// Elementwise operands, 16-bit.
    pub elementwise16: u32,
    /// Anything read as 32-bit.
    pub word32: u32,
    /// 32-bit accumulators.
    pub acc32: u32,
    /// 40-bit accumulators.
    pub acc40: u32,
}

const GRANULES_32: Granules =
    Granules { ifm8: 2, ifm16: 2, elementwise8: 2, elementwise16: 2, word32: 4, acc32: 4, acc40: 4 };
const GRANULES_64: Granules =
    Granules { ifm8: 2, ifm16: 2, elementwise8: 2, elementwise16: 2, word32: 4, acc32: 4, acc40: 8 };
const GRANULES_128: Granules =
    Granules { ifm8: 4, ifm16: 4, elementwise8: 4, elementwise16: 4, word32: 8, acc32: 8, acc40: 12 };
const GRANULES_256: Granules =
    Granules { ifm8: 8, ifm16: 8, elementwise8: 8, elementwise16: 8, word32: 16, acc32: 16, acc40: 20 };

const U55_ID: u32 = 0x1010_4201;
const U65_ID: u32 = 0x1006_6001;

const ALL: [Accelerator; 6] = [
    Accelerator {
        name: "ethos-u55-32",
        is_u65: false,
        macs: 32,
        cores: 1,
        micro_block: [1, 1, 4],
        ifm_micro_depth: 8,
        banks: 16,
        reserved_banks: 0,
        granules: GRANULES_32,
        config_word: 0x0000_1005,
        id_word: U55_ID,
    },
    Accelerator {
        name: "ethos-u55-64",
        is_u65: false,
        macs: 64,
        cores: 1,
        micro_block: [1, 1, 8],
        ifm_micro_depth: 8,
        banks: 16,
        reserved_banks: 0,
        granules: GRANULES_64,
        config_word: 0x0000_1006,
        id_word: U55_ID,
    },
    Accelerator {
        name: "ethos-u55-128",
        is_u65: false,
        macs: 128,
        cores: 1,
        micro_block: [1, 2, 8],
        ifm_micro_depth: 8,
        banks: 24,
        reserved_banks: 2,
        granules: GRANULES_128,
        config_word: 0x0000_1807,
        id_word: U55_ID,
    },
    Accelerator {
        name: "ethos-u55-256",
        is_u65: false,
        macs: 256,
        cores: 1,
        micro_block: [2, 2, 8],
        ifm_micro_depth: 8,
        banks: 48,
        reserved_banks: 2,
        granules: GRANULES_256,
        config_word: 0x0000_3008,
        id_word: U55_ID,
    },
    Accelerator {
        name: "ethos-u65-256",
        is_u65: true,
        macs: 256,
        cores: 1,
        micro_block: [2, 2, 8],
        ifm_micro_depth: 8,
        banks: 48,
        reserved_banks: 2,
        granules: GRANULES_256,
        config_word: 0x1000_3008,
        id_word: U65_ID,
    },
    Accelerator {
        name: "ethos-u65-512",
        is_u65: true,
        macs: 512,
        cores: 2,
        micro_block: [2, 2, 8],
        ifm_micro_depth: 8,
        banks: 48,
        reserved_banks: 2,
        granules: GRANULES_256,
        config_word: 0x1000_6009,
        id_word: U65_ID,
    },
];

/// Bytes of the look-up table area, the last ones of SHRAM.
pub const LUT_BYTES: usize = 2048;

impl Accelerator {
    /// Every variant, smallest first.
    pub fn all() -> &'static [Accelerator] {
        &ALL
    }

    /// The variant called `name` (ASCII case does not matter), if there is one.
    pub fn by_name(name: &str) -> Option<&'static Accelerator> {
        ALL.iter().find(|a| a.name.eq_ignore_ascii_case(name))
    }

    /// The variant that a payload's configuration word asks for: product and MACs are compared, as the driver does.
    pub fn by_config(word: u32) -> Option<&'static Accelerator> {
        ALL.iter().find(|a| a.product() == word >> 28 && a.config_word & 0xF == word & 0xF)
    }

    /// Product code in configuration words: 0 for U55, 1 for U65.
    pub fn product(&self) -> u32 {
        u32::from(self.is_u65)
    }

    /// SHRAM bytes per core.
    pub fn shram_bytes(&self) -> usize {
        self.banks as usize * 1024
    }

    /// First byte of the look-up table area in SHRAM.
    pub fn lut_base(&self) -> usize {
        self.shram_bytes() - LUT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_words_lead_back_to_their_variant() {
        for a in Accelerator::all() {
            assert_eq!(Accelerator::by_config(a.config_word).map(|b| b.name), Some(a.name));
            assert_eq!(Accelerator::by_name(a.name).map(|b| b.name), Some(a.name));
        }
        assert!(Accelerator::by_config(0x2000_3008).is_none());
    }
}
