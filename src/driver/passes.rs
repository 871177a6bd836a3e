//! Which passes there are, and in which order they run.

use irc_syntax::Diagnostic;

use super::Fault;
use crate::check::closest;
use crate::opt::{self, Pass, PassArg, Step, rewrite};
use crate::sched;

/// How far a program is lowered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// As written or imported, in `R.*` operators.
    Graph,
    /// Primitives, simplified.
    Optimized,
    /// One prim_func a group.
    Loops,
    /// Loop kinds, tiles and kernel regions.
    Scheduled,
    /// Every tensor has its place.
    Planned,
}

/// The passes from a text to what code generation takes, in order, with the stage that each belongs to.
pub const PIPELINE: &[(&Pass, Stage)] = &[
    (&opt::normalize::PASS, Stage::Graph),
    (&opt::lift::PASS, Stage::Graph),
    // No operator of another system after this line.
    (&opt::normalize::PASS, Stage::Optimized),
    (&opt::quantized::PASS, Stage::Optimized),
    (&opt::legalize::PASS, Stage::Optimized),
    (&opt::bind_ranges::PASS, Stage::Optimized),
    (&opt::guard::PASS, Stage::Optimized),
    // Only primitives after this line.
    (&opt::simplify::PASS, Stage::Optimized),
    (&opt::narrow::PASS, Stage::Optimized),
    (&opt::hoist_invariants::PASS, Stage::Optimized),
    (&opt::fold_constants::PASS, Stage::Optimized),
    (&opt::common_subexpr::PASS, Stage::Optimized),
    (&opt::dead_code::PASS, Stage::Optimized),
    (&opt::by_inverse::PASS, Stage::Optimized),
    (&opt::fold_factors::PASS, Stage::Optimized),
    (&opt::hoist_constants::PASS, Stage::Optimized),
    (&opt::channels_last::PASS, Stage::Optimized),
    (&opt::simplify::PASS, Stage::Optimized),
    (&opt::fold_constants::PASS, Stage::Optimized),
    (&opt::take_first::PASS, Stage::Optimized),
    (&opt::common_subexpr::PASS, Stage::Optimized),
    (&opt::dead_code::PASS, Stage::Optimized),
    (&opt::hoist_constants::PASS, Stage::Optimized),
    (&opt::own_results::PASS, Stage::Optimized),
    (&opt::specialize::PASS, Stage::Optimized),
    // No binding changes its meaning after this line.
    (&opt::fuse::PASS, Stage::Loops),
    (&opt::collapse_axes::PASS, Stage::Loops),
    (&opt::simplify::PASS, Stage::Loops),
    (&opt::dead_code::PASS, Stage::Loops),
    (&opt::lower::PASS, Stage::Loops),
    (&sched::costs::PASS, Stage::Loops),
    (&sched::tuned::PASS, Stage::Loops),
    (&sched::PASS, Stage::Scheduled),
    (&opt::allocate_workspace::PASS, Stage::Planned),
    (&opt::plan_memory::PASS, Stage::Planned),
];

/// How much `irc opt` changes; each level has what the ones before it have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OptLevel {
    /// Normal form.
    O0,
    /// What computes nothing goes; the answers are bit for bit the same.
    O1,
    /// Fewer operators that say the same; sums may be rounded in another order.
    O2,
    /// Other arithmetic that is worth it.
    O3,
}

