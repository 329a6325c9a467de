//! What the planner's tests share, and the tests that go through several rooms.
//!
//! `networks` builds graphs, `schedules` has the properties of whole schedules, `broken` programs with a fault, `pools`
//! those of several memories, `boxes` outputs that several operations make, `exhaustive` holds the search against all
//! Plans there are, `counted_bytes` counts a Plan as it does,
//! `branches` draws networks whose tensors are read again, `weights` has the streams of the compiler
//! against the simulator that decodes them. `worked_example` is the network of docs/worked-example.md, on which each
//! room of the planner has an example.

mod boxes;
mod branches;
mod broken;
mod counted_bytes;
mod exhaustive;
pub mod networks;
mod pools;
pub mod schedules;
mod weights;
pub mod worked_example;
