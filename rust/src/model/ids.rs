//! Ids of what the planner numbers: each a type of its own, so that none is taken for another, and vectors indexed by them.
//!
//! Owns the ids and their arithmetic. What they number is others' business.

use std::fmt;
use std::iter::FromIterator;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// A dense number, from 0 on.
pub trait Id: Copy {
    /// The id of what lies at a place.
    fn at(index: usize) -> Self;
    /// Where in a vector what it names lies.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl Id for $name {
            #[inline]
            fn at(index: usize) -> $name {
                $name(index as u32)
            }
            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A Part; Parts run in ascending order unless a Plan interleaves them.
    PartId,
    /// A tensor.
    TensorId,
    /// A buffer of a program.
    BufferId,
    /// A memory of a device.
    PoolId,
    /// Which of several operations that make a Part's output: a slice of its channels, or the box of one joined operation.
    Piece,
    /// A table of results.
    TableId,
}

impl PartId {
    /// The Part `count` Parts on.
    #[inline]
    pub fn after(self, count: usize) -> PartId {
        PartId(self.0 + count as u32)
    }

    /// The Part `count` Parts back.
    #[inline]
    pub fn before(self, count: usize) -> PartId {
        PartId(self.0 - count as u32)
    }

    /// Parts from `first` to this one, this one left out: its offset in a group that begins with `first`.
    #[inline]
    pub fn since(self, first: PartId) -> usize {
        (self.0 - first.0) as usize
    }

    /// This Part and all behind it, without end.
    pub fn onward(self) -> impl Iterator<Item = PartId> {
        (self.0..).map(PartId)
    }

    /// This Part and all behind it up to `last`, that one included.
    pub fn through(self, last: PartId) -> impl DoubleEndedIterator<Item = PartId> + ExactSizeIterator + Clone {
        (self.0..last.0 + 1).map(PartId)
    }
}

/// A vector indexed by the ids of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// The ids of all items, ascending.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone {
        (0..self.items.len()).map(I::at)
    }

    /// All items with their ids, ascending.
    pub fn iter_ids(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.ids().zip(&self.items)
    }

    /// The items, without their ids.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Add an item; returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::at(self.items.len() - 1)
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> IdVec<I, T> {
        Vec::new().into()
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> IdVec<I, T> {
        IdVec { items, ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> IdVec<I, T> {
        items.into_iter().collect::<Vec<T>>().into()
    }
}

impl<I, T> Deref for IdVec<I, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut IdVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_the_ids_that_they_were_given() {
        let mut names: IdVec<TensorId, &str> = IdVec::default();
        let (first, second) = (names.push("a"), names.push("b"));
        names[second] = "c";
        assert_eq!((names[first], names[second], names.len()), ("a", "c", 2));
        assert!(names.ids().eq([first, second]) && names.iter_ids().eq([(first, &"a"), (second, &"c")]));
        assert_eq!(format!("{first} of {:?}", names.ids().next_back()), "0 of Some(TensorId(1))");
    }

    #[test]
    fn offsets_count_from_the_first_part_of_a_group() {
        let (first, last) = (PartId(3), PartId(7));
        assert!(first.through(last).map(|part| part.since(first)).eq(0..5));
        assert!((0..5).all(|offset| first.after(offset).since(first) == offset));
        assert_eq!((last.before(4), first.through(first).len(), last.through(first).len()), (first, 1, 0));
    }
}
