//! Tests of what has no text: bits of conversions, and files.

use irc_syntax::DType;
use irc_syntax::ast::Expr;

use super::*;

#[test]
fn minifloats_read_back() {
    for dtype in [
        DType::F4E2M1,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
        DType::F8E8M0,
    ] {
        let n = if dtype == DType::F4E2M1 { 16 } else { 256 };
        let codes: Vec<u8> = (0..n).map(|code| code as u8).collect();
        let tensor = Tensor::new(dtype, vec![n], codes.clone()).expect("fits");
        let wide = tensor.cast(DType::F32).expect("numbers");
        let back = wide.cast(dtype).expect("numbers");
        for (at, value) in wide.to_f64s().into_iter().enumerate() {
            if !value.is_nan() {
                assert_eq!(back.data[at], codes[at], "{dtype} code {at} = {value}");
            }
        }
    }
    let one = |dtype, value| {
        Tensor::from_f64s(dtype, vec![], &[value])
            .expect("fits")
            .to_f64s()[0]
    };
    assert_eq!(one(DType::F8E4M3FN, 448.0), 448.0);
    assert!(one(DType::F8E4M3FN, 500.0).is_nan());
    assert_eq!(one(DType::F8E5M2, 1e9), f64::INFINITY);
    assert_eq!(one(DType::F4E2M1, -9.0), -6.0);
    assert_eq!(one(DType::F8E8M0, 3.0), 4.0);
}

#[test]
fn casts_wrap_and_truncate() {
    let floats = Tensor::from_vec(vec![4], &[-1.7f32, 300.0, f32::NAN, 0.5]).expect("fits");
    assert_eq!(
        floats.cast(DType::I32).expect("numbers").to_i64s(),
        [-1, 300, 0, 0]
    );
    assert_eq!(
        floats.cast(DType::U8).expect("numbers").to_i64s(),
        [255, 44, 0, 0]
    );
    assert_eq!(
        floats.cast(DType::Bool).expect("numbers").to_i64s(),
        [1, 1, 1, 1]
    );
    let ints = Tensor::from_vec(vec![3], &[-9i64, 7, 8]).expect("fits");
    assert_eq!(ints.cast(DType::I4).expect("numbers").to_i64s(), [7, 7, -8]);
    let big = Tensor::scalar(u64::MAX);
    assert_eq!(
        big.cast(DType::F64).expect("numbers").to_f64s(),
        [18446744073709551615.0]
    );
    assert_eq!(
        Tensor::scalar(-3i8)
            .cast(DType::Str)
            .expect("text")
            .strings
            .expect("text")[0],
        "-3"
    );
}

#[test]
fn constants_read_back() {
    let tensors = [
        Tensor::from_vec(vec![2, 2], &[0.1f32, -0.0, 1e-40, f32::INFINITY]).expect("fits"),
        Tensor::from_vec(vec![3], &[1u64, u64::MAX, 0]).expect("fits"),
        Tensor::scalar(half::f16::from_f32(0.1)),
        Tensor::scalar(true),
        Tensor::zeros(DType::F32, vec![2, 0]).expect("fits"),
        Tensor::from_strings(vec![2], vec!["a".to_owned(), "inf".to_owned()]).expect("fits"),
    ];
    for tensor in tensors {
        let expr = print_const(&tensor);
        let (_, args) = expr.as_call().expect("a call");
        assert_eq!(parse_const(args).expect("reads back"), tensor);
    }
    let expr = print_const(&Tensor::scalar(0.1f32));
    let (_, args) = expr.as_call().expect("a call");
    assert_eq!(args[0].value, Expr::float(0.1));
}

