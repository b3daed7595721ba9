//! The `smartgate` program: arguments -> command -> exit code. Everything else is the library.

use std::process::ExitCode;

/// glibc's allocator keeps what thousands of ended streams leave behind, and musl's is slow under threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    smartgate::cli::main(std::env::args_os())
}
