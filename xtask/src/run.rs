//! Running other programs, from the root of the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A task fails with a message.
pub(crate) type TaskResult = Result<(), String>;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder of build output.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    root().join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// A command that runs in the root.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// The cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments)
}

/// Runs a program to its end; it prints where this task prints.
pub(crate) fn run(mut command: Command) -> TaskResult {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} failed: {status}", command_line(&command))),
        Err(error) => Err(format!("{} cannot be started: {error}", command_line(&command))),
    }
}

/// Whether a program succeeds; its output is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The output of a program that succeeds.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{}: {error}", command_line(&command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {stderr}", command_line(&command)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", command_line(&command)))
}

/// The command as it is typed.
pub(crate) fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