#[test]
fn files_read_back() {
    let dir = std::env::temp_dir().join(format!("irc-tensor-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temporary folder");
    let path = dir.join("w.safetensors");
    let mut weights = Weights::new();
    weights.insert("b", Tensor::from_vec(vec![3], &[1u8, 2, 3]).expect("fits"));
    weights.insert(
        "a",
        Tensor::from_vec(vec![2, 2], &[1f32, 2.0, 3.0, 4.0]).expect("fits"),
    );
    weights.insert(
        "q",
        Tensor::from_i64s(DType::I4, vec![2], &[-8, 7]).expect("fits"),
    );
    let mut file = Vec::new();
    let hash = weights.write(&mut file).expect("memory takes it");
    std::fs::write(&path, &file).expect("written");
    assert_eq!(hash, sha256_file(&path).expect("readable"));
    let read = Weights::read(&path).expect("sound");
    assert_eq!(
        read.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        ["a", "b", "q"]
    );
    for (name, weight) in weights.iter() {
        assert_eq!(read.get(name).expect("there").tensor(), weight.tensor());
    }
    let bytes = std::fs::read(&path).expect("readable");
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
    assert!(Weights::read(&path).is_err());
    std::fs::remove_dir_all(&dir).expect("removed");

    let tensor = Tensor::from_vec(vec![2, 3], &[1i16, 2, 3, 4, 5, 6]).expect("fits");
    assert_eq!(
        parse_npy(&print_npy(&tensor).expect("printed")).expect("read"),
        tensor
    );
}

#[test]
fn archives_read_back() {
    let a = Tensor::from_vec(vec![2, 2], &[1.0f32, 2.0, 3.0, 4.0]).expect("fits");
    let b = Tensor::scalar(7i64);
    let bytes = print_npz([("a", &a), ("b/c", &b)]).expect("numbers");
    let read = parse_npz(&bytes).expect("sound");
    assert_eq!(read, [("a".to_owned(), a.clone()), ("b/c".to_owned(), b)]);
    for end in 0..bytes.len() {
        assert!(parse_npz(&bytes[..end]).is_err());
    }
    let text = Tensor::from_strings(vec![1], vec!["x".to_owned()]).expect("fits");
    assert!(print_npz([("t", &text)]).is_err());
}

#[test]
fn deflated_streams_come_out() {
    let stored = [
        1, 13, 0, 242, 255, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 98, 98, 98,
    ];
    let fixed = [75, 76, 132, 129, 164, 164, 36, 0];
    assert_eq!(
        inflate::inflate(&stored, 13).as_deref(),
        Some(&b"aaaaaaaaaabbb"[..])
    );
    assert_eq!(
        inflate::inflate(&fixed, 13).as_deref(),
        Some(&b"aaaaaaaaaabbb"[..])
    );
    assert_eq!(inflate::inflate(&fixed, 12), None);
    // A block with codes of its own.
    let coded = [
        237, 144, 193, 17, 195, 32, 12, 192, 102, 51, 198, 14, 96, 99, 2, 142, 201, 254, 155, 52,
        189, 235, 0, 125, 246, 81, 13, 160, 211, 9, 0, 18, 102, 46, 77, 199, 138, 196, 205, 28, 88,
        23, 28, 22, 212, 131, 237, 174, 139, 70, 210, 91, 182, 220, 10, 150, 103, 217, 61, 187,
        160, 43, 197, 168, 24, 167, 112, 138, 105, 82, 8, 97, 199, 229, 235, 193, 175, 216, 128,
        84, 196, 230, 99, 148, 51, 176, 142, 32, 117, 20, 207, 125, 151, 153, 13, 62, 194, 52, 104,
        213, 219, 56, 58, 133, 29, 176, 148, 193, 173, 61, 198, 53, 180, 21, 206, 152, 224, 205,
        207, 4, 254, 95, 125, 29, 248, 2,
    ];
    let plain: Vec<u8> = (0..600usize)
        .map(|i| (((i % 300) * (i % 300) / 7) % 23) as u8 + 65)
        .collect();
    assert_eq!(inflate::inflate(&coded, 600), Some(plain));
    for end in 0..coded.len() {
        assert_eq!(inflate::inflate(&coded[..end], 600), None);
    }
}
