//! `irc info`: what a program or a shared object takes, returns and holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::Exit;
use super::report::{Failure, Session, write_stdout};
use crate::driver::{FileKind, recognize};
use crate::library::Library;
use crate::link;
use crate::syntax::visit::for_each_call;
use crate::syntax::{Func, FuncKind, print_expr};

/// `irc info FILE`
#[derive(clap::Args)]
pub struct Args {
    /// The program: text, an ONNX file, or a shared object that irc made; `-` is stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}
