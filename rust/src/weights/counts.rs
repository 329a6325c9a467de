//! How often each symbol stands in a part of a stream. Owns counting; what palettes make of counts is `sums`'.

use super::codes::CodeSet;
use super::format::{SYMBOLS, ZERO_DIVISORS};
use super::order::CODES;

/// How often each code stands in a part of a stream, and how often each length of run adds to its quotient.
#[derive(Debug, Clone)]
pub struct Counts {
    of: [u32; SYMBOLS],
    zeros: u64,
    all: u64,
    /// Codes that are there, without 0.
    present: CodeSet,
}

impl Counts {
    /// Of a part of a stream.
    pub fn new(symbols: &[u16]) -> Counts {
        let mut of = [0; SYMBOLS];
        for &symbol in symbols {
            of[usize::from(symbol)] += 1;
        }
        let (codes, zeros) = of.split_first_chunk::<CODES>().unwrap_or_else(|| unreachable!("codes are symbols"));
        let zeros = zeros.iter().map(|&count| u64::from(count)).sum();
        Counts { zeros, all: symbols.len() as u64, present: CodeSet::counted(codes).without(0), of }
    }

    /// Of this part and another one.
    pub fn and(&self, other: &Counts) -> Counts {
        let mut of = self.of;
        of.iter_mut().zip(&other.of).for_each(|(count, more)| *count += more);
        let (zeros, all) = (self.zeros + other.zeros, self.all + other.all);
        Counts { of, zeros, all, present: self.present.and(&other.present) }
    }

    /// How many zeros there are.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// How many symbols there are.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Codes that are there, zero among them only if it is a weight.
    pub fn codes(&self, zero_runs: bool) -> CodeSet {
        if zero_runs || self.zeros == 0 {
            self.present
        } else {
            self.present.with(0)
        }
    }

    /// How often a code is there.
    pub fn count(&self, code: u16) -> u64 {
        match code {
            0 => self.zeros,
            _ => u64::from(self.of[usize::from(code)]),
        }
    }

    /// How many weights there are.
    pub fn weights(&self, zero_runs: bool) -> u64 {
        self.all - if zero_runs { self.zeros } else { 0 }
    }

    /// Bits of runs of zeros with the divisor that makes them smallest.
    pub fn run_bits(&self) -> u64 {
        let weights = self.weights(true);
        let bits = |divisor: u32| {
            let steps = (1 << divisor..=8).step_by(1 << divisor);
            weights * u64::from(1 + divisor) + steps.map(|zeros| u64::from(self.of[CODES + zeros - 1])).sum::<u64>()
        };
        (0..ZERO_DIVISORS).map(bits).min().unwrap_or_default()
    }
}
