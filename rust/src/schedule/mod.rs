//! From decisions to a program: the order of stripes, their buffers, and the issue of copies.
//!
//! `demand` is the order of demand, `stripe_order` walks through a group in it, `interleave` makes steps and buffers along it
//! of Plans that `legal_plans` allows.
//! `lifetimes` says which bytes are live when, `shared_bytes` which buffers may overlap all the same. `estimate` says how long a
//! program takes before anything is placed. `prefetch` issues copies early, `tables` puts loads of tables where they are
//! looked up.

pub mod demand;
pub mod estimate;
pub mod interleave;
pub mod legal_plans;
pub mod lifetimes;
pub mod prefetch;
pub mod shared_bytes;
pub mod stripe_order;
pub mod tables;
