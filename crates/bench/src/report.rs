//! What was measured, and whether it meets its goal.

/// Collects verdicts; prints as it goes.
#[derive(Default)]
pub(crate) struct Report {
    missed: Vec<String>,
}

impl Report {
    pub(crate) fn heading(&mut self, text: &str) {
        println!("\n{text}");
    }

    pub(crate) fn line(&mut self, what: &str, value: String) {
        println!("  {what:<58} {value}");
    }

    /// A figure with a goal.
    pub(crate) fn goal(&mut self, what: &str, value: String, met: bool) {
        println!("  {what:<58} {value}  {}", if met { "met" } else { "MISSED" });
        if !met {
            self.missed.push(what.to_owned());
        }
    }

    pub(crate) fn met(&self) -> bool {
        match self.missed.as_slice() {
            [] => println!("\nall goals met"),
            missed => println!("\nmissed: {}", missed.join("; ")),
        }
        self.missed.is_empty()
    }
}

/// The middle of several runs.
pub(crate) fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs.get(runs.len() / 2).copied().unwrap_or(0.0)
}
