//! Canonical order of items with equal data: their conflicts and shares decide.
//!
//! Colour refinement: a class splits where its items have relations with different classes, until no class splits. Items
//! of one class then have the same relations; one of them gets a class of its own, and refinement continues. Owns this
//! order. It depends on the given order only where refinement cannot distinguish two relations.

use super::item::Item;
use super::limits::MAX_STEP_LOOKS;
use super::model::Problem;
use crate::util::interrupt;

/// The range of a conflict: no range of differences equals it.
const CONFLICT: (i64, i64) = (i64::MAX, i64::MIN);

/// A relation of one item: the other item, and the range of differences.
type Relation = (u32, (i64, i64));

/// Sorts equal items by their relations; `items` are already sorted by all other data.
pub(crate) fn sort(problem: &Problem, items: &mut Vec<Item>) {
    let links = links(problem, items);
    let mut classes: Vec<u32> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let equal = index > 0 && Item { buffer: items[index - 1].buffer, ..item.clone() } == items[index - 1];
        classes.push(if equal { classes[index - 1] } else { index as u32 });
    }
    let looks = (items.len() + links.iter().map(Vec::len).sum::<usize>()) as u64;
    // Items of one class after the last round stay in the given order.
    for _ in 0..MAX_STEP_LOOKS / looks.max(1) {
        interrupt::ask();
        let refined = refine(&classes, &links);
        if refined != classes {
            classes = refined;
        } else if !set_one_apart(&mut classes, &links) {
            break;
        }
    }
    let mut sorted: Vec<(u32, Item)> = classes.into_iter().zip(items.drain(..)).collect();
    sorted.sort();
    items.extend(sorted.into_iter().map(|(_, item)| item));
}

/// By item, sorted.
fn links(problem: &Problem, items: &[Item]) -> Vec<Vec<Relation>> {
    let mut position = vec![0u32; items.len()];
    for (index, item) in (0u32..).zip(items) {
        position[item.buffer as usize] = index;
    }
    let mut links: Vec<Vec<Relation>> = vec![Vec::new(); items.len()];
    for (id, buffer) in problem.buffers.iter().enumerate() {
        let here = position[id];
        for &other in &buffer.conflicts {
            let there = position[other as usize];
            links[here as usize].push((there, CONFLICT));
            links[there as usize].push((here, CONFLICT));
        }
        for share in &buffer.shares {
            let there = position[share.with as usize];
            links[here as usize].push((there, (share.low, share.high)));
            links[there as usize].push((here, (share.high.saturating_neg(), share.low.saturating_neg())));
        }
    }
    for list in &mut links {
        list.sort_unstable();
        list.dedup();
    }
    links
}

/// The classes, each split by the classes of its items' relations. A class is named by the number of items before it.
fn refine(classes: &[u32], links: &[Vec<Relation>]) -> Vec<u32> {
    let sees = |list: &Vec<Relation>| {
        let mut seen: Vec<Relation> = list.iter().map(|&(other, range)| (classes[other as usize], range)).collect();
        seen.sort_unstable();
        seen
    };
    let mut keys: Vec<(u32, Vec<Relation>, usize)> =
        links.iter().enumerate().map(|(index, list)| (classes[index], sees(list), index)).collect();
    keys.sort_unstable();
    let mut refined = vec![0; classes.len()];
    let mut class = 0;
    for (rank, key) in keys.iter().enumerate() {
        if rank == 0 || (key.0, &key.1) != (keys[rank - 1].0, &keys[rank - 1].1) {
            class = rank as u32;
        }
        refined[key.2] = class;
    }
    refined
}

/// Gives one item of a class with relations a class of its own. Returns `false` when no class has several such items.
fn set_one_apart(classes: &mut [u32], links: &[Vec<Relation>]) -> bool {
    let mut first_of: Vec<Option<usize>> = vec![None; classes.len()];
    for index in (0..classes.len()).filter(|&index| !links[index].is_empty()) {
        let class = classes[index];
        let Some(first) = first_of[class as usize] else {
            first_of[class as usize] = Some(index);
            continue;
        };
        for other in (0..classes.len()).filter(|&other| other != first) {
            classes[other] += u32::from(classes[other] == class);
        }
        return true;
    }
    false
}
