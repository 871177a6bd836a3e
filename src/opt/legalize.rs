//! x
use super::{Changed, PassCx};
use irc_syntax::Module;
/// x
pub fn run(_m: &mut Module, _cx: &mut PassCx) -> Changed {
    Changed::No
}
