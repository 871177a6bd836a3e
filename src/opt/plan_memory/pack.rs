//! Packs blocks of memory that are alive at different times into stacks, whatever the extents turn out to be.
//!
//! Blocks are laid out for sizes that are guessed, each at the lowest offset where nothing alive at the same time
//! reaches in, the largest or longest first; what then reaches highest goes before the others, as long as that may help. Of that layout only the order is kept: of two blocks alive at the same time, which
//! lies below the other, and of several guesses that whose order suits all of them best. A block then begins where the highest of the blocks below it ends, a formula of their sizes.
//! So no two of them overlap for any value of the symbols, nothing has to be proved, and for sizes in the ratio
//! of the guess the stack is as high as the layout.

use std::collections::{BTreeMap, BTreeSet};

use crate::shape::{Dim, Facts};

/// Of how many sums a formula takes the largest at most; what would need more begins a stack of its own.
const MAX_SUMS: usize = 16;

/// How many orders are tried from each start.
const MAX_LAYOUTS: usize = 64;

/// What wants a place.
pub struct Block {
    /// Bytes, a multiple of the alignment, never negative.
    pub bytes: Dim,
    /// The bytes if symbols are as guessed, for each guess.
    pub guesses: Vec<i64>,
    /// The first and the last statement that it is alive at.
    pub alive: (usize, usize),
}

/// Blocks over one another.
pub struct Stack {
    /// Which blocks, and where each begins.
    pub places: Vec<(usize, Dim)>,
    /// Bytes of the whole.
    pub bytes: Dim,
}

/// Whether two spans of statements have one in common.
pub fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

/// Places all blocks; one stack where formulas stay short.
pub fn pack(blocks: &[Block], facts: &Facts) -> Vec<Stack> {
    let mut stacks = Vec::new();
    let mut left: Vec<usize> = (0..blocks.len()).collect();
    while !left.is_empty() {
        let (stack, rest) = one_stack(blocks, left, facts);
        stacks.push(stack);
        left = rest;
    }
    stacks
}

/// A stack of as many blocks as possible, and the others.
fn one_stack(blocks: &[Block], left: Vec<usize>, facts: &Facts) -> (Stack, Vec<usize>) {
    let order = best_order(blocks, left);
    let (mut placed, mut rest): (Vec<Placed>, Vec<usize>) = (Vec::new(), Vec::new());
    for at in order {
        let block = &blocks[at];
        let mut starts = vec![Dim::int(0)];
        let below = below(&placed, blocks, block);
        for &other in &below {
            starts.extend(placed[other].ends.iter().cloned());
        }
        let starts = largest(starts, facts);
        if starts.len() > MAX_SUMS {
            rest.push(at);
            continue;
        }
        let ends = starts.iter().map(|start| start + &block.bytes).collect();
        placed.push(Placed {
            at,
            below: below.into_iter().collect(),
            start: Dim::max_of(starts),
            ends,
        });
    }
    let ends = placed.iter().flat_map(|placed| placed.ends.iter().cloned());
    let bytes = Dim::max_of(largest(ends.collect(), facts));
    let places = placed.into_iter().map(|placed| (placed.at, placed.start));
    let places = places.collect();
    (Stack { places, bytes }, rest)
}

/// A block in a stack.
struct Placed {
    /// Which block.
    at: usize,
    /// What it lies on, by position in the stack.
    below: BTreeSet<usize>,
    start: Dim,
    /// Its end is the largest of these.
    ends: Vec<Dim>,
}

/// The placed blocks that a block lies on: those alive with it, without those that lie below another of them.
fn below(placed: &[Placed], blocks: &[Block], block: &Block) -> Vec<usize> {
    let mut found = Vec::new();
    let mut implied: BTreeSet<usize> = BTreeSet::new();
    for (at, other) in placed.iter().enumerate().rev() {
        if implied.contains(&at) {
            implied.extend(&other.below);
        } else if overlap(blocks[other.at].alive, block.alive) {
            found.push(at);
            implied.extend(&other.below);
        }
    }
    found
}

/// Without what is never larger than another.
fn largest(mut sums: Vec<Dim>, facts: &Facts) -> Vec<Dim> {
    sums.sort();
    sums.dedup();
    let mut kept: Vec<Dim> = Vec::new();
    for sum in sums {
        if kept
            .iter()
            .any(|other| facts.prove_le(&sum, other) == Some(true))
        {
            continue;
        }
        kept.retain(|other| facts.prove_le(other, &sum) != Some(true));
        kept.push(sum);
    }
    kept
}

