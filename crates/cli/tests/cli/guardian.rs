//! What happens to a command when bramah is killed or frozen.
