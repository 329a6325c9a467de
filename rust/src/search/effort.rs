//! A bound of work, in steps of programs.

/// Steps of programs so far, and their bound.
#[derive(Debug)]
pub struct Effort {
    spent: usize,
    most: usize,
    /// Whether something was left out.
    pub is_spent: bool,
}

impl Effort {
    /// Nothing is spent yet.
    pub fn new(most: usize) -> Effort {
        Effort { spent: 0, most, is_spent: false }
    }

    /// Spend the steps of one program; false if the bound was reached before.
    pub fn spend(&mut self, steps: usize) -> bool {
        self.spend_share(steps, 1)
    }

    /// [`Effort::spend`] within one part in `share` of the bound.
    pub fn spend_share(&mut self, steps: usize, share: usize) -> bool {
        let may = self.spent < self.most / share;
        self.spent += if may { steps } else { 0 };
        self.is_spent |= !may;
        may
    }
}
