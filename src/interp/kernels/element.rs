//! Element-wise primitives.

use irc_syntax::DType;

use super::num::{Num, shift_left, shift_right};
use super::walk::{Side, broadcast_shapes, broadcast_strides, copy_strided, row_major, walk_runs};
use super::{Done, Nums, checked_count, pick_strings, rearrange, tensor, with_nums};
use crate::check::prim::{Binary, Unary};
use crate::interp::RunError;
use crate::tensor::Tensor;

/// One operand, element by element.
pub(in crate::interp) fn unary(op: Unary, x: &Tensor) -> Done {
    let nums = Nums::load(x)?;
    with_nums!(nums, values => unary_of(op, x, &values))
}

fn unary_of<T: Num>(op: Unary, x: &Tensor, values: &[T]) -> Done {
    match op {
        Unary::Real(real) => map(x, values, |value| value.apply(real)),
        Unary::Abs => map(x, values, T::abs),
        Unary::Negative => map(x, values, T::neg),
        Unary::Sign => map(x, values, T::sign),
        Unary::Isnan => test(x, values, T::is_nan),
        Unary::Isinf => test(x, values, T::is_inf),
        Unary::Isfinite => test(x, values, |value| !value.is_nan() && !value.is_inf()),
        Unary::LogicalNot => test(x, values, |value| !value.is_true()),
        // The one bit of a bool is its truth.
        Unary::BitwiseNot if x.dtype == DType::Bool => test(x, values, |value| !value.is_true()),
        Unary::BitwiseNot => map(x, values, |value| value.bits(value, |a, _| !a)),
    }
}

fn map<T: Num>(x: &Tensor, values: &[T], f: impl Fn(T) -> T) -> Done {
    let values: Vec<T> = values.iter().map(|&value| f(value)).collect();
    pack(x.dtype, x.shape.clone(), &values)
}

fn test<T: Num>(x: &Tensor, values: &[T], f: impl Fn(T) -> bool) -> Done {
    let values = values.iter().map(|&value| u8::from(f(value))).collect();
    tensor(DType::Bool, x.shape.clone(), values)
}

/// Numbers as elements of a dtype.
pub(in crate::interp) fn pack<T: Num>(dtype: DType, shape: Vec<usize>, values: &[T]) -> Done {
    T::store(dtype, shape, values)
        .ok_or_else(|| RunError::value_error("elements do not fit their shape"))
}

/// Two operands of one dtype with numpy's broadcasting.
pub(in crate::interp) fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Done {
    if a.dtype != b.dtype {
        return Err(RunError::type_error(format!(
            "{op:?} of {} and {}",
            a.dtype, b.dtype
        )));
    }
    if let (Some(left), Some(right)) = (&a.strings, &b.strings) {
        return compare_strings(op, (a, left), (b, right));
    }
    match (Nums::load(a)?, Nums::load(b)?) {
        (Nums::F32(left), Nums::F32(right)) => binary_of(op, (a, &left), (b, &right)),
        (Nums::F64(left), Nums::F64(right)) => binary_of(op, (a, &left), (b, &right)),
        (Nums::I64(left), Nums::I64(right)) => binary_of(op, (a, &left), (b, &right)),
        (Nums::U64(left), Nums::U64(right)) => binary_of(op, (a, &left), (b, &right)),
        _ => Err(RunError::type_error("operands of two classes")),
    }
}

