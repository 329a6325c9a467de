//! Worked examples of each rule, by hand.
