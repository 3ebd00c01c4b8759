//! What the store says of itself.
