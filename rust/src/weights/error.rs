//! Why weights have no stream. Owns the sentences.

/// Why weights have no stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightError {
    /// A weight that no stream can hold.
    #[error("a weight is {weight}; weights are -255 to 255")]
    Weight {
        /// The weight, less the zero point.
        weight: i32,
    },
    /// A volume of another size than its shape.
    #[error("{found} weights for a volume of {shape:?}")]
    Volume {
        /// Output channels, rows, columns, input channels.
        shape: [usize; 4],
        /// How many there are.
        found: usize,
    },
    /// An order that no Ethos-U has.
    #[error("no Ethos-U has this order of weights: dilations are 1 or 2, depths at least 1, and depthwise kernels have one input channel and are not part-kernel-first")]
    Order,
}