fn binary_of<T: Num>(op: Binary, a: (&Tensor, &[T]), b: (&Tensor, &[T])) -> Done {
    let same = |f: fn(T, T) -> T| -> Done {
        let (shape, values) = zip(a, b, f)?;
        pack(a.0.dtype, shape, &values)
    };
    let truth = |f: fn(T, T) -> bool| -> Done {
        let (shape, values) = zip(a, b, |x, y| u8::from(f(x, y)))?;
        tensor(DType::Bool, shape, values)
    };
    match op {
        // Plain closures inline into the loop; these four carry the weight of folding.
        Binary::Add => fast(a, b, |x, y| x.add(y)),
        Binary::Subtract => fast(a, b, |x, y| x.sub(y)),
        Binary::Multiply => fast(a, b, |x, y| x.mul(y)),
        Binary::Divide => fast(a, b, |x, y| x.div(y)),
        Binary::FloorDivide => same(T::floor_div),
        Binary::FloorMod => same(T::floor_mod),
        Binary::Mod => same(T::rem),
        Binary::Power => same(T::pow),
        Binary::Maximum => same(T::larger),
        Binary::Minimum => same(T::smaller),
        Binary::LeftShift => same(|x, y| x.bits(y, shift_left)),
        // Zeros come in from the left of an unsigned number; only 64-bit ones have their sign bit set here.
        Binary::RightShift if a.0.dtype == DType::U64 => same(|x, y| x.bits(y, unsigned_right)),
        Binary::RightShift => same(|x, y| x.bits(y, shift_right)),
        Binary::BitwiseAnd => same(|x, y| x.bits(y, |a, b| a & b)),
        Binary::BitwiseOr => same(|x, y| x.bits(y, |a, b| a | b)),
        Binary::BitwiseXor => same(|x, y| x.bits(y, |a, b| a ^ b)),
        Binary::LogicalAnd => truth(|x, y| x.is_true() && y.is_true()),
        Binary::LogicalOr => truth(|x, y| x.is_true() || y.is_true()),
        Binary::LogicalXor => truth(|x, y| x.is_true() != y.is_true()),
        Binary::Equal => truth(|x, y| x == y),
        Binary::NotEqual => truth(|x, y| x != y),
        Binary::Less => truth(|x, y| x < y),
        Binary::LessEqual => truth(|x, y| x <= y),
        Binary::Greater => truth(|x, y| x > y),
        Binary::GreaterEqual => truth(|x, y| x >= y),
    }
}

fn unsigned_right(value: i64, by: i64) -> i64 {
    if (0..64).contains(&by) {
        ((value as u64) >> by) as i64
    } else {
        0
    }
}

fn fast<T: Num>(a: (&Tensor, &[T]), b: (&Tensor, &[T]), f: impl Fn(T, T) -> T) -> Done {
    let (shape, values) = zip(a, b, f)?;
    pack(a.0.dtype, shape, &values)
}

/// The broadcast shape of two operands, and a function of their elements over it.
fn zip<A: Copy, B: Copy, R>(
    (a, left): (&Tensor, &[A]),
    (b, right): (&Tensor, &[B]),
    f: impl Fn(A, B) -> R,
) -> Done<(Vec<usize>, Vec<R>)> {
    let shape = common_shape(&[&a.shape, &b.shape])?;
    let len = checked_count(&shape, a.dtype)?;
    let mut values = Vec::with_capacity(len);
    let strides = [fit(&a.shape, &shape)?, fit(&b.shape, &shape)?];
    walk_runs(
        &shape,
        [&strides[0], &strides[1]],
        [0, 0],
        |[x, y], len, steps| {
            let (x, y) = (x as usize, y as usize);
            match steps {
                [1, 1] => {
                    let pairs = left[x..x + len].iter().zip(&right[y..y + len]);
                    values.extend(pairs.map(|(&x, &y)| f(x, y)));
                }
                [1, 0] => {
                    let other = right[y];
                    values.extend(left[x..x + len].iter().map(|&x| f(x, other)));
                }
                [0, 1] => {
                    let other = left[x];
                    values.extend(right[y..y + len].iter().map(|&y| f(other, y)));
                }
                [x_step, y_step] => {
                    let (x_step, y_step) = (x_step as usize, y_step as usize);
                    values.extend(
                        (0..len).map(|at| f(left[x + at * x_step], right[y + at * y_step])),
                    );
                }
            }
        },
    );
    Ok((shape, values))
}