/// The order, from below, in which the chosen blocks make low stacks for all guesses.
fn best_order(blocks: &[Block], chosen: Vec<usize>) -> Vec<usize> {
    let n_guesses = blocks.first().map_or(0, |block| block.guesses.len());
    let bounds: Vec<i64> = (0..n_guesses)
        .map(|guess| most_alive(blocks, &chosen, guess))
        .collect();
    let excess = |order: &[usize]| -> i128 {
        let parts = bounds.iter().enumerate().map(|(guess, &bound)| {
            let height = stack_height(blocks, order, guess);
            i128::from(height) * 1024 / i128::from(bound.max(1))
        });
        parts.sum()
    };
    let orders = bounds.iter().enumerate().map(|(guess, &bound)| {
        let (chosen, offsets) = best_layout(blocks, chosen.clone(), guess, bound);
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        order.sort_by_key(|&at| (offsets[at], at));
        order.into_iter().map(|at| chosen[at]).collect::<Vec<_>>()
    });
    // The first of the best.
    let best = orders.min_by_key(|order| excess(order));
    best.unwrap_or_default()
}

/// How high a stack of blocks in this order is for a guess.
fn stack_height(blocks: &[Block], order: &[usize], guess: usize) -> i64 {
    let mut ends: Vec<i64> = Vec::with_capacity(order.len());
    for &at in order {
        let block = &blocks[at];
        let below = order.iter().zip(&ends);
        let below = below.filter(|&(&other, _)| overlap(blocks[other].alive, block.alive));
        let start = below.map(|(_, &end)| end).max().unwrap_or(0);
        ends.push(start.saturating_add(block.guesses[guess]));
    }
    ends.into_iter().max().unwrap_or(0)
}

/// An order of the chosen blocks that gives a low layout for a guess, and where each begins in it.
fn best_layout(
    blocks: &[Block],
    chosen: Vec<usize>,
    guess: usize,
    bound: i64,
) -> (Vec<usize>, Vec<i64>) {
    let size = |at: usize| i128::from(blocks[at].guesses[guess]);
    let area = |at: usize| {
        let (first, last) = blocks[at].alive;
        size(at) * (last - first + 1) as i128
    };
    let (mut by_size, mut by_area) = (chosen.clone(), chosen);
    by_size.sort_by_key(|&at| std::cmp::Reverse(size(at)));
    by_area.sort_by_key(|&at| std::cmp::Reverse(area(at)));
    let mut best = (i64::MAX, Vec::new(), Vec::new());
    for mut order in [by_size, by_area] {
        for _ in 0..MAX_LAYOUTS {
            let offsets = layout(blocks, &order, guess);
            let ends = order.iter().zip(&offsets);
            let ends = ends.map(|(&at, &offset)| offset.saturating_add(blocks[at].guesses[guess]));
            let Some((at, height)) = ends.enumerate().max_by_key(|&(at, end)| (end, at)) else {
                break;
            };
            if height < best.0 || best.1.is_empty() {
                best = (height, order.clone(), offsets);
            }
            if height <= bound || at == 0 {
                break;
            }
            let top = order.remove(at);
            order.insert(0, top);
        }
    }
    (best.1, best.2)
}

/// The most bytes that are alive at once for a guess: no layout is lower.
fn most_alive(blocks: &[Block], chosen: &[usize], guess: usize) -> i64 {
    let mut changes: BTreeMap<usize, i128> = BTreeMap::new();
    for &at in chosen {
        let block = &blocks[at];
        let bytes = i128::from(block.guesses[guess]);
        *changes.entry(block.alive.0).or_default() += bytes;
        *changes.entry(block.alive.1 + 1).or_default() -= bytes;
    }
    let mut alive = 0;
    let sums = changes.into_values().map(|change| {
        alive += change;
        alive
    });
    sums.max()
        .and_then(|most| i64::try_from(most).ok())
        .unwrap_or(i64::MAX)
}

/// Where each of the blocks begins for a guess if each is put as low as possible, in this order.
fn layout(blocks: &[Block], order: &[usize], guess: usize) -> Vec<i64> {
    let mut res: Vec<i64> = Vec::with_capacity(order.len());
    for &at in order {
        let block = &blocks[at];
        let bytes = block.guesses[guess];
        let mut taken: Vec<(i64, i64)> = order
            .iter()
            .zip(&res)
            .filter(|&(&other, _)| overlap(blocks[other].alive, block.alive))
            .map(|(&other, &offset)| (offset, offset.saturating_add(blocks[other].guesses[guess])))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, end) in taken {
            if bytes <= start - offset {
                break;
            }
            offset = offset.max(end);
        }
        res.push(offset);
    }
    res
}
