//! Makes the JavaScript of a Worker from its WebAssembly, as worker-build does.
//!
//! The library of wasm-bindgen alone builds in a fraction of the time of its command line.

use wasm_bindgen_cli_support::Bindgen;

/// `worker-bindings INPUT FOLDER` writes `index.js` and `index_bg.wasm`.
fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [input, folder] = paths.as_slice() else {
        panic!("two paths are needed: the input, and the folder to write to");
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).out_name("index");
    // Names are a fifth of the size, and worker-build removes them too.
    bindgen.remove_name_section(true).remove_producers_section(true);
    // After a panic, the shim replaces the instance.
    bindgen.reset_state_function(true).force_enable_abort_handler(true);
    let made = bindgen.module(true).and_then(|bindgen| bindgen.generate(folder));
    made.unwrap_or_else(|error| panic!("{error:?}"));
}
