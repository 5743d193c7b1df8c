//! The committed code is generated from the protocol buffers.
#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::fs;
use std::path::{Path, PathBuf};

use protox::prost::Message;

const FILES: [&str; 2] = ["tollgate/v1/tollgate.proto", "ratelimit/v1/ratelimit.proto"];
const GENERATED: [&str; 3] = ["tollgate.v1.rs", "ratelimit.v1.rs", "descriptors.bin"];

/// Generates everything into a fresh folder.
fn generate() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&out).unwrap();
    let descriptors = protox::compile(FILES, [root.join("proto")]).unwrap();
    let mut without_sources = descriptors.clone();
    for file in &mut without_sources.file {
        file.source_code_info = None;
    }
    fs::write(out.join("descriptors.bin"), without_sources.encode_to_vec()).unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(&out)
        .compile_fds(descriptors)
        .unwrap();
    for name in GENERATED.iter().filter(|name| name.ends_with(".rs")) {
        let code = fs::read_to_string(out.join(name)).unwrap();
        let title =
            format!("//! Generated from the protocol buffers of `{}`.\n", &name[..name.len() - 3]);
        fs::write(out.join(name), title + &code).unwrap();
    }
    out
}

#[test]
fn what_is_committed_is_what_is_generated() {
    let fresh = generate();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    for name in GENERATED {
        let new = fs::read(fresh.join(name)).unwrap();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(committed.join(name), &new).unwrap();
        }
        let old = fs::read(committed.join(name)).unwrap();
        assert!(old == new, "{name} is stale: run these tests with UPDATE_GENERATED=1");
    }
}
