//! What happens, as it happens.
