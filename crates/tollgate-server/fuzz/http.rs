//! Runs `tollgate_server::fuzzing::http`, which states what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_server::fuzzing::http(bytes));
