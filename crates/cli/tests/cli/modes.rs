//! Shared, exclusive, slots, several at once.
