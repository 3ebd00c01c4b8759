//! `memory:`

use bramah_core::Reply;

use super::{Finding, Kind, Promise, Severity, Span, wall_clock, wall_now};

pub(super) const KIND: Kind = Kind {
    schemes: &["memory"],
    excludes: Promise::new("excludes", "process", "the tasks of one process that share one connection"),
    span: Span::Engine,
    look: |_| {
        let text =
            "the store is in this process and ends with it; for locks between processes use file:///dir";
        let ends = Finding::new(Severity::Note, "memory.ends_with_process", text);
        Reply::now(Ok(vec![ends, wall_clock(wall_now())].into()))
    },
    code: |_| None,
    // A line that nobody stands in takes no memory.
    forget: |_, _| Reply::now(Ok(())),
};
