//! Strided walks: the one loop nest behind broadcasting, permuting, slicing, padding and concatenating.
//!
//! Strides and offsets count elements; a stride of 0 repeats, a negative one walks backwards. Axes are merged where every
//! operand allows it, so that the innermost run is as long as can be.

/// Row-major strides of a shape.
pub fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1isize;
    for (at, &extent) in shape.iter().enumerate().rev() {
        strides[at] = stride;
        stride *= extent.max(1) as isize;
    }
    strides
}

/// Strides that read a tensor of `shape` as if it had the shape `to`; extents of 1 are repeated. `None` when the shapes
/// do not fit.
pub fn broadcast_strides(shape: &[usize], to: &[usize]) -> Option<Vec<isize>> {
    let missing = to.len().checked_sub(shape.len())?;
    let own = row_major(shape);
    let mut strides = vec![0; to.len()];
    for (at, (&extent, &stride)) in shape.iter().zip(&own).enumerate() {
        let target = to[missing + at];
        if extent == target {
            strides[missing + at] = if extent == 1 { 0 } else { stride };
        } else if extent != 1 {
            return None;
        }
    }
    Some(strides)
}

/// The shape that numpy's rules give two shapes; `None` when they do not fit.
pub fn broadcast_shapes(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |axis| shape[axis])
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect()
}

/// Calls `run(starts, len, steps)` for every innermost run of a walk over `shape`, in row-major order. Operand `i` starts
/// the walk at `bases[i]` and moves by `strides[i]`.
pub fn walk_runs<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
    bases: [isize; N],
    mut run: impl FnMut([isize; N], usize, [isize; N]),
) {
    if shape.contains(&0) {
        return;
    }
    let (shape, strides) = merge_axes(shape, strides);
    let Some((&len, outer)) = shape.split_last() else {
        run(bases, 1, [0; N]);
        return;
    };
    let steps = strides[outer.len()];
    let mut index = vec![0usize; outer.len()];
    let mut starts = bases;
    loop {
        run(starts, len, steps);
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            for (start, stride) in starts.iter_mut().zip(strides[axis]) {
                *start += stride;
            }
            if index[axis] < outer[axis] {
                break;
            }
            for (start, stride) in starts.iter_mut().zip(strides[axis]) {
                *start -= stride * outer[axis] as isize;
            }
            index[axis] = 0;
        }
    }
}

/// Drops axes of extent 1 and joins neighbours that every operand walks as one.
fn merge_axes<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
) -> (Vec<usize>, Vec<[isize; N]>) {
    let mut extents: Vec<usize> = Vec::with_capacity(shape.len());
    let mut merged: Vec<[isize; N]> = Vec::with_capacity(shape.len());
    for (axis, &extent) in shape.iter().enumerate() {
        if extent == 1 {
            continue;
        }
        let here: [isize; N] = std::array::from_fn(|operand| strides[operand][axis]);
        if let (Some(outer), Some(last)) = (merged.last_mut(), extents.last_mut()) {
            let joins = outer
                .iter()
                .zip(here)
                .all(|(&outer, here)| outer == here * extent as isize);
            if joins {
                *outer = here;
                *last *= extent;
                continue;
            }
        }
        extents.push(extent);
        merged.push(here);
    }
    (extents, merged)
}

/// One side of a strided copy.
pub struct Side<'a> {
    /// The element the walk begins at.
    pub base: isize,
    /// The stride of each axis.
    pub strides: &'a [isize],
}

/// Copies the elements of `size` bytes that a walk over `shape` meets, from one buffer to another.
///
/// *Panics* when the walk leaves a buffer.
pub fn copy_strided(shape: &[usize], size: usize, src: (&[u8], Side), dst: (&mut [u8], Side)) {
    match size {
        1 => copy_sized::<1>(shape, src, dst),
        2 => copy_sized::<2>(shape, src, dst),
        4 => copy_sized::<4>(shape, src, dst),
        8 => copy_sized::<8>(shape, src, dst),
        _ => copy_sized::<16>(shape, src, dst),
    }
}

fn copy_sized<const SIZE: usize>(
    shape: &[usize],
    (src, src_side): (&[u8], Side),
    (dst, dst_side): (&mut [u8], Side),
) {
    let (src, _) = src.as_chunks::<SIZE>();
    let (dst, _) = dst.as_chunks_mut::<SIZE>();
    let strides = [dst_side.strides, src_side.strides];
    walk_runs(
        shape,
        strides,
        [dst_side.base, src_side.base],
        |[to, from], len, [to_step, from_step]| {
            if len == 1 {
                dst[to as usize] = src[from as usize];
            } else if to_step == 1 && from_step == 1 {
                let (to, from) = (to as usize, from as usize);
                dst[to..to + len].copy_from_slice(&src[from..from + len]);
            } else if to_step == 1 && from_step == 0 {
                let to = to as usize;
                dst[to..to + len].fill(src[from as usize]);
            } else {
                let (mut to, mut from) = (to, from);
                for _ in 0..len {
                    dst[to as usize] = src[from as usize];
                    to += to_step;
                    from += from_step;
                }
            }
        },
    );
}
