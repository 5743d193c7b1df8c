//! Builds a Worker: a package of the workspace, as WebAssembly with the JavaScript around it.
//!
//! cargo decides what has to be compiled again. wasm-bindgen runs if the compiled file has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::{AtPath, Error, Result};
use crate::install::{OwnProgram, WasmCompiler, named_after, output, run};
use crate::root;

const BINDINGS: OwnProgram = OwnProgram {
    name: "worker-bindings",
    manifest: include_str!("bindings/Cargo.toml"),
    lock: include_str!("bindings/Cargo.lock"),
    main: include_str!("bindings/main.rs"),
};
const SHIM: &str = include_str!("runtime/shim.js");
/// The file that names what the others were made from; it is written last.
const SOURCE: &str = "source";

/// The tools that a build needs, downloaded and built if they are not there.
pub(super) fn prepare() -> Result<()> {
    WasmCompiler::installed()?;
    BINDINGS.built().map(drop)
}

/// Builds a package whose library is a `cdylib`, with the profile `worker`; the folder with
/// `shim.js`, the entry, and all files that it imports. What is built already is kept.
///
/// # Errors
/// When a tool cannot be installed, or the package does not compile; the message is the compiler's.
pub fn build(package: &str) -> Result<PathBuf> {
    build_with(&WasmCompiler::installed()?, package)
}

/// As [`build`], with a compiler of choice.
///
/// # Errors
/// As [`build`].
pub fn build_with(compiler: &WasmCompiler, package: &str) -> Result<PathBuf> {
    // Tests that start together need the same files.
    let _locked = root::lock(&format!("worker-{package}.lock"))?;
    let compiled = compile(compiler, package)?;
    let folder = compiled.with_extension("worker");
    let bytes = fs::read(&compiled).at(&compiled)?;
    let bindings = BINDINGS.built()?;
    let source = named_after(package, (bytes, &bindings, SHIM));
    if fs::read_to_string(folder.join(SOURCE)).is_ok_and(|found| found == source) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    run(Command::new(bindings).arg(&compiled).arg(&folder))?;
    write_entry(&folder)?;
    fs::write(folder.join(SOURCE), source)?;
    Ok(folder)
}

/// Compiles the package; the file that cargo made.
fn compile(compiler: &WasmCompiler, package: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--profile", "worker", "--package", package]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    compiler.configure(&mut cargo);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let messages = output(&mut cargo)?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    // Dependencies come first.
    let made = messages.filter_map(|message: Value| wasm_file(&message)).next_back();
    made.ok_or_else(|| Error::new(format!("{package} has no library of the kind cdylib")))
}

/// The WebAssembly that a message of cargo names.
fn wasm_file(message: &Value) -> Option<PathBuf> {
    let files = message.get("filenames")?.as_array()?.iter().filter_map(Value::as_str);
    let mut files = files.map(PathBuf::from);
    files.find(|file| file.extension().is_some_and(|end| end == "wasm"))
}

/// Writes the entry, with every class that the Worker exports: Durable Objects among them.
fn write_entry(folder: &Path) -> Result<()> {
    let index = folder.join("index.js");
    let text = fs::read_to_string(&index).at(&index)?;
    let classes = text.lines().filter_map(|line| line.strip_prefix("export class "));
    let classes = classes.filter_map(|rest| rest.split([' ', '{']).next());
    let mut entry = SHIM.to_owned();
    for class in classes {
        entry.push_str(&format!("export const {class} = durable(worker.{class});\n"));
    }
    fs::write(folder.join("shim.js"), entry)?;
    // workerd imports a module of WebAssembly in this way only.
    Ok(fs::write(index, text.replace("import source ", "import "))?)
}
