//! Functional model of the Ethos-U55/U65: bytes in, bytes out. Owns decoding, weight decompression, execution.
//! Knows nothing of how a stream was made.
