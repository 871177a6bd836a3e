//! Generates the parser from `grammar/irc.lalrpop`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../../grammar/irc.lalrpop");
    lalrpop::Configuration::new()
        .log_quiet()
        .set_in_dir("../../grammar")
        .set_out_dir(std::env::var("OUT_DIR")?)
        .process()
}
