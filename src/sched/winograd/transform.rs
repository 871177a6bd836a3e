//! The three linear maps of Winograd's convolution `F(m×m, 3×3)`, with `n = m + 2` numbers to a side of a tile.
//!
//!     y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A
//!
//! `d` is a tile of the data, `g` the kernel, `y` the results. Each map is applied along the rows and along the columns.
//! `F(2, 3)` interpolates at 0, 1, -1 and infinity. `F(4, 3)` does at 0, ±5/8, ±3/2 and infinity: every constant of its maps
//! is a float32, and the error is a fifth of that of the customary points 0, ±1, ±2 (see the head of `winograd`).

use irc_syntax::DType;

use crate::tensor::Weight;

/// The points of `F(4, 3)` beside 0 and infinity are ±`NEAR` and ±`FAR`.
const NEAR: f64 = 0.625;
const FAR: f64 = 1.5;

/// `name: T.let[T.float32] = value`
fn named(name: &str, value: &str) -> String {
    format!("{name}: T.let[T.float32] = {value}")
}

/// `value * c`
fn times(value: &str, factor: f64) -> String {
    format!("{value} * T.float32({factor:?})")
}

/// Statements of `Bᵀ d` for a column `d` of `m + 2` numbers: to the places `to`, in names `d0`, `d1`, … and those made
/// from `e`.
pub fn of_data(m: usize, to: &dyn Fn(usize) -> String) -> Vec<String> {
    if m == 2 {
        return ["d0 - d2", "d1 + d2", "d2 - d1", "d3 - d1"]
            .iter()
            .enumerate()
            .map(|(at, value)| format!("{} = {value}", to(at)))
            .collect();
    }
    let (near, far) = (NEAR * NEAR, FAR * FAR);
    let ends = |a: &str, b: &str, c: &str| {
        format!("{} - {} + {c}", times(a, near * far), times(b, near + far))
    };
    let pair = |even: f64| {
        (
            format!("d4 - {}", times("d2", even)),
            format!("d3 - {}", times("d1", even)),
        )
    };
    let ((near_even, near_odd), (far_even, far_odd)) = (pair(far), pair(near));
    vec![
        format!("{} = {}", to(0), ends("d0", "d2", "d4")),
        named("near_even", &near_even),
        named("near_odd", &times(&format!("({near_odd})"), NEAR)),
        format!("{} = near_even + near_odd", to(1)),
        format!("{} = near_even - near_odd", to(2)),
        named("far_even", &far_even),
        named("far_odd", &times(&format!("({far_odd})"), FAR)),
        format!("{} = far_even + far_odd", to(3)),
        format!("{} = far_even - far_odd", to(4)),
        format!("{} = {}", to(5), ends("d1", "d3", "d5")),
    ]
}

/// Statements of `Aᵀ d` for a column `d` of `m + 2` numbers: to the `m` places `to`.
pub fn of_result(m: usize, to: &dyn Fn(usize) -> String) -> Vec<String> {
    if m == 2 {
        return vec![
            format!("{} = d0 + d1 + d2", to(0)),
            format!("{} = d1 - d2 + d3", to(1)),
        ];
    }
    let power = |exponent: i32| {
        let (near, far) = (NEAR.powi(exponent), FAR.powi(exponent));
        match exponent % 2 {
            0 => (times("near_sum", near), times("far_sum", far)),
            _ => (times("near_odd", near), times("far_odd", far)),
        }
    };
    let ((near_1, far_1), (near_2, far_2), (near_3, far_3)) = (power(1), power(2), power(3));
    vec![
        named("near_sum", "d1 + d2"),
        named("near_odd", "d1 - d2"),
        named("far_sum", "d3 + d4"),
        named("far_odd", "d3 - d4"),
        format!("{} = d0 + near_sum + far_sum", to(0)),
        format!("{} = {near_1} + {far_1}", to(1)),
        format!("{} = {near_2} + {far_2}", to(2)),
        format!("{} = d5 + {near_3} + {far_3}", to(3)),
    ]
}

