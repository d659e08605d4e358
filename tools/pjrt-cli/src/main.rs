//! The program `pjrt`.

fn main() -> std::process::ExitCode {
    pjrt_cli::main()
}
