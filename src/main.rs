//! The `irc` program: everything is in the library's `cli`.

fn main() -> std::process::ExitCode {
    irc::cli::main()
}
