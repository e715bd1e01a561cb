//! The `redrive` program: hands the command line to the library and exits with its code.

fn main() -> std::process::ExitCode {
    redrive::cli::main()
}
