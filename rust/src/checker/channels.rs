//! Which channels of a pixel are there: sets of channels by number, so that a cell of symbolic memory holds one word.
//!
//! Owns the sets and their union. Who writes what is the checker's.

/// No channel.
pub const NOTHING: u32 = 0;
/// All channels of a pixel, whatever it has.
pub const WHOLE: u32 = u32::MAX;

/// Sets of channels that were met so far: half-open ranges, ascending and apart.
#[derive(Debug)]
pub struct ChannelSets {
    sets: Vec<Vec<[i64; 2]>>,
}

impl Default for ChannelSets {
    fn default() -> ChannelSets {
        ChannelSets { sets: vec![Vec::new()] }
    }
}

/// What became of a set: its number, the number with the channels that were added, and whether it had one of these.
pub type Union = (u32, (u32, bool));

impl ChannelSets {
    /// The set `known` with the channels `made` of a pixel that has `all`, and whether it had one of them. `unions` remembers
    /// what was found for these channels.
    pub fn with(&mut self, unions: &mut Vec<Union>, known: u32, made: [i64; 2], all: i64) -> (u32, bool) {
        if let Some((_, found)) = unions.iter().find(|(set, _)| *set == known) {
            return *found;
        }
        let found = self.union(known, made, all);
        unions.push((known, found));
        found
    }

    fn union(&mut self, known: u32, made: [i64; 2], all: i64) -> (u32, bool) {
        if known == WHOLE {
            return (WHOLE, true);
        }
        let mut ranges = self.sets[known as usize].clone();
        let repeats = ranges.iter().any(|range| range[0] < made[1] && made[0] < range[1]);
        ranges.push(made);
        ranges.sort_unstable();
        let mut joined: Vec<[i64; 2]> = Vec::new();
        for [first, end] in ranges {
            match joined.last_mut() {
                Some(last) if first <= last[1] => last[1] = last[1].max(end),
                _ => joined.push([first, end]),
            }
        }
        if joined == [[0, all]] {
            return (WHOLE, repeats);
        }
        let place = self.sets.iter().position(|set| *set == joined).unwrap_or_else(|| {
            self.sets.push(joined);
            self.sets.len() - 1
        });
        (place as u32, repeats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_add_up_in_any_order() {
        let mut sets = ChannelSets::default();
        let (end, _) = sets.union(NOTHING, [5, 8], 8);
        let (both, _) = sets.union(end, [0, 3], 8);
        assert_eq!(sets.union(both, [3, 5], 8), (WHOLE, false));
        let (start, _) = sets.union(NOTHING, [0, 3], 8);
        assert_eq!(sets.union(start, [5, 8], 8), (both, false));
    }

    #[test]
    fn channels_that_are_there_are_noticed() {
        let mut sets = ChannelSets::default();
        let (some, _) = sets.union(NOTHING, [2, 5], 8);
        assert_eq!([[0, 2], [4, 6], [5, 8]].map(|made| sets.union(some, made, 8).1), [false, true, false]);
        assert_eq!(sets.union(WHOLE, [0, 1], 8), (WHOLE, true));
    }
}