/// The names that the statements of [`of_data`] and [`of_result`] bind beside `d0`, `d1`, ….
pub const NAMES: [&str; 6] = [
    "near_even",
    "near_odd",
    "near_sum",
    "far_even",
    "far_odd",
    "far_sum",
];

/// `G`, a row for each point.
fn of_kernel(m: usize) -> Vec<[f64; 3]> {
    if m == 2 {
        return vec![
            [1.0, 0.0, 0.0],
            [0.5, 0.5, 0.5],
            [0.5, -0.5, 0.5],
            [0.0, 0.0, 1.0],
        ];
    }
    let points = [0.0, NEAR, -NEAR, FAR, -FAR];
    let mut rows: Vec<[f64; 3]> = points
        .iter()
        .map(|point| {
            let others = points.iter().filter(|other| *other != point);
            let scale: f64 = others.map(|other| point - other).product();
            [1.0 / scale, point / scale, point * point / scale]
        })
        .collect();
    rows.push([0.0, 0.0, 1.0]);
    rows
}

/// The kernels of a weight, to be transformed.
pub struct Kernels {
    weight: Weight,
    /// Elements from one kernel, row, column and data channel to the next.
    strides: [usize; 4],
    width: usize,
    depth: usize,
    rows: Vec<[f64; 3]>,
}

impl Kernels {
    /// The kernels of a weight whose axes of result channels, rows, columns and data channels are `axes`.
    pub fn new(weight: &Weight, m: usize, axes: &[usize]) -> Option<Self> {
        let &[k_axis, y_axis, x_axis, c_axis] = axes else {
            return None;
        };
        let shape = &weight.shape;
        let is_kernel = shape.len() == 4 && shape[y_axis] == 3 && shape[x_axis] == 3;
        if !is_kernel || weight.dtype != DType::F32 {
            return None;
        }
        let (source, strides) = weight.strided();
        Some(Self {
            weight: source,
            strides: [k_axis, y_axis, x_axis, c_axis].map(|axis| strides[axis]),
            width: shape[k_axis],
            depth: shape[c_axis],
            rows: of_kernel(m),
        })
    }

    /// The extents of all transformed kernels, `lanes` result channels to a panel: `(K / lanes, (m + 2)², C, lanes)`.
    pub fn panels(&self, lanes: usize) -> Vec<usize> {
        let places = self.rows.len() * self.rows.len();
        vec![self.width.div_ceil(lanes), places, self.depth, lanes]
    }

    /// Writes `G g Gᵀ` of the kernels of `lanes` result channels from `first` on, zeros where there are none, as
    /// `((m + 2)², C, lanes)`.
    pub fn transform(&self, first: usize, lanes: usize, out: &mut [u8]) {
        let (elements, _) = self.weight.bytes().as_chunks::<4>();
        let (out, _) = out.as_chunks_mut::<4>();
        let n = self.rows.len();
        let [k_stride, y_stride, x_stride, c_stride] = self.strides;
        for c in 0..self.depth {
            for lane in 0..lanes {
                let base = c * c_stride + (first + lane) * k_stride;
                // A row of the kernel at each point.
                let mut over_x = [[0.0f64; 6]; 3];
                for (y, over_x) in over_x.iter_mut().enumerate() {
                    if first + lane >= self.width {
                        break;
                    }
                    let row = [0, 1, 2].map(|x| {
                        let at = base + y * y_stride + x * x_stride;
                        f64::from(f32::from_le_bytes(elements[at]))
                    });
                    for (place, g) in over_x.iter_mut().zip(&self.rows) {
                        *place = row[0] * g[0] + row[1] * g[1] + row[2] * g[2];
                    }
                }
                for (i, g) in self.rows.iter().enumerate() {
                    let [top, middle, bottom] = over_x;
                    let columns = top.iter().zip(&middle).zip(&bottom).take(n).enumerate();
                    for (j, ((top, middle), bottom)) in columns {
                        let sum = g[0] * top + g[1] * middle + g[2] * bottom;
                        let to = ((i * n + j) * self.depth + c) * lanes + lane;
                        out[to] = (sum as f32).to_le_bytes();
                    }
                }
            }
        }
    }
}