fn compare_strings(op: Binary, a: (&Tensor, &[String]), b: (&Tensor, &[String])) -> Done {
    let holds: fn(&str, &str) -> bool = match op {
        Binary::Equal => |x, y| x == y,
        Binary::NotEqual => |x, y| x != y,
        Binary::Less => |x, y| x < y,
        Binary::LessEqual => |x, y| x <= y,
        Binary::Greater => |x, y| x > y,
        Binary::GreaterEqual => |x, y| x >= y,
        _ => return Err(RunError::type_error(format!("{op:?} of strings"))),
    };
    let left: Vec<&str> = a.1.iter().map(String::as_str).collect();
    let right: Vec<&str> = b.1.iter().map(String::as_str).collect();
    let (shape, values) = zip((a.0, &left), (b.0, &right), |x, y| u8::from(holds(x, y)))?;
    tensor(DType::Bool, shape, values)
}

/// The shape that operands broadcast to.
fn common_shape(shapes: &[&[usize]]) -> Done<Vec<usize>> {
    shapes.iter().try_fold(Vec::new(), |common, shape| {
        broadcast_shapes(&common, shape)
            .ok_or_else(|| RunError::value_error(format!("shapes {shapes:?} do not broadcast")))
    })
}

fn fit(shape: &[usize], to: &[usize]) -> Done<Vec<isize>> {
    broadcast_strides(shape, to).ok_or_else(|| {
        RunError::value_error(format!("shape {shape:?} does not broadcast to {to:?}"))
    })
}

/// `a` where the condition holds, else `b`.
pub(in crate::interp) fn select(condition: &Tensor, a: &Tensor, b: &Tensor) -> Done {
    if a.dtype != b.dtype {
        return Err(RunError::type_error(format!(
            "a choice of {} and {}",
            a.dtype, b.dtype
        )));
    }
    if let (Some(left), Some(right)) = (&a.strings, &b.strings) {
        let at_left = Tensor::from_fn(a.shape.clone(), |at| at as i64);
        let at_right = Tensor::from_fn(b.shape.clone(), |at| (at + left.len()) as i64);
        let picked = select(condition, &at_left, &at_right)?;
        let both = |at: usize| left.get(at).or_else(|| right.get(at - left.len())).cloned();
        return pick_strings(&picked, both);
    }
    let shape = common_shape(&[&condition.shape, &a.shape, &b.shape])?;
    let len = checked_count(&shape, a.dtype)?;
    let size = a.dtype.bytes();
    let mut data = Vec::with_capacity(len * size);
    let truths: Vec<bool> = with_nums!(Nums::load(condition)?, values => {
        values.iter().map(|value| value.is_true()).collect()
    });
    let strides = [
        fit(&condition.shape, &shape)?,
        fit(&a.shape, &shape)?,
        fit(&b.shape, &shape)?,
    ];
    let strides = [
        strides[0].as_slice(),
        strides[1].as_slice(),
        strides[2].as_slice(),
    ];
    walk_runs(
        &shape,
        strides,
        [0; 3],
        |[mut c, mut x, mut y], len, steps| {
            for _ in 0..len {
                let (src, at) = if truths[c as usize] { (a, x) } else { (b, y) };
                let at = at as usize * size;
                data.extend_from_slice(&src.data[at..at + size]);
                c += steps[0];
                x += steps[1];
                y += steps[2];
            }
        },
    );
    tensor(a.dtype, shape, data)
}

/// The same bits as another dtype of the same width.
pub(in crate::interp) fn reinterpret(x: &Tensor, dtype: DType) -> Done {
    if x.strings.is_some() || dtype == DType::Str || x.dtype.bytes() != dtype.bytes() {
        return Err(RunError::type_error(format!(
            "{} has not the bits of {dtype}",
            x.dtype
        )));
    }
    Ok(Tensor { dtype, ..x.clone() })
}

/// Repeats axes of extent 1 and adds axes in front.
pub(in crate::interp) fn broadcast_to(x: &Tensor, shape: &[usize]) -> Done {
    rearrange(x, |x| {
        let strides = fit(&x.shape, shape)?;
        let size = x.dtype.bytes();
        let mut data = vec![0u8; checked_count(shape, x.dtype)? * size];
        let to = row_major(shape);
        let from = Side {
            base: 0,
            strides: &strides,
        };
        copy_strided(
            shape,
            size,
            (&x.data, from),
            (
                &mut data,
                Side {
                    base: 0,
                    strides: &to,
                },
            ),
        );
        tensor(x.dtype, shape.to_vec(), data)
    })
}
