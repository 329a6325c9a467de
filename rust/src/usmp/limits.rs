//! Bounds of memory and work, shared by all searches. Owns the figures; each search says what it does at one.

/// A problem of more buffers is large: each step of its searches takes long.
pub(crate) const LARGE_PROBLEM_BUFFERS: usize = 500;
/// Most entries of a table, such as pairs of items or cells of sections: some hundred megabytes.
pub(crate) const MAX_TABLE_ENTRIES: usize = 1 << 22;
/// Most looks of a step outside the searches that iterations bound: some ten milliseconds.
pub(crate) const MAX_STEP_LOOKS: u64 = 1 << 24;
/// Most looks of one search, over all its moves or nodes: some seconds.
pub(crate) const MAX_SEARCH_LOOKS: u64 = 1 << 33;
/// Nodes of branch and bound per iteration of the parameters.
pub(crate) const NODES_PER_ITERATION: u64 = 4;
/// Looks at blocks and cells per iteration: dense problems need them for many nodes.
pub(crate) const WORK_PER_ITERATION: u64 = 14_000;
