//! The NPU's registers: their codes and names, and the file that remembers what a stream has set.
//! Owns no meaning of the values; [`super::operation`] reads them.

use super::error::Fault;

/// Defines [`Register`] from `format code name` lines, where format 0 is a one-word and 1 a two-word command.
macro_rules! registers {
    ($($format:literal $code:literal $name:ident)*) => {
        /// A register, named as the hardware names it.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Register { $($name),* }

        impl Register {
            /// Every register.
            pub const ALL: [Register; REGISTER_COUNT] = [$(Register::$name),*];

            /// The register that a setting command names: `format` is the control field (0 or 1), `code` the opcode.
            pub fn from_code(format: u32, code: u32) -> Option<Register> {
                match (format, code) {
                    $(($format, $code) => Some(Register::$name),)*
                    _ => None,
                }
            }

            /// Name as in the hardware's documentation.
            pub fn name(self) -> &'static str {
                match self { $(Register::$name => stringify!($name)),* }
            }

            /// Whether the register is set by a two-word command.
            pub const fn is_wide(self) -> bool {
                match self { $(Register::$name => $format == 1),* }
            }
        }

        /// Number of registers.
        pub const REGISTER_COUNT: usize = [$(stringify!($name)),*].len();
    };
}

registers! {
    0 256 IFM_PAD_TOP
    0 257 IFM_PAD_LEFT
    0 258 IFM_PAD_RIGHT
    0 259 IFM_PAD_BOTTOM
    0 260 IFM_DEPTH_M1
    0 261 IFM_PRECISION
    0 263 IFM_UPSCALE
    0 265 IFM_ZERO_POINT
    0 266 IFM_WIDTH0_M1
    0 267 IFM_HEIGHT0_M1
    0 268 IFM_HEIGHT1_M1
    0 269 IFM_IB_END
    0 271 IFM_REGION
    0 273 OFM_WIDTH_M1
    0 274 OFM_HEIGHT_M1
    0 275 OFM_DEPTH_M1
    0 276 OFM_PRECISION
    0 277 OFM_BLK_WIDTH_M1
    0 278 OFM_BLK_HEIGHT_M1
    0 279 OFM_BLK_DEPTH_M1
    0 280 OFM_ZERO_POINT
    0 282 OFM_WIDTH0_M1
    0 283 OFM_HEIGHT0_M1
    0 284 OFM_HEIGHT1_M1
    0 287 OFM_REGION
    0 288 KERNEL_WIDTH_M1
    0 289 KERNEL_HEIGHT_M1
    0 290 KERNEL_STRIDE
    0 291 PARALLEL_MODE
    0 292 ACC_FORMAT
    0 293 ACTIVATION
    0 294 ACTIVATION_MIN
    0 295 ACTIVATION_MAX
    0 296 WEIGHT_REGION
    0 297 SCALE_REGION
    0 301 AB_START
    0 303 BLOCKDEP
    0 304 DMA0_SRC_REGION
    0 305 DMA0_DST_REGION
    0 306 DMA0_SIZE0
    0 307 DMA0_SIZE1
    0 384 IFM2_BROADCAST
    0 385 IFM2_SCALAR
    0 389 IFM2_PRECISION
    0 393 IFM2_ZERO_POINT
    0 394 IFM2_WIDTH0_M1
    0 395 IFM2_HEIGHT0_M1
    0 396 IFM2_HEIGHT1_M1
    0 397 IFM2_IB_START
    0 399 IFM2_REGION
    1 0 IFM_BASE0
    1 1 IFM_BASE1
    1 2 IFM_BASE2
    1 3 IFM_BASE3
    1 4 IFM_STRIDE_X
    1 5 IFM_STRIDE_Y
    1 6 IFM_STRIDE_C
    1 16 OFM_BASE0
    1 17 OFM_BASE1
    1 18 OFM_BASE2
    1 19 OFM_BASE3
    1 20 OFM_STRIDE_X
    1 21 OFM_STRIDE_Y
    1 22 OFM_STRIDE_C
    1 32 WEIGHT_BASE
    1 33 WEIGHT_LENGTH
    1 34 SCALE_BASE
    1 35 SCALE_LENGTH
    1 36 OFM_SCALE
    1 37 OPA_SCALE
    1 38 OPB_SCALE
    1 48 DMA0_SRC
    1 49 DMA0_DST
    1 50 DMA0_LEN
    1 51 DMA0_SKIP0
    1 52 DMA0_SKIP1
    1 128 IFM2_BASE0
    1 129 IFM2_BASE1
    1 130 IFM2_BASE2
    1 131 IFM2_BASE3
    1 132 IFM2_STRIDE_X
    1 133 IFM2_STRIDE_Y
    1 134 IFM2_STRIDE_C
    1 144 WEIGHT1_BASE
    1 145 WEIGHT1_LENGTH
    1 146 SCALE1_BASE
    1 147 SCALE1_LENGTH
    1 160 USER_DEFINED0
    1 161 USER_DEFINED1
    1 162 USER_DEFINED2
    1 163 USER_DEFINED3
    1 164 USER_DEFINED4
    1 165 USER_DEFINED5
    1 166 USER_DEFINED6
    1 167 USER_DEFINED7
}

