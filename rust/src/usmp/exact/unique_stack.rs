//! A stack of numbers without duplicates, for changes that wait for propagation. Owns nothing else.

/// A stack that holds each number at most once.
pub(super) struct UniqueStack {
    stack: Vec<u32>,
    is_in: Vec<bool>,
}

impl UniqueStack {
    /// Nothing, of numbers below `count`.
    pub fn new(count: usize) -> Self {
        Self { stack: Vec::with_capacity(count), is_in: vec![false; count] }
    }

    pub fn add(&mut self, item: u32) {
        if !std::mem::replace(&mut self.is_in[item as usize], true) {
            self.stack.push(item);
        }
    }

    pub fn pop(&mut self) -> Option<u32> {
        let item = self.stack.pop()?;
        self.is_in[item as usize] = false;
        Some(item)
    }

    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}
