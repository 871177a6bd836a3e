//! Narrow integers: sums of products of pairs, and conversions of 16 bits.

use super::exec::Loaded;
use super::tests::{Data, compile, run, time};

fn bytes(n: usize, seed: u32) -> Vec<i8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(99);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as i8
        })
        .collect()
}

fn raw16(values: &[i16]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn raw8(values: &[i8]) -> Vec<u8> {
    values.iter().map(|&value| value as u8).collect()
}

/// `C = A @ B` of 3 rows, K = 2 * pairs + 1, and columns in panels of 16 pairs.
fn gemm(dtype: &str) -> String {
    format!(
        r#"
@T.prim_func
def gemm(A: T.Buffer((3, K), "int16"), Bp: T.Buffer((P, 16, 2), "{dtype}"), C: T.Buffer((3, n), "int32"), K: T.int64, P: T.int64, n: T.int64):
    with T.sblock("tile"):
        T.sblock_attr({{"irc.kernel": True}})
        acc = T.alloc_local((3, 16), "int32")
        for mi in T.unroll(3):
            for vi in T.vectorized(16):
                acc[mi, vi] = T.int32(0)
        for k in range(P - 1):
            for mi in T.unroll(3):
                for vi in T.vectorized(16):
                    acc[mi, vi] = acc[mi, vi] + T.Cast("int32", A[mi, k * 2]) * T.Cast("int32", Bp[k, vi, 0]) + T.Cast("int32", A[mi, k * 2 + 1]) * T.Cast("int32", Bp[k, vi, 1])
        for mi in T.unroll(3):
            for vi in T.vectorized(16):
                acc[mi, vi] = acc[mi, vi] + T.Cast("int32", A[mi, K - 1]) * T.Cast("int32", Bp[P - 1, vi, 0])
        for mi in T.unroll(3):
            for vi in T.vectorized(16):
                if vi < n:
                    C[mi, vi] = acc[mi, vi]
"#
    )
}

fn check_gemm(pairs: usize, columns: usize, wide: bool) {
    let depth = 2 * pairs + 1;
    let a: Vec<i16> = bytes(3 * depth, 1)
        .iter()
        .zip(bytes(3 * depth, 2))
        .map(|(&x, y)| {
            if wide {
                i16::from(x) << 8 | i16::from(y)
            } else {
                i16::from(x) * 2
            }
        })
        .collect();
    // What is beside the last step is not 0: it does not count.
    let b = bytes((pairs + 1) * 32, 3);
    let b16: Vec<i16> = b
        .iter()
        .map(|&x| {
            if wide {
                i16::from(x) << 8
            } else {
                i16::from(x)
            }
        })
        .collect();
    let mut want = vec![0i32; 3 * columns];
    for i in 0..3 {
        for j in 0..columns {
            for k in 0..depth {
                let factor = i32::from(b16[k / 2 * 32 + j * 2 + k % 2]);
                let product = i32::from(a[i * depth + k]) * factor;
                want[i * columns + j] = want[i * columns + j].wrapping_add(product);
            }
        }
    }
    let want: Vec<u8> = want.iter().flat_map(|value| value.to_le_bytes()).collect();
    for dtype in ["int8", "int16"] {
        if wide && dtype == "int8" {
            continue;
        }
        let panels = if dtype == "int8" {
            raw8(&b)
        } else {
            raw16(&b16)
        };
        let data = Data::default()
            .bytes("A", &raw16(&a))
            .bytes("Bp", &panels)
            .bytes("C", &vec![7; 12 * columns])
            .int("K", depth as i64)
            .int("P", pairs as i64 + 1)
            .int("n", columns as i64);
        let data = run(&gemm(dtype), data);
        assert_eq!(data.raw("C"), want, "{pairs} pairs, {dtype}");
    }
}

#[test]
fn products_of_pairs_match_plain_loops() {
    check_gemm(0, 16, false);
    check_gemm(1, 16, false);
    check_gemm(37, 11, false);
    // Sums of two products that do not fit in 32 bits wrap.
    check_gemm(40, 16, true);
}

#[test]
fn pairs_are_one_instruction_for_two_products() {
    let kernel = compile(&gemm("int8"));
    let listing = super::tests::disassemble(&kernel.code);
    assert!(
        listing.contains("vpmaddwd") && listing.contains("vpmovsxbw"),
        "{listing}"
    );
    assert!(!listing.contains("vpmulld"), "{listing}");
}

#[test]
fn pairs_under_a_mask() {
    const TEXT: &str = r#"
@T.prim_func
def f(A: T.Buffer((2,), "int16"), B: T.Buffer((n, 2), "int8"), C: T.Buffer((n,), "int32"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    C[jo * 16 + vi] = C[jo * 16 + vi] + T.Cast("int32", A[0]) * T.Cast("int32", B[jo * 16 + vi, 0]) + T.Cast("int32", A[1]) * T.Cast("int32", B[jo * 16 + vi, 1])
"#;
    for n in [1, 5, 16, 27] {
        let b = bytes(2 * n, 4);
        let want: Vec<u8> = (0..n)
            .flat_map(|at| {
                let sum =
                    1000 * i32::from(b[2 * at]) - 300 * i32::from(b[2 * at + 1]) + 0x0101_0101;
                sum.to_le_bytes()
            })
            .collect();
        let data = Data::default()
            .bytes("A", &raw16(&[1000, -300]))
            .bytes("B", &raw8(&b))
            .bytes("C", &vec![1; 4 * n])
            .int("n", n as i64);
        assert_eq!(run(TEXT, data).raw("C"), want);
    }
}

#[test]
fn halves_are_stored_beside_each_other() {
    const TEXT: &str = r#"
@T.prim_func
def f(A: T.Buffer((n,), "int16"), B: T.Buffer((n,), "int8"), C: T.Buffer((n, 2), "int16"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    C[jo * 16 + vi, 0] = A[jo * 16 + vi]
                    C[jo * 16 + vi, 1] = T.Cast("int16", B[jo * 16 + vi])
"#;
    for n in [1, 8, 23, 48] {
        let (a, b) = (bytes(n, 7), bytes(n, 8));
        let a: Vec<i16> = a.iter().map(|&x| i16::from(x) * 200).collect();
        let want: Vec<i16> = (0..2 * n)
            .map(|at| {
                if at % 2 == 0 {
                    a[at / 2]
                } else {
                    i16::from(b[at / 2])
                }
            })
            .collect();
        let data = Data::default()
            .bytes("A", &raw16(&a))
            .bytes("B", &raw8(&b))
            .bytes("C", &vec![1; 4 * n + 8])
            .int("n", n as i64);
        let data = run(TEXT, data);
        assert_eq!(data.raw("C")[..4 * n], raw16(&want));
        assert_eq!(data.raw("C")[4 * n..], [1; 8], "writes behind the end");
    }
}

#[test]
fn words_convert_and_are_padded() {
    const TEXT: &str = r#"
@T.prim_func
def f(A: T.Buffer((n,), "int16"), B: T.Buffer((n,), "uint8"), S: T.Buffer((1,), "int16"), Y: T.Buffer((2, n), "int16"), Z: T.Buffer((n,), "int32"), P: T.Buffer((1,), "int16"), n: T.int64, h: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for i in range(2):
            for jo in range((n + 15) // 16):
                for vi in T.vectorized(16):
                    if jo * 16 + vi < n:
                        Y[i, jo * 16 + vi] = T.if_then_else(i < h, A[jo * 16 + vi], T.int16(-3))
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    Y[1, jo * 16 + vi] = T.Cast("int16", T.Cast("int32", B[jo * 16 + vi]) * T.int32(400) - T.Cast("int32", S[0]))
                    Z[jo * 16 + vi] = T.Cast("int32", A[jo * 16 + vi]) + T.int32(70000)
        P[0] = T.Cast("int16", T.Cast("int32", S[0]) + T.int32(1))
"#;
    for n in [1usize, 8, 19, 64] {
        for h in [0, 1] {
            let a: Vec<i16> = bytes(n, 5).iter().map(|&x| i16::from(x) * 255).collect();
            let b = bytes(n, 6);
            let data = Data::default()
                .bytes("A", &raw16(&a))
                .bytes("B", &raw8(&b))
                .bytes("S", &raw16(&[-999]))
                .bytes("Y", &vec![1; 4 * n + 6])
                .bytes("Z", &vec![1; 4 * n])
                .bytes("P", &[0; 2])
                .int("n", n as i64)
                .int("h", h);
            let data = run(TEXT, data);
            let mut want: Vec<i16> = a.iter().map(|&x| if h > 0 { x } else { -3 }).collect();
            want.extend(b.iter().map(|&x| (i32::from(x as u8) * 400 + 999) as i16));
            assert_eq!(data.raw("Y")[..4 * n], raw16(&want));
            assert_eq!(data.raw("Y")[4 * n..], [1; 6], "writes behind the end");
            let sums: Vec<u8> = a
                .iter()
                .flat_map(|&x| (i32::from(x) + 70000).to_le_bytes())
                .collect();
            assert_eq!(data.raw("Z"), sums);
            assert_eq!(data.raw("P"), raw16(&[-998]));
        }
    }
}

#[test]
fn bytes_between_scales_are_those_of_the_text() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((n,), "float32"), U: T.Buffer((n,), "float32"), I: T.Buffer((n,), "float32"), W: T.Buffer((n,), "int16"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    r: T.let[T.float32] = T.nearbyint(X[jo * 16 + vi])
                    u: T.let[T.float32] = T.min(T.max(r, T.float32(0)), T.float32(255))
                    i: T.let[T.float32] = T.min(T.max(r, T.float32(-128)), T.float32(127))
                    U[jo * 16 + vi] = T.Cast("float32", T.Cast("uint8", u))
                    I[jo * 16 + vi] = T.Cast("float32", T.Cast("int32", T.Cast("int8", i)) - T.int32(5))
                    W[jo * 16 + vi] = T.Cast("int16", T.Cast("int32", T.Cast("uint8", u)) - T.int32(114))
"#;
    let special = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        0.0,
        -0.4,
        0.5,
        1.5,
        254.5,
        255.5,
        300.0,
        -7.6,
        -129.0,
        3e9,
        -3e9,
        1e30,
    ];
    let x: Vec<f32> = special.iter().cycle().take(37).copied().collect();
    let n = x.len();
    let data = Data::default()
        .floats("X", &x)
        .floats("U", &vec![7.0; n])
        .floats("I", &vec![7.0; n])
        .bytes("W", &vec![1; 2 * n])
        .int("n", n as i64);
    let data = run(TEXT, data);
    // As in the text: a cast of NaN gives 0, one of a float never minus zero.
    let unsigned = |x: f32| x.round_ties_even().clamp(0.0, 255.0) as u8;
    let signed = |x: f32| x.round_ties_even().clamp(-128.0, 127.0) as i8;
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let want: Vec<f32> = x.iter().map(|&x| f32::from(unsigned(x))).collect();
    assert_eq!(bits(&data.get("U")), bits(&want));
    let want: Vec<f32> = x.iter().map(|&x| f32::from(signed(x)) - 5.0).collect();
    assert_eq!(bits(&data.get("I")), bits(&want));
    let want: Vec<i16> = x.iter().map(|&x| i16::from(unsigned(x)) - 114).collect();
    assert_eq!(data.raw("W"), raw16(&want));
}

#[test]
fn pairs_speed_is_printed() {
    const TEXT: &str = r#"
@T.prim_func
def gemm(A: T.Buffer((M, 384), "int16"), Bp: T.Buffer((24, 192, 16, 2), "int8"), C: T.Buffer((M, 384), "int32"), M: T.int64):
    for mo in range(16):
        for vo in range(24):
            with T.sblock("tile"):
                T.sblock_attr({"irc.kernel": True})
                acc = T.alloc_local((5, 16), "int32")
                for mi in T.unroll(5):
                    for vi in T.vectorized(16):
                        acc[mi, vi] = T.int32(0)
                for k in range(192):
                    for mi in T.unroll(5):
                        for vi in T.vectorized(16):
                            acc[mi, vi] = acc[mi, vi] + T.Cast("int32", A[mo * 5 + mi, k * 2]) * T.Cast("int32", Bp[vo, k, vi, 0]) + T.Cast("int32", A[mo * 5 + mi, k * 2 + 1]) * T.Cast("int32", Bp[vo, k, vi, 1])
                for mi in T.unroll(5):
                    for vi in T.vectorized(16):
                        C[mo * 5 + mi, vo * 16 + vi] = acc[mi, vi]
"#;
    let kernel = compile(TEXT);
    let code = Loaded::new(&kernel.code);
    let (m, n, k) = (250, 384, 384);
    let mut data = Data::default()
        .bytes("A", &vec![1; 2 * m * k])
        .bytes("Bp", &vec![1; n * k])
        .bytes("C", &vec![0; 4 * m * n])
        .int("M", m as i64);
    let mut args = Vec::new();
    for mo in 0..m / 5 {
        for vo in 0..n / 16 {
            data = data.int("mo", mo as i64).int("vo", vo as i64);
            args.push(data.args(&kernel));
        }
    }
    let nanos = time(|| args.iter().for_each(|args| code.call(args)), 5);
    let (rate, peak) = (2.0 * (m * n * k) as f64 / nanos, super::tests::peak());
    println!(
        "pairs {m}x{n}x{k}: {rate:.1} GOP/s, {:.2} of {peak:.1} GFLOP/s",
        rate / peak
    );
}
