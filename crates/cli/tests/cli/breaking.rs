//! Ending what others hold.
