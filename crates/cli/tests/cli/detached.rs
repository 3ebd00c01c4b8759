//! Locks that outlive the process that took them.
