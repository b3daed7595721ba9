//! The `smartgate` program: arguments -> command -> exit code. Everything else is the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    smartgate::cli::main(std::env::args_os())
}
