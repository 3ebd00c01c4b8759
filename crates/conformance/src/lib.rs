//! The conformance suite.
pub mod faulty;
pub mod world;
