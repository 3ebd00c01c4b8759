//! Waiting without taking.
