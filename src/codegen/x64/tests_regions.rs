//! Regions of every kind, against plain loops.

use super::tests::{Data, Pair, close, numbers, run};

fn row(n: i64, body: &str) -> Vec<f32> {
    let text = format!(
        r#"
@T.prim_func
def f(X: T.Buffer((n,), "float32"), S: T.Buffer((n,), "float32"), M: T.Buffer((1,), "float32"), Y: T.Buffer((n,), "float32"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({{"irc.kernel": True}})
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    Y[jo * 16 + vi] = {body}
"#
    );
    let data = Data::default()
        .floats("X", &numbers(n as usize, 1))
        .floats("S", &numbers(n as usize, 2))
        .floats("M", &[0.25])
        .floats("Y", &vec![7.0; n as usize + 8])
        .int("n", n);
    let got = run(&text, data).get("Y");
    assert!(
        got[n as usize..].iter().all(|&value| value == 7.0),
        "writes behind the end"
    );
    got[..n as usize].to_vec()
}

fn check_row(body: &str, f: impl Fn(f32, f32) -> f32) {
    for n in [0, 1, 7, 8, 15, 16, 17, 64, 100, 131] {
        let (x, s) = (numbers(n, 1), numbers(n, 2));
        let want: Vec<f32> = x.iter().zip(&s).map(|(&x, &s)| f(x, s)).collect();
        close(&row(n as i64, body), &want, 1e-6);
    }
}

const X: &str = "X[jo * 16 + vi]";
const S: &str = "S[jo * 16 + vi]";

#[test]
fn rows_have_tails() {
    check_row(&format!("{X} * {S} + M[0]"), |x, s| x * s + 0.25);
    check_row(&format!("T.exp({X} - M[0]) * {S}"), |x, s| {
        (x - 0.25).exp() * s
    });
    check_row(&format!("T.max({X}, {S}) - T.min({X}, {S})"), |x, s| {
        x.max(s) - x.min(s)
    });
    check_row(
        &format!("T.Select({X} < {S}, {X}, T.float32(3))"),
        |x, s| if x < s { x } else { 3.0 },
    );
    check_row(
        &format!("T.if_then_else({X} < T.float32(0) and not {S} > M[0], -{X}, {X} / T.float32(4))"),
        |x, s| if x < 0.0 && s <= 0.25 { -x } else { x / 4.0 },
    );
    check_row(
        &format!("T.Cast(\"float32\", T.Cast(\"int32\", {X} * T.float32(100)))"),
        |x, _| (x * 100.0).trunc(),
    );
    check_row(
        &format!("T.floor({X} * T.float32(9)) + T.fabs({S})"),
        |x, s| (x * 9.0).floor() + s.abs(),
    );
    check_row("T.Cast(\"float32\", jo * 16 + vi)", {
        let at = std::cell::Cell::new(0);
        move |_, _| {
            // Called once for each element in order, over ten lengths.
            let lengths = [0, 1, 7, 8, 15, 16, 17, 64, 100, 131];
            let mut rest = at.get();
            at.set(rest + 1);
            for n in lengths {
                if rest < n {
                    return rest as f32;
                }
                rest -= n;
            }
            0.0
        }
    });
}

#[test]
fn softmax_of_rows() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((m, n), "float32"), Y: T.Buffer((m, n), "float32"), m: T.int64, n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for i in range(m):
            lane = T.alloc_local((16,), "float32")
            top = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            for vi in T.vectorized(16):
                lane[vi] = T.float32("-inf")
            for jo in range((n + 15) // 16):
                for vi in T.vectorized(16):
                    if jo * 16 + vi < n:
                        lane[vi] = T.max(lane[vi], X[i, jo * 16 + vi])
            top[0] = T.float32("-inf")
            for vi in T.vectorized(16):
                top[0] = T.max(top[0], lane[vi])
            for vi in T.vectorized(16):
                lane[vi] = T.float32(0)
            for jo in range((n + 15) // 16):
                for vi in T.vectorized(16):
                    if jo * 16 + vi < n:
                        Y[i, jo * 16 + vi] = T.exp(X[i, jo * 16 + vi] - top[0])
                        lane[vi] = lane[vi] + Y[i, jo * 16 + vi]
            total[0] = T.float32(0)
            for vi in T.vectorized(16):
                total[0] = total[0] + lane[vi]
            scale: T.let[T.float32] = T.float32(1) / total[0]
            for jo in range((n + 15) // 16):
                for vi in T.vectorized(16):
                    if jo * 16 + vi < n:
                        Y[i, jo * 16 + vi] = Y[i, jo * 16 + vi] * scale
"#;
    for n in [1usize, 5, 16, 37, 64, 100] {
        let m = 3;
        let x = numbers(m * n, 4);
        let data = Data::default()
            .floats("X", &x)
            .floats("Y", &vec![0.0; m * n])
            .int("m", m as i64)
            .int("n", n as i64);
        let got = run(TEXT, data).get("Y");
        let mut want = Vec::new();
        for row in x.chunks(n) {
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f32 = row.iter().map(|x| (x - top).exp()).sum();
            want.extend(row.iter().map(|x| (x - top).exp() / total));
        }
        close(&got, &want, 1e-6);
    }
}

#[test]
fn nan_survives_a_maximum_over_lanes() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((n,), "float32"), Y: T.Buffer((2,), "float32"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        top = T.alloc_local((1,), "float32")
        top[0] = T.float32("-inf")
        for jo in range((n + 7) // 8):
            for vi in T.vectorized(8):
                if jo * 8 + vi < n:
                    top[0] = T.max(top[0], X[jo * 8 + vi])
        Y[0] = top[0]
        Y[1] = T.Cast("float32", T.isnan(top[0]))
"#;
    for at in 0..20 {
        let mut x = numbers(20, 5);
        x[at] = f32::NAN;
        let data = Data::default()
            .floats("X", &x)
            .floats("Y", &[0.0; 2])
            .int("n", 20);
        let got = run(TEXT, data).get("Y");
        assert!(got[0].is_nan() && got[1] == 1.0, "at {at}: {got:?}");
    }
}

#[test]
fn convolution_tiles() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((1, 9, 13, C), "float32"), W: T.Buffer((2, 3, 3, C, 16), "float32"), Y: T.Buffer((1, 4, 6, 32), "float32"), C: T.int64):
    for y in range(4):
        for co in range(2):
            with T.sblock("tile"):
                T.sblock_attr({"irc.kernel": True})
                acc = T.alloc_local((6, 16), "float32")
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        acc[mi, vi] = T.float32(0)
                for ky, kx, c in T.grid(3, 3, C):
                    for mi in T.unroll(6):
                        for vi in T.vectorized(16):
                            acc[mi, vi] = acc[mi, vi] + X[0, y * 2 + ky, mi * 2 + kx, c] * W[co, ky, kx, c, vi]
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        Y[0, y, mi, co * 16 + vi] = acc[mi, vi]
"#;
    for c in [1usize, 3, 5] {
        for text in [
            TEXT.to_owned(),
            TEXT.replace("C)", &format!("{c})"))
                .replace("C,", &format!("{c},")),
        ] {
            let (x, w) = (numbers(9 * 13 * c, 6), numbers(2 * 9 * c * 16, 7));
            let pair = Pair::new(&text);
            let mut data = Data::default()
                .floats("X", &x)
                .floats("W", &w)
                .floats("Y", &[0.0; 4 * 6 * 32]);
            for y in 0..4 {
                for co in 0..2 {
                    data = data.int("y", y).int("co", co).int("C", c as i64);
                    pair.run(&mut data);
                }
            }
            let mut want = Vec::new();
            for (y, mi, o) in (0..4 * 6 * 32).map(|at| (at / 192, at / 32 % 6, at % 32)) {
                let mut sum = 0.0;
                for (ky, kx, c_at) in (0..9 * c).map(|at| (at / (3 * c), at / c % 3, at % c)) {
                    sum += x[((y * 2 + ky) * 13 + mi * 2 + kx) * c + c_at]
                        * w[(((o / 16) * 9 + ky * 3 + kx) * c + c_at) * 16 + o % 16];
                }
                want.push(sum);
            }
            close(&data.get("Y"), &want, 1e-5);
        }
    }
}

#[test]
fn padded_depthwise_tiles() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((H, 5, 16), "float32"), W: T.Buffer((3, 3, 16), "float32"), Y: T.Buffer((H, 5, 16), "float32"), H: T.int64):
    for y in range(H):
        with T.sblock("tile"):
            T.sblock_attr({"irc.kernel": True})
            for x in range(5):
                acc = T.alloc_local((16,), "float32")
                for vi in T.vectorized(16):
                    acc[vi] = T.float32(0)
                for ky in range(3):
                    for kx in range(3):
                        if 1 <= y + ky and y + ky < H + 1 and 1 <= x + kx and x + kx < 6:
                            for vi in T.vectorized(16):
                                acc[vi] = acc[vi] + X[y + ky - 1, x + kx - 1, vi] * W[ky, kx, vi]
                for vi in T.vectorized(16):
                    Y[y, x, vi] = acc[vi]
"#;
    let other = TEXT
        .replace("                        if 1 <= y + ky and y + ky < H + 1 and 1 <= x + kx and x + kx < 6:\n    ", "                    ")
        .replace("                    acc[vi] = acc[vi] + X[y + ky - 1, x + kx - 1, vi] * W", "                    acc[vi] = acc[vi] + T.if_then_else(1 <= y + ky and y + ky < H + 1 and 1 <= x + kx and x + kx < 6, X[y + ky - 1, x + kx - 1, vi], T.float32(0)) * W")
        .replace("                    for vi in T.vectorized(16):\n                                acc", "for vi in T.vectorized(16):\n                            acc");
    let h = 4usize;
    let (x, w) = (numbers(h * 80, 8), numbers(144, 9));
    let mut want = Vec::new();
    for (y, xx, c) in (0..h * 80).map(|at| (at / 80, at / 16 % 5, at % 16)) {
        let mut sum = 0.0;
        for (ky, kx) in (0..9).map(|at| (at / 3, at % 3)) {
            let (row, column) = (y + ky, xx + kx);
            if (1..=h).contains(&row) && (1..6).contains(&column) {
                sum += x[(row - 1) * 80 + (column - 1) * 16 + c] * w[(ky * 3 + kx) * 16 + c];
            }
        }
        want.push(sum);
    }
    for text in [TEXT, &other] {
        let pair = Pair::new(text);
        let mut data = Data::default()
            .floats("X", &x)
            .floats("W", &w)
            .floats("Y", &vec![0.0; h * 80])
            .int("H", h as i64);
        for y in 0..h {
            data = data.int("y", y as i64);
            pair.run(&mut data);
        }
        close(&data.get("Y"), &want, 1e-5);
    }
}

#[test]
fn depthwise_tiles_load_again_what_registers_cannot_hold() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((3, 8, 16), "float32"), W: T.Buffer((3, 3, 16), "float32"), Y: T.Buffer((6, 16), "float32")):
    with T.sblock("tile"):
        T.sblock_attr({"irc.kernel": True})
        acc = T.alloc_local((6, 16), "float32")
        for mi in T.unroll(6):
            for vi in T.vectorized(16):
                acc[mi, vi] = T.float32(0)
        for ky in range(3):
            for kx in T.unroll(3):
                for mi in T.unroll(6):
                    for vi in T.vectorized(16):
                        acc[mi, vi] = acc[mi, vi] + X[ky, mi + kx, vi] * W[ky, kx, vi]
        for mi in T.unroll(6):
            for vi in T.vectorized(16):
                Y[mi, vi] = acc[mi, vi]
