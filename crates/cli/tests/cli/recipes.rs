//! The recipes of the README.
