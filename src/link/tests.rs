//! The linker against `cc -shared`: the same object, loaded both ways, answers the same.
#![allow(unsafe_code)] // Loads the libraries it made.

use std::process::Command;

use irc_syntax::DType;

use super::*;

const SOURCE: &str = r#"
#include <math.h>
#include <stdlib.h>
#include <string.h>
extern void not_there(void) __attribute__((weak));
extern const float *irc_weights[];
static const char *names[] = {"zero", "one", "two"};
static int calls;
static int started = 0;
__attribute__((constructor)) static void start(void) { started = 41; }
int counter = 7;
const char *name_of(int i) { return names[i]; }
int count(void) { return ++calls + counter; }
int has_weak(void) { return not_there != 0; }
int has_started(void) { return started; }
double root(double x) { return exp(log(x) / 2); }
float weight(int i, int j) { return irc_weights[i][j]; }
int copy(int n) { char *p = malloc(n); memset(p, 3, n); int s = p[0] + p[n - 1]; free(p); return s; }
static int twice(int x) { return 2 * x; }
int (*table[])(int) = {twice, abs};
int call(int i, int x) { return table[i](x); }
"#;

/// The object of `SOURCE`, in a folder of its own.
fn object(dir: &std::path::Path) -> Vec<u8> {
    std::fs::create_dir_all(dir).expect("the folder for tests is writable");
    let (c, o) = (dir.join("a.c"), dir.join("a.o"));
    std::fs::write(&c, SOURCE).expect("writable");
    let done = Command::new("cc")
        .args(["-O1", "-fPIC", "-g", "-fno-stack-protector", "-c", "-o"])
        .arg(&o)
        .arg(&c)
        .status();
    assert!(done.expect("cc runs").success());
    std::fs::read(&o).expect("cc wrote it")
}

#[test]
fn links_what_cc_links() {
    let dir = std::env::temp_dir().join(format!("irc-link-{}", std::process::id()));
    let object = object(&dir);
    let weights: Vec<Weight> = (1..4)
        .map(|n| {
            let data: Vec<u8> = (0..n * 5)
                .flat_map(|i| (i as f32 + n as f32 / 4.0).to_le_bytes())
                .collect();
            crate::tensor::Tensor::new(DType::F32, vec![n * 5], data)
                .expect("sizes fit")
                .into()
        })
        .collect();
    let names: Vec<String> = ["a", "b", "c"].map(String::from).into();
    let parts = Parts {
        object: &object,
        weights: &weights,
        names: &names,
        place: WeightPlace::Embedded,
        program: "the text",
    };
    let mut bytes = Vec::new();
    write_shared(&parts, &mut bytes).expect("links");
    assert_eq!(read_program(&bytes).as_deref(), Some("the text"));
    let mut again = Vec::new();
    write_shared(&parts, &mut again).expect("links");
    assert!(bytes == again, "the same input gives the same bytes");
    let path = dir.join("a.so");
    std::fs::write(&path, &bytes).expect("writable");
    // SAFETY: the signatures are those of `SOURCE`.
    unsafe {
        let library = libloading::Library::new(&path).expect("loads");
        let int = |name: &[u8]| {
            *library
                .get::<extern "C" fn() -> i32>(name)
                .expect("exported")
        };
        assert_eq!(
            (
                int(b"count")(),
                int(b"count")(),
                int(b"has_weak")(),
                int(b"has_started")()
            ),
            (8, 9, 0, 41)
        );
        let root = library
            .get::<extern "C" fn(f64) -> f64>(b"root")
            .expect("exported");
        assert!((root(9.0) - 3.0).abs() < 1e-12);
        let weight = library
            .get::<extern "C" fn(i32, i32) -> f32>(b"weight")
            .expect("exported");
        assert_eq!((weight(0, 4), weight(2, 7)), (4.25, 7.75));
        let copy = library
            .get::<extern "C" fn(i32) -> i32>(b"copy")
            .expect("exported");
        assert_eq!(copy(1000), 6);
        let call = library
            .get::<extern "C" fn(i32, i32) -> i32>(b"call")
            .expect("exported");
        assert_eq!((call(0, -3), call(1, -3)), (-6, 3));
        assert!(library.get::<extern "C" fn()>(b"twice").is_err());
    }
    if std::env::var_os("KEEP").is_none() {
        std::fs::remove_dir_all(&dir).expect("removable");
    }
}