"#;
    let (x, w) = (numbers(384, 8), numbers(144, 9));
    let want: Vec<f32> = (0..96)
        .map(|at| {
            let (column, c) = (at / 16, at % 16);
            let taps = (0..9).map(|tap| (tap / 3, tap % 3));
            taps.map(|(ky, kx)| x[(ky * 8 + column + kx) * 16 + c] * w[(ky * 3 + kx) * 16 + c])
                .sum()
        })
        .collect();
    let data = Data::default()
        .floats("X", &x)
        .floats("W", &w)
        .floats("Y", &[0.0; 96]);
    close(&run(TEXT, data).get("Y"), &want, 1e-5);
    let code = super::tests::disassemble(&super::tests::compile(TEXT).code);
    assert!(!code.contains("[rsp"), "{code}");
}

#[test]
fn narrow_elements_widen_and_narrow() {
    const TEXT: &str = r#"
@T.prim_func
def f(A: T.Buffer((n,), "int8"), B: T.Buffer((n,), "uint8"), M: T.Buffer((n,), "bool"), S: T.Buffer((1,), "int8"), Y: T.Buffer((n,), "float32"), Z: T.Buffer((n,), "int8"), P: T.Buffer((n,), "bool"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    j: T.let[T.int64] = jo * 16 + vi
                    sum: T.let[T.int32] = T.Cast("int32", A[j]) * 3 + T.Cast("int32", B[j]) - T.Cast("int32", S[0])
                    Y[j] = T.if_then_else(M[j], T.Cast("float32", sum), T.float32(-1))
                    Z[j] = T.Cast("int8", sum)
                    P[j] = sum > 50 or M[j]
"#;
    for n in [1usize, 9, 16, 33, 40] {
        let a: Vec<u8> = (0..n).map(|i| (i * 37 % 256) as u8).collect();
        let b: Vec<u8> = (0..n).map(|i| (i * 91 % 256) as u8).collect();
        let m: Vec<u8> = (0..n).map(|i| (i % 3 == 0) as u8).collect();
        let data = Data::default()
            .bytes("A", &a)
            .bytes("B", &b)
            .bytes("M", &m)
            .bytes("S", &[(-7i8) as u8])
            .floats("Y", &vec![0.0; n])
            .bytes("Z", &vec![0; n + 4])
            .bytes("P", &vec![2; n + 4])
            .int("n", n as i64);
        let got = run(TEXT, data);
        let sums: Vec<i32> = (0..n)
            .map(|i| i32::from(a[i] as i8) * 3 + i32::from(b[i]) + 7)
            .collect();
        let want: Vec<f32> = (0..n)
            .map(|i| if m[i] == 1 { sums[i] as f32 } else { -1.0 })
            .collect();
        close(&got.get("Y"), &want, 0.0);
        let narrow: Vec<u8> = sums.iter().map(|&sum| sum as u8).chain([0; 4]).collect();
        assert_eq!(got.raw("Z"), narrow);
        let flags = (0..n)
            .map(|i| u8::from(sums[i] > 50 || m[i] == 1))
            .chain([2; 4]);
        assert_eq!(got.raw("P"), flags.collect::<Vec<_>>());
    }
}

#[test]
fn halves_round_after_every_operation() {
    const TEXT: &str = r#"
@T.prim_func
def f(A: T.Buffer((n,), "float16"), S: T.Buffer((1,), "float16"), Y: T.Buffer((n,), "float16"), Z: T.Buffer((1,), "float16"), n: T.int64):
    with T.sblock("row"):
        T.sblock_attr({"irc.kernel": True})
        for jo in range((n + 15) // 16):
            for vi in T.vectorized(16):
                if jo * 16 + vi < n:
                    Y[jo * 16 + vi] = A[jo * 16 + vi] * S[0] + T.max(A[jo * 16 + vi], T.float16(0))
        Z[0] = S[0] * S[0]
"#;
    use half::f16;
    let raw = |values: &[f16]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    for n in [1usize, 7, 16, 21, 64] {
        let a: Vec<f16> = numbers(n, 3)
            .iter()
            .map(|&x| f16::from_f32(x * 10.0))
            .collect();
        let s = f16::from_f32(1.37);
        let data = Data::default()
            .bytes("A", &raw(&a))
            .bytes("S", &raw(&[s]))
            .bytes("Y", &vec![1; 2 * n + 4])
            .bytes("Z", &[0; 2])
            .int("n", n as i64);
        let got = run(TEXT, data);
        let round = |x: f32| f16::from_f32(x).to_f32();
        let mut want: Vec<u8> = a
            .iter()
            .map(|a| a.to_f32())
            .flat_map(|a| f16::from_f32(round(a * s.to_f32()) + a.max(0.0)).to_le_bytes())
            .collect();
        want.extend([1; 4]);
        assert_eq!(got.raw("Y"), want);
        assert_eq!(got.raw("Z"), raw(&[f16::from_f32(s.to_f32() * s.to_f32())]));
    }
}

#[test]
fn convolutions_pad_with_conditions() {
    const TEXT: &str = r#"
@T.prim_func
def f(X: T.Buffer((H, 7, C), "float32"), W: T.Buffer((3, 3, C, 8), "float32"), Y: T.Buffer((H, 7, 8), "float32"), H: T.int64, C: T.int64):
    for y in range(H):
        with T.sblock("tile"):
            T.sblock_attr({"irc.kernel": True})
            acc = T.alloc_local((7, 8), "float32")
            for mi in T.unroll(7):
                for vi in T.vectorized(8):
                    acc[mi, vi] = T.float32(0)
            for ky, kx, c in T.grid(3, 3, C):
                for mi in T.unroll(7):
                    for vi in T.vectorized(8):
                        acc[mi, vi] = acc[mi, vi] + T.if_then_else(0 <= y + ky - 1 and y + ky - 1 < H and 0 <= mi + kx - 1 and mi + kx - 1 < 7, X[y + ky - 1, mi + kx - 1, c], T.float32(0)) * W[ky, kx, c, vi]
            for mi in T.unroll(7):
                for vi in T.vectorized(8):
                    Y[y, mi, vi] = acc[mi, vi]
"#;
    for (h, c) in [(1usize, 1usize), (4, 5), (3, 16)] {
        let (x, w) = (numbers(h * 7 * c, 8), numbers(9 * c * 8, 9));
        let mut want = Vec::new();
        for (y, xx, o) in (0..h * 56).map(|at| (at / 56, at / 8 % 7, at % 8)) {
            let mut sum = 0.0;
            for (ky, kx) in (0..9).map(|at| (at / 3, at % 3)) {
                let (row, column) = ((y + ky).wrapping_sub(1), (xx + kx).wrapping_sub(1));
                if row < h && column < 7 {
                    for p in 0..c {
                        sum += x[(row * 7 + column) * c + p] * w[((ky * 3 + kx) * c + p) * 8 + o];
                    }
                }
            }
            want.push(sum);
        }
        for text in [
            TEXT.to_owned(),
            TEXT.replace("(3, 3, C)", &format!("(3, 3, {c})")),
        ] {
            let pair = Pair::new(&text);
            let mut data = Data::default()
                .floats("X", &x)
                .floats("W", &w)
                .floats("Y", &vec![0.0; h * 56])
                .int("C", c as i64)
                .int("H", h as i64);
            for y in 0..h {
                data = data.int("y", y as i64);
                pair.run(&mut data);
            }
            close(&data.get("Y"), &want, 1e-5);
        }
    }
}
