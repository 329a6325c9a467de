//! Unified static memory planning: buffers with lifetimes to pools and offsets. Knows nothing of networks.
