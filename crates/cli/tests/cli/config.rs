//! The config file, profiles, and who has the last word.