/// What simplifies a program that stays one of operators, with the level from which on each is run. They run in this
/// order, over and over, until none changes anything.
#[rustfmt::skip]
pub const REWRITES: &[(&Pass, OptLevel)] = &[
    (&opt::fold_constants::PASS, OptLevel::O1),
    (&rewrite::eliminate_if_with_const_cond::PASS, OptLevel::O1),
    (&opt::common_subexpr::PASS, OptLevel::O1),
    (&rewrite::eliminate_duplicate_initializer::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_cast::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_reshape::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_expand::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_transpose::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_slice::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_concat::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_split::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_dropout::PASS, OptLevel::O1),
    (&rewrite::eliminate_nop_pad::PASS, OptLevel::O1),
    (&rewrite::eliminate_consecutive_idempotent_ops::PASS, OptLevel::O1),
    (&rewrite::eliminate_zero_initial_state::PASS, OptLevel::O1),
    (&rewrite::fuse_view_into_fill::PASS, OptLevel::O1),
    (&rewrite::fuse_consecutive_transposes::PASS, OptLevel::O1),
    (&rewrite::fuse_consecutive_reshapes::PASS, OptLevel::O1),
    (&rewrite::fuse_consecutive_slices::PASS, OptLevel::O1),
    (&rewrite::fuse_consecutive_concats::PASS, OptLevel::O1),
    (&rewrite::fuse_consecutive_reduce_unsqueeze::PASS, OptLevel::O1),
    (&rewrite::rewrite_where::PASS, OptLevel::O1),
    (&rewrite::reorder_permute_dims_after_concat::PASS, OptLevel::O2),
    (&rewrite::fuse_slice_squeeze_into_take::PASS, OptLevel::O2),
    (&rewrite::fuse_slices_into_split::PASS, OptLevel::O2),
    (&rewrite::eliminate_reshapes_around_elementwise::PASS, OptLevel::O2),
    (&rewrite::eliminate_transposes_around_elementwise::PASS, OptLevel::O2),
    (&rewrite::eliminate_nop_with_unit::PASS, OptLevel::O2),
    (&rewrite::eliminate_nop_monotone_argmax::PASS, OptLevel::O2),
    (&rewrite::replace_einsum_with_matmul::PASS, OptLevel::O2),
    (&rewrite::fuse_cast_mul_into_dequantize::PASS, OptLevel::O2),
    (&rewrite::fuse_gelu::PASS, OptLevel::O2),
    (&rewrite::fuse_hard_swish::PASS, OptLevel::O2),
    (&rewrite::fuse_silu::PASS, OptLevel::O2),
    (&rewrite::fuse_layer_norm::PASS, OptLevel::O2),
    (&rewrite::fuse_consecutive_log_softmax::PASS, OptLevel::O2),
    (&rewrite::fuse_consecutive_constants::PASS, OptLevel::O2),
    (&rewrite::fuse_pad_into_conv::PASS, OptLevel::O2),
    (&rewrite::fuse_pad_into_pool::PASS, OptLevel::O2),
    (&rewrite::fuse_bn_into_conv::PASS, OptLevel::O2),
    (&rewrite::fuse_add_bias_into_conv::PASS, OptLevel::O2),
    (&rewrite::fuse_bn_into_conv_transpose::PASS, OptLevel::O2),
    (&rewrite::fuse_add_bias_into_conv_transpose::PASS, OptLevel::O2),
    (&rewrite::fuse_mul_into_conv::PASS, OptLevel::O2),
    (&rewrite::fuse_transpose_into_gemm::PASS, OptLevel::O2),
    (&rewrite::fuse_bn_into_gemm::PASS, OptLevel::O2),
    (&rewrite::fuse_mul_into_gemm::PASS, OptLevel::O2),
    (&rewrite::combine_parallel_matmul::PASS, OptLevel::O2),
    (&rewrite::fuse_matmul_add_bias_into_gemm::PASS, OptLevel::O2),
    (&rewrite::adjust_matmul_order::PASS, OptLevel::O3),
    (&rewrite::fast_math::PASS, OptLevel::O3),
    (&opt::dead_code::PASS, OptLevel::O1),
];

/// Passes that are run by name only.
const OTHERS: &[&Pass] = &[
    &opt::bind_symbols::PASS,
    &opt::for_tvm::PASS,
    &opt::for_onnx::PASS,
    &rewrite::remove_unused_parameters::PASS,
    &rewrite::to_mixed_precision::PASS,
    &rewrite::reorder_take_after_matmul::PASS,
    &rewrite::expand_matmul_of_sum::PASS,
    &rewrite::adjust_add::PASS,
];

