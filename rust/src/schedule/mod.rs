//! From decisions to a program: which stripe is made when, in which buffer, with its constants copied how early.
//!
//! `stripe_order` walks through a group in the order of demand, `interleave` makes steps and buffers along it, `lifetimes`
//! says which bytes are live when, `estimate` how long it takes before anything is placed, `prefetch` issues copies early, `tables`
//! puts loads of tables where they are looked up.

pub mod estimate;
pub mod interleave;
pub mod lifetimes;
pub mod prefetch;
pub mod stripe_order;
pub mod tables;
