#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ethoscade_fuzz::weights(data));
