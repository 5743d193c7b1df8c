//! Proves a store correct.
