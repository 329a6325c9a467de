//! Streams of weights, encoded by the compiler's room and decoded by the simulator's, which share no code.

use proptest::prelude::*;

use crate::npu::weight_order::WeightGeometry;
use crate::npu::weights::decode;
use crate::util::interrupt::Interrupt;
use crate::weights::error::WeightError;
use crate::weights::order::{Elements, Order, Volume};
use crate::weights::Stream;

/// How weights are spread.
#[derive(Debug, Clone, Copy)]
enum Spread {
    /// All alike.
    Only(i16),
    /// Up to a magnitude, a percentage of them zero.
    Even { most: i16, zeros: u8 },
    /// Few values, others in each output channel.
    ByChannel,
    /// The extremes and 0.
    Extremes,
}

fn spreads() -> impl Strategy<Value = Spread> {
    prop_oneof![
        (-255i16..=255).prop_map(Spread::Only),
        (1i16..=255, 0u8..=100).prop_map(|(most, zeros)| Spread::Even { most, zeros }),
        Just(Spread::ByChannel),
        Just(Spread::Extremes),
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    let shape = (1usize..40, prop_oneof![Just(1usize), 1usize..10], 1usize..10, 1usize..40);
    let depths = (1usize..5, prop_oneof![Just(4usize), Just(8)]);
    let kinds = (any::<bool>(), any::<bool>(), any::<bool>(), 1usize..=2, 1usize..=2, 0usize..2, 1usize..=2);
    (shape, depths, kinds).prop_map(|((o, h, w, i), (blocks, micro), (depthwise, part, wide, y, x, core, cores))| {
        Order {
            shape: [o, h, w, if depthwise { 1 } else { i }],
            block_depth: blocks * micro * cores,
            micro_depth: micro,
            depthwise,
            part_kernel: part && !depthwise,
            wide_input: wide,
            dilation: [y, x],
            core: [core % cores, cores],
        }
    })
}

/// Weights of a volume, from a seed.
fn weights(order: &Order, spread: Spread, mut seed: u64) -> Vec<i16> {
    let count = order.shape.iter().product::<usize>();
    let of_channel = count / order.shape[0];
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut weight = |at: usize| match spread {
        Spread::Only(weight) => weight,
        Spread::Even { zeros, .. } if draw(100) < u64::from(zeros) => 0,
        Spread::Even { most, .. } => draw(2 * most as u64 + 1) as i16 - most,
        Spread::ByChannel => ((at / of_channel * 37) % 500) as i16 - 250 + draw(4) as i16,
        Spread::Extremes => [-255, 0, 255, 254][draw(4) as usize],
    };
    (0..count).map(&mut weight).collect()
}

fn encoded(order: Order, weights: &[i16]) -> Result<Vec<u8>, WeightError> {
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let volume = Volume { elements: Elements::Wide(&bytes), zero_point: 0 };
    let stream = Stream::of(order, &volume)?;
    assert_eq!(stream, Stream::of(order, &volume)?);
    let written = stream.write(&volume)?;
    assert_eq!((written.len(), written.len() % 16), (stream.length_bytes(), 0));
    Ok(written)
}

/// What the simulator reads, in the order of [`WeightGeometry::reorder`].
fn decoded(order: &Order, bytes: &[u8]) -> Vec<i16> {
    let [outputs, height, width, inputs] = order.shape.map(|side| side as u32);
    let [core, cores] = order.core.map(|number| number as u32);
    let geometry = WeightGeometry {
        ofm_depth: (outputs + cores - 1 - core) / cores,
        ifm_depth: inputs,
        kernel_height: height,
        kernel_width: width,
        dilation_y: order.dilation[0] as u32,
        dilation_x: order.dilation[1] as u32,
        block_depth: (order.block_depth as u32 + cores - 1 - core) / cores,
        ofm_micro_depth: order.micro_depth as u32,
        ifm_micro_depth: 8,
        depthwise: order.depthwise,
        part_kernel: order.part_kernel,
        ifm_16bit: order.wide_input,
        sub_kernel: 8,
    };
    let stream = decode(bytes, geometry.stream_weights() as usize).expect("a whole stream");
    geometry.reorder(&stream).expect("zeros where there is no weight")
}

/// The weights of an order's core as the simulator puts them: by output, or by tap where a kernel weighs one channel.
fn wanted(order: &Order, weights: &[i16]) -> Vec<i16> {
    let [outputs, height, width, inputs] = order.shape;
    let own: Vec<usize> = (order.core[0]..outputs).step_by(order.core[1]).collect();
    let taps = height * width;
    match order.depthwise {
        true => (0..taps).flat_map(|tap| own.iter().map(move |output| weights[output * taps + tap])).collect(),
        false => own.iter().flat_map(|output| weights[output * taps * inputs..][..taps * inputs].to_vec()).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_simulator_reads_what_was_encoded(order in orders(), spread in spreads(), seed in any::<u64>()) {
        let weights = weights(&order, spread, seed);
        let bytes = encoded(order, &weights).expect("weights in range");
        prop_assert_eq!(decoded(&order, &bytes), wanted(&order, &weights));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_large_is_read(outputs in 33usize..70, spread in spreads(), seed in any::<u64>()) {
        let order = plain([outputs, 1, 1, 1024]);
        let weights = weights(&order, spread, seed);
        let bytes = encoded(order, &weights).expect("weights in range");
        prop_assert_eq!(decoded(&order, &bytes), wanted(&order, &weights));
    }
}

fn plain(shape: [usize; 4]) -> Order {
    Order {
        shape,
        block_depth: 16,
        micro_depth: 8,
        depthwise: false,
        part_kernel: false,
        wide_input: false,
        dilation: [1, 1],
        core: [0, 1],
    }
}

#[test]
fn long_slices_long_runs_and_pieces_are_read() {
    let order = plain([64, 3, 3, 2100]);
    // More weights than a slice holds, then more zeros than any unit of work, in more than one piece.
    for zeros in [0, 500, 1_000_000] {
        let mut weights = weights(&order, Spread::Even { most: 3, zeros: 20 }, 7);
        weights[40..40 + zeros].fill(0);
        let bytes = encoded(order, &weights).expect("weights in range");
        assert_eq!(decoded(&order, &bytes), wanted(&order, &weights));
    }
}

#[test]
fn zeros_take_an_eighth_of_a_bit() {
    let order = plain([64, 1, 1, 640]);
    assert_eq!(encoded(order, &[0; 64 * 640]).map(|bytes| bytes.len()), Ok(656));
}

#[test]
fn every_type_of_elements_is_less_its_zero_point() {
    let order = plain([2, 1, 1, 3]);
    let of = |elements, zero_point| {
        let volume = Volume { elements, zero_point };
        Stream::of(order, &volume).and_then(|stream| stream.write(&volume))
    };
    let want = encoded(order, &[-255, 0, -1, -254, -100, -129]);
    assert_eq!(of(Elements::Unsigned(&[0, 255, 254, 1, 155, 126]), 255), want);
    assert_eq!(of(Elements::Signed(&[128, 127, 126, 129, 27, 254]), 127), want);
}

#[test]
fn what_has_no_stream_is_refused() {
    let order = plain([2, 1, 1, 1]);
    assert_eq!(encoded(order, &[256, 0]), Err(WeightError::Weight { weight: 256 }));
    assert_eq!(encoded(order, &[0, -256]), Err(WeightError::Weight { weight: -256 }));
    assert_eq!(encoded(order, &[0; 3]), Err(WeightError::Volume { shape: [2, 1, 1, 1], found: 3 }));
    let part_kernel = Order { depthwise: true, part_kernel: true, ..order };
    let depths = [0, 8].map(|block_depth| Order { block_depth, micro_depth: 8 - block_depth, ..order });
    let core = Order { core: [1, 1], ..order };
    for wrong in [part_kernel, depths[0], depths[1], Order { dilation: [3, 1], ..order }, core] {
        assert_eq!(encoded(wrong, &[0; 2]), Err(WeightError::Order), "{wrong:?}");
    }
}

#[test]
fn a_search_can_be_stopped() {
    let order = plain([64, 1, 1, 640]);
    let token = Interrupt::default();
    token.raise();
    assert!(token.run(|| encoded(order, &weights(&order, Spread::Extremes, 1))).is_none());
}
