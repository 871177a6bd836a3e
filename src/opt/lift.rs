//! x
use irc_syntax::Module; use super::{Changed, PassCx};
/// x
pub fn run(_m: &mut Module, _cx: &mut PassCx) -> Changed { Changed::No }
