//! What was measured: percentiles, comparisons, JSON and a table.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::cli::Exit;
use crate::cli::report::Failure;

/// All runs, in the order of files and threads.
#[derive(Default)]
pub struct Report {
    /// One a file and number of threads.
    pub runs: Vec<Run>,
}

/// The figures of one file at one number of threads; times in milliseconds.
#[derive(Default)]
pub struct Run {
    /// The file as it was named.
    pub file: String,
    /// How many threads the library uses.
    pub threads: u64,
    /// Memory at the most, over what the process had before loading.
    pub rss_mb: f64,
    cold: f64,
    load: f64,
    times: Vec<f64>,
    /// The median of each round.
    rounds: Vec<f64>,
    /// The time of the first file, or of the baseline, over this one's.
    ratio: Option<f64>,
}

impl Run {
    /// A run whose process has answered once.
    pub fn new(file: &str, first: &Json) -> Self {
        Self {
            file: file.to_owned(),
            threads: first["threads"].as_u64().unwrap_or(1),
            cold: first["cold_ms"].as_f64().unwrap_or_default(),
            load: first["load_ms"].as_f64().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Takes the nanoseconds of the calls of a round.
    pub fn add_round(&mut self, times: &Json) {
        let times = times.as_array().into_iter().flatten();
        let mut times: Vec<f64> = times
            .filter_map(|time| Some(time.as_f64()? / 1e6))
            .collect();
        times.sort_by(f64::total_cmp);
        self.rounds.push(percentile(&times, 50.0));
        self.times.extend(times);
        self.times.sort_by(f64::total_cmp);
    }

    fn at(&self, percent: f64) -> f64 {
        percentile(&self.times, percent)
    }

    fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len().max(1) as f64
    }

    /// Runs of one file under another name or in another folder are the same.
    fn stem(file: &str) -> String {
        let stem = Path::new(file).file_stem();
        stem.map_or_else(
            || file.to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }

    fn to_json(&self) -> Json {
        json!({
            "file": self.file,
            "threads": self.threads,
            "ms": {
                "min": self.at(0.0), "p50": self.at(50.0), "p90": self.at(90.0), "p99": self.at(99.0),
                "mean": self.mean(), "n": self.times.len(),
            },
            "rounds_p50_ms": self.rounds,
            "cold_ms": self.cold,
            "load_ms": self.load,
            "peak_rss_mb": self.rss_mb,
            "ratio": self.ratio,
        })
    }
}

/// The value that so many percent of sorted values do not exceed.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    let at = rank.saturating_sub(1).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// `5%` or `0.05`.
pub fn parse_part(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(part) if part >= 0.0 && part.is_finite() => Ok(part / scale),
        _ => Err("a part such as `5%` is wanted".to_owned()),
    }
}

impl Report {
    /// Compares every file with the first one at the same number of threads: the median over rounds of the ratio.
    pub fn compare(&mut self, n_threads: usize) {
        let first: Vec<Vec<f64>> = self
            .runs
            .iter()
            .take(n_threads)
            .map(|run| run.rounds.clone())
            .collect();
        for (at, run) in self.runs.iter_mut().enumerate().skip(n_threads) {
            let beside = first.get(at % n_threads.max(1)).into_iter().flatten();
            let mut ratios: Vec<f64> = beside.zip(&run.rounds).map(|(a, b)| a / b).collect();
            ratios.sort_by(f64::total_cmp);
            run.ratio = Some(percentile(&ratios, 50.0));
        }
    }

    /// Compares medians with those of a report that was written before, by file name and threads; gives what is slower
    /// than it may be.
    ///
    /// # Errors
    /// The baseline has none of these runs.
    pub fn compare_with(
        &mut self,
        baseline: &Json,
        limit: Option<f64>,
    ) -> Result<Vec<String>, Failure> {
        let mut slower = Vec::new();
        let mut n_found = 0;
        for run in &mut self.runs {
            run.ratio = None;
            let stem = Run::stem(&run.file);
            let same = |old: &&Json| {
                old["threads"].as_u64() == Some(run.threads)
                    && old["file"].as_str().map(Run::stem) == Some(stem.clone())
            };
            let old = baseline["runs"].as_array().into_iter().flatten().find(same);
            let Some(before) = old.and_then(|old| old["ms"]["p50"].as_f64()) else {
                continue;
            };
            n_found += 1;
            let now = run.at(50.0);
            run.ratio = Some(before / now);
            if limit.is_some_and(|limit| now > before * (1.0 + limit)) {
                slower.push(format!(
                    "{} with {} threads takes {} ms, {:+.1}% of the baseline's {} ms",
                    run.file,
                    run.threads,
                    show_ms(now),
                    (now / before - 1.0) * 100.0,
                    show_ms(before)
                ));
            }
        }
        match n_found {
            0 => Err(Failure::new(
                Exit::Usage,
                "the baseline has no run of these files at these threads",
            )),
            _ => Ok(slower),
        }
    }

