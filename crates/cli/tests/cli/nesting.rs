//! A run inside of a run.