/// Value of a register: the 32-bit payload (or the 16-bit parameter of a one-word command) and the high parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterValue {
    /// Payload of a two-word command, parameter of a one-word command.
    pub low: u32,
    /// Parameter of a two-word command (address bits 39:32, shift of scales), 0 for one-word commands.
    pub high: u16,
}

/// What a stream has set so far.
#[derive(Debug, Clone)]
pub struct RegisterFile {
    values: [Option<RegisterValue>; REGISTER_COUNT],
}

impl Default for RegisterFile {
    fn default() -> Self {
        RegisterFile { values: [None; REGISTER_COUNT] }
    }
}

impl RegisterFile {
    /// Sets a register.
    pub fn set(&mut self, register: Register, value: RegisterValue) {
        self.values[register as usize] = Some(value);
    }

    /// Both parts of a register.
    ///
    /// # Errors
    /// [`Fault::NotSet`] if the stream never set it; there are no useful reset values.
    pub fn value(&self, register: Register) -> Result<RegisterValue, Fault> {
        self.values[register as usize].ok_or(Fault::NotSet { register: register.name() })
    }

    /// The low 32 bits (the parameter of one-word registers).
    ///
    /// # Errors
    /// [`Fault::NotSet`].
    pub fn get(&self, register: Register) -> Result<u32, Fault> {
        Ok(self.value(register)?.low)
    }

    /// The 16-bit parameter, sign-extended.
    ///
    /// # Errors
    /// [`Fault::NotSet`].
    pub fn signed16(&self, register: Register) -> Result<i32, Fault> {
        Ok(i32::from(self.get(register)? as u16 as i16))
    }

    /// A size register "minus one", as a size in `1..=65536`.
    ///
    /// # Errors
    /// [`Fault::NotSet`].
    pub fn size(&self, register: Register) -> Result<u32, Fault> {
        Ok((self.get(register)? & 0xFFFF) + 1)
    }

    /// A 40-bit address.
    ///
    /// # Errors
    /// [`Fault::NotSet`].
    pub fn address(&self, register: Register) -> Result<i64, Fault> {
        let value = self.value(register)?;
        Ok(i64::from(value.low) | i64::from(value.high & 0xFF) << 32)
    }

    /// A signed stride: 40 bits where the parameter carries the upper ones, else 32 bits, sign-extended.
    ///
    /// # Errors
    /// [`Fault::NotSet`].
    pub fn stride(&self, register: Register) -> Result<i64, Fault> {
        let value = self.value(register)?;
        Ok(if value.high == 0 {
            i64::from(value.low as i32)
        } else {
            (i64::from(value.low) | i64::from(value.high) << 32) << 24 >> 24
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names() {
        assert_eq!(Register::from_code(0, 290), Some(Register::KERNEL_STRIDE));
        assert_eq!(Register::from_code(1, 36).map(Register::name), Some("OFM_SCALE"));
        assert_eq!(Register::from_code(0, 262), None);
        assert!(Register::OFM_SCALE.is_wide() && !Register::BLOCKDEP.is_wide());
    }

    #[test]
    fn unset_registers_are_named() {
        let mut file = RegisterFile::default();
        assert_eq!(file.get(Register::AB_START), Err(Fault::NotSet { register: "AB_START" }));
        file.set(Register::IFM_ZERO_POINT, RegisterValue { low: 0xFF80, high: 0 });
        assert_eq!(file.signed16(Register::IFM_ZERO_POINT), Ok(-128));
        file.set(Register::OFM_STRIDE_Y, RegisterValue { low: (-64i32) as u32, high: 0 });
        assert_eq!(file.stride(Register::OFM_STRIDE_Y), Ok(-64));
        file.set(Register::OFM_STRIDE_Y, RegisterValue { low: (-64i32) as u32, high: 0xFF });
        assert_eq!(file.stride(Register::OFM_STRIDE_Y), Ok(-64));
    }
}
