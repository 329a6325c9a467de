//! Damaged streams: an error or a result, never a panic.

use proptest::prelude::*;

use super::windowed::set_window;
use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// A kernel with some registers damaged ends in a result or an error, never in a panic.
    #[test]
    fn damaged_registers_do_no_harm(
        case in case(), damage in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..0x400, any::<u32>()), 1..4),
        operation in 0usize..8,
    ) {
        let mut stream = Stream::default();
        set_map(&mut stream, &map("IFM", &case, 0, [9, 9, case.ifm_depth], IFM_AT), IFM_REGISTERS, 0);
        set_map(&mut stream, &map("IFM2", &case, 2, case.ofm, IFM2_AT), IFM2_REGISTERS, 0);
        let ofm = map("OFM", &case, 1, case.ofm, OFM_AT);
        set_map(&mut stream, &ofm, OFM_REGISTERS, 1 << 8);
        common(&mut stream, &case, &ofm);
        set_window(&mut stream, &case);
        for register in [WEIGHT_REGION, WEIGHT_BASE, SCALE_REGION, SCALE_BASE, IFM2_BROADCAST, IFM2_SCALAR, DMA0_SRC,
                         DMA0_DST, DMA0_SRC_REGION] {
            stream.set(register, 0);
        }
        for (register, value) in [(WEIGHT_LENGTH, 64), (SCALE_LENGTH, 320), (OFM_SCALE, 1 << 30), (OPA_SCALE, 1 << 30),
                                  (OPB_SCALE, 1), (IFM2_IB_START, 24), (DMA0_LEN, 64), (DMA0_DST_REGION, 1),
                                  (IFM_DEPTH_M1, 7)] {
            stream.set(register, value);
        }
        for (place, high, low) in &damage {
            let at = place.index(stream.words.len());
            // Half of the time another parameter for the same command, else any word at all.
            let word = stream.words[at];
            stream.words[at] = if high & 1 == 0 { word & 0xFFFF | low << 16 } else { *low };
        }
        let operation = [2, 3, 5, 5 | 1 << 16, 5 | 2 << 16, 6, 6 | 1 << 16, 16][operation];
        let mut machine = machine(&case, vec![0x55; 1024]);
        let _ = machine.run(&stream.payload(case.accelerator(), operation));
    }
}