/// Names that other tools have for passes of this one.
pub const ALIASES: &[(&str, &[&str])] = &[
    ("bind_symbols", &["bind_symbolic_vars"]),
    ("channels_last", &["convert_layout"]),
    ("combine_parallel_matmul", &["fuse_qkv"]),
    (
        "common_subexpr",
        &["eliminate_common_subexpr", "eliminate_common_subexpression"],
    ),
    (
        "dead_code",
        &[
            "dead_code_elimination",
            "eliminate_deadend",
            "eliminate_unused_initializer",
        ],
    ),
    ("eliminate_duplicate_initializer", &["weight_tying"]),
    ("eliminate_nop_reshape", &["eliminate_nop_flatten"]),
    (
        "fold_constants",
        &["constant_folding", "extract_constant_to_initializer"],
    ),
    ("fuse", &["fuse_ops"]),
    ("fuse_bn_into_conv", &["fold_batchnorm_to_conv2d"]),
    (
        "fuse_consecutive_reshapes",
        &[
            "fuse_consecutive_squeeze_unsqueeze",
            "fuse_consecutive_squeezes",
            "fuse_consecutive_unsqueezes",
            "remove_redundant_reshape",
        ],
    ),
    (
        "lift",
        &[
            "eliminate_shape_gather",
            "eliminate_shape_op",
            "eliminate_slice_after_shape",
            "fuse_concat_into_reshape",
        ],
    ),
    (
        "normalize",
        &["canonicalize_bindings", "eliminate_identity", "nop"],
    ),
];

/// Every pass once, in the order of the pipeline.
pub fn passes() -> Vec<&'static Pass> {
    let mut all: Vec<&'static Pass> = Vec::new();
    for pass in PIPELINE
        .iter()
        .map(|(pass, _)| *pass)
        .chain(REWRITES.iter().map(|(pass, _)| *pass))
        .chain(OTHERS.iter().copied())
    {
        if all.iter().all(|other| other.name != pass.name) {
            all.push(pass);
        }
    }
    all
}

/// The pass of a name, or of one that another tool has for it.
pub fn find_pass(name: &str) -> Option<&'static Pass> {
    let alias = ALIASES.iter().find(|(_, others)| others.contains(&name));
    let name = alias.map_or(name, |(name, _)| *name);
    passes().into_iter().find(|pass| pass.name == name)
}

/// The passes of these names, in the order given.
///
/// # Errors
/// A name that no pass has.
pub fn select_passes(names: &[&str]) -> Result<Vec<&'static Pass>, Fault> {
    let find = |name: &&str| {
        find_pass(name).ok_or_else(|| {
            let all = passes();
            let aliases = ALIASES
                .iter()
                .flat_map(|(_, others)| others.iter().copied());
            let names = all.iter().map(|pass| pass.name).chain(aliases);
            let near = closest(name, names).map(|near| format!("; `{near}` is one"));
            let message = format!(
                "no pass has the name `{name}`{}; `irc opt --list` lists them",
                near.unwrap_or_default()
            );
            Fault::program(vec![Diagnostic::error("unknown-pass", message)])
        })
    };
    names.iter().map(find).collect()
}

/// Passes from a text: `normalize,fuse(max=8)`.
///
/// # Errors
/// A name that no pass has, an argument that the pass does not take or that is no integer, brackets that do not close.
pub fn parse_steps(text: &str) -> Result<Vec<Step>, Fault> {
    let fault = |message: String| Fault::program(vec![Diagnostic::error("pass-argument", message)]);
    let mut steps = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        let mut step = Step::from(select_passes(&[name])?[0]);
        rest = &rest[end..];
        if let Some(inside) = rest.strip_prefix('(') {
            let (inside, after) = inside
                .split_once(')')
                .ok_or_else(|| fault(format!("the arguments of `{name}` have no `)`")))?;
            for arg in inside
                .split(',')
                .map(str::trim)
                .filter(|arg| !arg.is_empty())
            {
                let value = arg
                    .split_once('=')
                    .and_then(|(key, value)| Some((key.trim(), value.trim().parse::<i64>().ok()?)));
                let (key, value) = value.ok_or_else(|| {
                    fault(format!("`{arg}` of `{name}` is not of the form `name=4`"))
                })?;
                let takes = |arg: &PassArg| arg.name == key || arg.name == "*";
                if !step.pass.args.iter().any(takes) {
                    let known: Vec<&str> = step.pass.args.iter().map(|arg| arg.name).collect();
                    let known = if known.is_empty() {
                        "none".into()
                    } else {
                        known.join(", ")
                    };
                    let message = format!("`{name}` has no argument `{key}`; it has: {known}");
                    return Err(fault(message));
                }
                step.args.insert(key.to_owned(), value);
            }
            rest = after.trim_start();
        }
        steps.push(step);
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Ok(steps)
}
