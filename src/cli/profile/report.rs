//! A profile as a table, as JSON, and as Chrome trace events.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::machine::Peaks;
use crate::cli::bench::{show_ms, table};
use crate::cli::native::{KernelCall, Trace};
use crate::sched::costs::Cost;
use crate::shape::Dim;

/// All kernels of the fastest request, the longest first.
pub struct Profile {
    peaks: Peaks,
    /// Milliseconds of the request.
    total: f64,
    n_requests: usize,
    kernels: Vec<Kernel>,
    request: Trace,
    costs: BTreeMap<String, Cost>,
}

/// All calls of one kernel in a request.
struct Kernel {
    name: String,
    calls: usize,
    /// Milliseconds.
    ms: f64,
    operations: Option<f64>,
    bytes: Option<f64>,
}

impl Profile {
    /// The profile of requests, of which kernels compute and move what `costs` says.
    pub fn new(traces: &[Trace], costs: &BTreeMap<String, Cost>, peaks: Peaks) -> Self {
        let quiet = traces.iter().min_by_key(|trace| trace.total);
        let quiet = quiet.cloned().unwrap_or_default();
        let mut by_name: BTreeMap<&str, Vec<&KernelCall>> = BTreeMap::new();
        for call in &quiet.calls {
            by_name.entry(&call.kernel).or_default().push(call);
        }
        let mut kernels: Vec<Kernel> = Vec::new();
        for (name, calls) in by_name {
            let sum = |part: &dyn Fn(&Cost) -> Option<&Dim>| -> Option<f64> {
                let cost = costs.get(name)?;
                calls.iter().map(|call| value_of(part(cost), call)).sum()
            };
            kernels.push(Kernel {
                name: name.to_owned(),
                calls: calls.len(),
                ms: calls.iter().map(|call| call.time.as_secs_f64() * 1e3).sum(),
                operations: sum(&|cost| cost.operations.as_ref()),
                bytes: sum(&|cost| cost.bytes.as_ref()),
            });
        }
        kernels.sort_by(|a, b| b.ms.total_cmp(&a.ms).then_with(|| a.name.cmp(&b.name)));
        Self {
            peaks,
            total: quiet.total.as_secs_f64() * 1e3,
            n_requests: traces.len(),
            kernels,
            request: quiet,
            costs: costs.clone(),
        }
    }

    fn in_kernels(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.ms).sum()
    }

    fn between(&self) -> f64 {
        (self.total - self.in_kernels()).max(0.0)
    }

    /// A table, and the peaks that it compares with.
    pub fn describe(&self) -> String {
        let heads = [
            "kernel",
            "calls",
            "ms",
            "time",
            "Mop",
            "Gop/s",
            "of peak",
            "MB",
            "GB/s",
            "of memory",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        let share = |ms: f64| format!("{:.1}%", 100.0 * ms / self.total.max(1e-9));
        let mut row =
            |name: &str, calls: String, ms: f64, operations: Option<f64>, bytes: Option<f64>| {
                let mut cells = vec![name.to_owned(), calls, show_ms(ms), share(ms)];
                for (amount, peak) in [(operations, self.peaks.gops), (bytes, self.peaks.gbs)] {
                    cells.extend(match amount {
                        Some(amount) => {
                            let rate = amount / ms.max(1e-9) / 1e6;
                            [
                                format!("{:.3}", amount / 1e6),
                                format!("{rate:.1}"),
                                format!("{:.0}%", 100.0 * rate / peak),
                            ]
                        }
                        None => ["-", "-", "-"].map(str::to_owned),
                    });
                }
                rows.push(cells);
            };
        let mut sums = [Some(0.0), Some(0.0)];
        for kernel in &self.kernels {
            let calls = kernel.calls.to_string();
            row(
                &kernel.name,
                calls,
                kernel.ms,
                kernel.operations,
                kernel.bytes,
            );
            for (sum, amount) in sums.iter_mut().zip([kernel.operations, kernel.bytes]) {
                *sum = sum.zip(amount).map(|(sum, amount)| sum + amount);
            }
        }
        let n_calls: usize = self.kernels.iter().map(|kernel| kernel.calls).sum();
        row(
            "(between kernels)",
            "-".to_owned(),
            self.between(),
            None,
            None,
        );
        row("all", n_calls.to_string(), self.total, sums[0], sums[1]);
        let mut text = table(&rows);
        let _ = writeln!(
            text,
            "peak {:.1} Gop/s of float32 multiply-adds, memory {:.1} GB/s: {}; the fastest of {} requests",
            self.peaks.gops,
            self.peaks.gbs,
            if self.peaks.measured {
                "measured on these threads"
            } else {
                "as stated"
            },
            self.n_requests
        );
        text
    }

    /// All of it as JSON.
    pub fn to_json(&self) -> Json {
        let kernels: Vec<Json> = self
            .kernels
            .iter()
            .map(|kernel| {
                let rate =
                    |amount: Option<f64>| amount.map(|amount| amount / kernel.ms.max(1e-9) / 1e6);
                json!({
                    "kernel": kernel.name,
                    "calls": kernel.calls,
                    "ms": kernel.ms,
                    "operations": kernel.operations,
                    "bytes": kernel.bytes,
                    "gops": rate(kernel.operations),
                    "gbs": rate(kernel.bytes),
                    "of_peak": rate(kernel.operations).map(|rate| rate / self.peaks.gops),
                    "of_memory": rate(kernel.bytes).map(|rate| rate / self.peaks.gbs),
                })
            })
            .collect();
        json!({
            "v": 1,
            "irc": env!("CARGO_PKG_VERSION"),
            "requests": self.n_requests,
            "total_ms": self.total,
            "between_kernels_ms": self.between(),
            "peaks": { "gops": self.peaks.gops, "gbs": self.peaks.gbs, "measured": self.peaks.measured },
            "kernels": kernels,
        })
    }

    /// The request as Chrome trace events.
    pub fn to_events(&self, function: &str) -> Json {
        let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        let event = |name: &str, start: f64, time: f64, args: Json| {
            json!({
                "name": name, "cat": "irc", "ph": "X", "pid": 1, "tid": 1,
                "ts": start, "dur": time, "args": args,
            })
        };
        let mut events = vec![event(function, 0.0, micros(self.request.total), json!({}))];
        for call in &self.request.calls {
            let cost = self.costs.get(&call.kernel);
            let args = json!({
                "place": call.place,
                "sizes": call.sizes,
                "operations": cost.and_then(|cost| value_of(cost.operations.as_ref(), call)),
                "bytes": cost.and_then(|cost| value_of(cost.bytes.as_ref(), call)),
            });
            events.push(event(
                &call.kernel,
                micros(call.start),
                micros(call.time),
                args,
            ));
        }
        json!({ "displayTimeUnit": "ns", "traceEvents": events })
    }
}

/// A formula with the sizes of a call.
fn value_of(formula: Option<&Dim>, call: &KernelCall) -> Option<f64> {
    let value = formula?.eval(&|name| call.sizes.get(name.as_str()).copied());
    value.map(|value| value as f64)
}
