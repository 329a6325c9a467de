//! Exact search (prototype ladder).
mod search;
mod space;
use super::instance::Instance;
use super::layout::Layout;
use super::model::{Params, StopReason, UsmpError};
use super::{Outcome, Solver};
use search::{Search, Verdict};
use space::Space;

pub(crate) struct Exact;

impl Solver for Exact {
    fn solve(&self, instance: &Instance, _params: &Params) -> Result<Outcome, UsmpError> {
        let layout = Layout::first_fit(instance, &super::greedy::Order::Size.sort(instance))?;
        let items: Vec<u32> = (0..instance.items.len() as u32).collect();
        let space = Space::new(instance, 0, &items).unwrap();
        let get = |n: &str, d: u64| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
        let cap = get("CAP", instance.goal(0));
        let budget = get("NODES", 200_000);
        eprintln!("blocks {} sections {} grain {}", space.blocks.len(), space.covers.len(), space.grain);
        let (rounds, noise) = (get("ROUNDS", 20), get("NOISE", 50));
        for rule in 0..6 {
        for kind in 0..4 {
            let mut random = super::random::Random::new(1);
            let t = std::time::Instant::now();
            let mut found = 0; let mut nodes = 0; let mut first = 0;
            let mut weights = vec![1; space.covers.len()];
            for round in 0..rounds {
            let key = |b: &space::Block| -> u64 {
                let w = b.cells.len() as u64;
                match kind { 0 => b.size / 1024 * w, 1 => w, 2 => b.size,
                    _ => b.cells.iter().map(|c| space.covers[c.section as usize].len() as u64).sum::<u64>() }
            };
            let mut order: Vec<u32> = (0..space.blocks.len() as u32).collect();
            let keys: Vec<u64> = order.iter().map(|&b| key(&space.blocks[b as usize]) * (100 + if round == 0 {0} else {random.below(1 + noise as usize) as u64})).collect();
            order.sort_by_key(|&b| std::cmp::Reverse((keys[b as usize], space.blocks[b as usize].size)));
            let mut rank = vec![0; order.len()];
            for (r, &b) in order.iter().enumerate() { rank[b as usize] = r as u32; }
            let mut s = Search::new(&space, cap, &rank);
            s.rule = rule;
            s.weight = weights;
            let v = s.run(budget);
            nodes += s.nodes;
            weights = s.weight.clone();
            let _ = s.offsets();
            if v == Verdict::Found { found += 1; if first == 0 { first = nodes; } }
            if v == Verdict::Impossible { found += 1000; }
            }
            eprintln!("rule {rule} kind {kind} found {found}/{rounds} first {first} nodes {nodes} {:.3}s", t.elapsed().as_secs_f64());
        }}
        Ok(Outcome { layout, stop_reason: StopReason::Complete, iterations: 0 })
    }
}
