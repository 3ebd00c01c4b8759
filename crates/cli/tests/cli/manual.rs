//! Help, man pages, completions, the version: what is printed is what is documented.
