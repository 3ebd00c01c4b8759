//! The driver over real servers.