    /// All of it as JSON.
    pub fn to_json(&self) -> Json {
        let runs: Vec<Json> = self.runs.iter().map(Run::to_json).collect();
        json!({ "v": 1, "irc": env!("CARGO_PKG_VERSION"), "runs": runs })
    }

    /// A table.
    pub fn describe(&self) -> String {
        let heads = [
            "file", "threads", "min ms", "p50", "p90", "p99", "mean", "n", "cold ms", "load ms",
            "rss MB", "ratio",
        ];
        let mut rows: Vec<Vec<String>> = vec![heads.map(str::to_owned).to_vec()];
        for run in &self.runs {
            let mut row = vec![run.file.clone(), run.threads.to_string()];
            row.extend([0.0, 50.0, 90.0, 99.0].map(|percent| show_ms(run.at(percent))));
            row.extend([show_ms(run.mean()), run.times.len().to_string()]);
            row.extend([
                show_ms(run.cold),
                show_ms(run.load),
                format!("{:.1}", run.rss_mb),
            ]);
            row.push(
                run.ratio
                    .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            );
            rows.push(row);
        }
        if self.runs.iter().all(|run| run.ratio.is_none()) {
            rows.iter_mut().for_each(|row| drop(row.pop()));
        }
        table(&rows)
    }
}

/// Rows under each other: the first column to the left, the others to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match at {
                0 => drop(write!(line, "{cell:width$}")),
                _ => drop(write!(line, "  {cell:>width$}")),
            }
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A time with three digits that count, or more.
pub fn show_ms(ms: f64) -> String {
    let digits = match ms {
        ms if ms >= 100.0 => 1,
        ms if ms >= 10.0 => 2,
        ms if ms >= 1.0 => 3,
        _ => 4,
    };
    format!("{ms:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file: &str, times: &[u64]) -> Run {
        let mut run = Run::new(
            file,
            &json!({ "threads": 1, "cold_ms": 5.0, "load_ms": 1.0 }),
        );
        run.add_round(&json!(times));
        run
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        let found =
            [0.0, 50.0, 75.0, 76.0, 99.0, 100.0].map(|percent| percentile(&sorted, percent));
        assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
        assert_eq!(percentile(&[], 50.0), 0.0);
    }

    #[test]
    fn parts_are_percents_or_numbers() {
        assert_eq!(parse_part("5%"), Ok(0.05));
        assert_eq!(parse_part("0.5"), Ok(0.5));
        assert!(parse_part("-5%").is_err() && parse_part("much").is_err());
    }

    #[test]
    fn files_are_compared_with_the_first_and_with_a_baseline() {
        let mut report = Report {
            runs: vec![run("a.so", &[2_000_000]), run("b/c.so", &[1_000_000])],
        };
        report.compare(1);
        assert_eq!(report.runs[1].ratio, Some(2.0));
        let old = json!({ "runs": [{ "file": "c.onnx", "threads": 1, "ms": { "p50": 0.9 } }] });
        let slower = report.compare_with(&old, Some(0.05)).expect("found");
        assert_eq!(
            slower,
            ["b/c.so with 1 threads takes 1.000 ms, +11.1% of the baseline's 0.9000 ms"]
        );
        assert!(
            report
                .compare_with(&old, Some(0.2))
                .expect("found")
                .is_empty()
        );
        assert!(report.compare_with(&json!({ "runs": [] }), None).is_err());
        let again = report.to_json();
        assert!(
            report
                .compare_with(&again, Some(0.0))
                .expect("found")
                .is_empty()
        );
    }
}
