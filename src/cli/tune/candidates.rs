//! What is tried.

use crate::codegen::Cpu;
use crate::sched::choice::Choice;

/// Candidates that are tried upon the same choices.
pub struct Stage {
    /// What they choose, beside what is chosen already.
    pub candidates: Vec<Choice>,
}

/// The stages in order: the method, the shape of tiles, the order that they are gone through in, the size of tasks.
pub fn stages(cpu: Cpu) -> Vec<Stage> {
    vec![
        Stage {
            candidates: methods(),
        },
        Stage {
            candidates: shapes(cpu),
        },
        Stage {
            candidates: orders(),
        },
        Stage {
            candidates: grains(),
        },
    ]
}

fn methods() -> Vec<Choice> {
    let method = |m: i64| Choice {
        winograd: Some(m),
        ..Choice::FORMULA
    };
    [0, 2, 4].map(method).to_vec()
}

/// Shapes of tiles whose sums take between half of the registers and all but two.
fn shapes(cpu: Cpu) -> Vec<Choice> {
    let most = if cpu == Cpu::V4 { 30 } else { 14 };
    let mut shapes = Vec::new();
    for vectors in 1..=3 {
        for panels in [1, 2, 3, 4, 6] {
            let rows = most / (vectors * panels);
            for rows in [rows, rows - 1, rows - 2] {
                let sums = rows * vectors * panels;
                if rows >= 1 && 2 * sums >= most && (vectors < 3 || panels == 1) {
                    shapes.push(Choice {
                        rows: Some(rows),
                        panels: Some(panels),
                        vectors: Some(vectors),
                        ..Choice::FORMULA
                    });
                }
            }
        }
    }
    shapes
}

fn orders() -> Vec<Choice> {
    let mut orders = vec![Choice {
        panel_outer: Some(0),
        ..Choice::FORMULA
    }];
    orders.extend([4, 16, 64, 256].map(|block| Choice {
        panel_outer: Some(1),
        block: Some(block),
        ..Choice::FORMULA
    }));
    orders
}

fn grains() -> Vec<Choice> {
    let grain = |kilo: i64| Choice {
        grain: Some(kilo * 1024),
        ..Choice::FORMULA
    };
    [4, 16, 64, 256, 1024].map(grain).to_vec()
}
