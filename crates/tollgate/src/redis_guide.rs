//! The guide to Redis: its code compiles. Only the tests of documentation read this file.

#[doc = include_str!("../../../docs/redis.md")]
struct Guide;
