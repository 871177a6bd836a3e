#!/usr/bin/env python3
"""What net.so promises its callers, checked from Python and C: check.py target/release/irc"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback

import numpy as np
import tvm_ffi

HERE = pathlib.Path(__file__).resolve().parent
IRC = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""


def write_weights(path):
    """A safetensors file with the one weight of net.ir."""
    data = (np.arange(12, dtype=np.float32) - 5).tobytes()
    header = json.dumps({"w": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def build(folder, *flags, env=None, output="net.so"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "net.ir", folder)
    write_weights(folder / "net.safetensors")
    subprocess.run([IRC, "build", "net.ir", "-o", output, *flags], cwd=folder, check=True, env=env)
    return folder / output


def refusal(call, *args):
    """The kind and the first line of what a call raises."""
    try:
        call(*args)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]
    return "nothing", "raised"


def x_and_y(n=8, m=5):
    rng = np.random.default_rng(n * 100 + m)
    return rng.normal(size=(n, 4)).astype(np.float32), rng.normal(size=(n, m)).astype(np.float32)


def answers(x, y):
    w = (np.arange(12, dtype=np.float32) - 5).reshape(4, 3)
    return np.maximum(x @ w, 0), y.sum(1)


def is_right(got, x, y):
    return all(np.allclose(np.from_dlpack(a), b, 1e-5, 1e-5) for a, b in zip(got, answers(x, y), strict=True))


class Checks:
    def __init__(self, folder):
        self.folder = folder
        self.so = build(folder / "net")
        self.net = tvm_ffi.load_module(str(self.so))

    def check_results_are_returned(self):
        for n, m in [(1, 1), (8, 5), (64, 300), (3, 0)]:
            x, y = x_and_y(n, m)
            assert is_right(self.net.main(x, y), x, y), (n, m)

    def check_results_are_written(self):
        x, y = x_and_y()
        a, b = np.zeros((8, 3), np.float32), np.zeros(8, np.float32)
        assert self.net.main(x, y, a, b) is None
        assert is_right((a, b), x, y)

    def check_prim_func(self):
        a, b = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
        assert self.net.double(a, b) is None
        assert (b == 2 * a).all()
        kind, text = refusal(self.net.double, a, b[:9])
        assert kind == "ValueError" and "`B.shape[0]` is 9, wanted is 10" in text, text

    def check_strings(self):
        names = [["you", ""], ["Zoë of the North", "x" * 300]]
        for _ in range(3):
            got = [[str(name) for name in row] for row in self.net.greet(names)]
            assert got == [["hello, " + name for name in row] for row in names], got
        assert len(self.net.greet([])) == 0
        for bad in ([["a", "b"], ["c"]], ["a"], [["a", 1]], "a", [[["a"]]]):
            kind, text = refusal(self.net.greet, bad)
            assert kind == "TypeError" and "argument 0 `name`" in text, (bad, kind, text)

    def check_maps(self):
        given = {"a": 1.5, "a longer key": 2}
        maps, total = self.net.zipped(given)
        assert [dict(map) for map in maps] == [given, {"a": 3.0, "a longer key": 4.0}]
        assert float(np.from_dlpack(total)) == 3.5
        maps, _ = self.net.zipped({})
        assert [dict(map) for map in maps] == [{}, {}]
        maps, _ = self.net.zipped(["a", "b"], np.array([1, 2], "float32"))
        assert dict(maps[1]) == {"a": 2.0, "b": 4.0}
        kind, text = refusal(self.net.zipped, {"a": "b"})
        assert (kind, text) == ("TypeError", "a map has a value of type 11, wanted is a number"), (kind, text)

    def check_bad_calls(self):
        x, y = x_and_y()
        main = self.net.main
        wanted = [
            ((x,), "TypeError", "1 arguments, wanted are 2 (x, y), or 4"),
            ((x, y, y), "TypeError", "3 arguments"),
            (("text", y), "TypeError", "argument 0 `x` is a str"),
            ((None, y), "TypeError", "argument 0 `x` is None"),
            ((x, 1.5), "TypeError", "argument 1 `y` is a float"),
            ((x.astype(np.float64), y), "TypeError", "argument 0 `x` has dtype float64"),
            ((x.astype(np.int32), y), "TypeError", "has dtype int32, wanted is Tensor((n, 4), \"float32\")"),
            ((x[0], y), "ValueError", "argument 0 `x` has 1 dims, wanted are 2"),
            ((x[:, :3].copy(), y), "ValueError", "`x.shape[1]` is 3, wanted is 4"),
            ((x, y[:7].copy()), "ValueError", "`y.shape[0]` is 7, wanted is 8: `n` is 8 by `x.shape[0]`"),
            ((x[:0], y[:0]), "ValueError", "`n` is 0, wanted is at least 1"),
            (x_and_y(65), "ValueError", "`n` is 65, wanted is at most 64"),
            ((x[::2], y[::2]), "ValueError", "argument 0 `x` is not compact: axis 0 has stride 8, wanted is 4"),
            ((x.T.copy().T, y), "ValueError", "argument 0 `x` is not compact"),
            ((x, y, np.zeros((8, 2), np.float32), np.zeros(8, np.float32)), "ValueError", "`out0.shape[1]` is 2"),
            ((x, y, np.zeros((8, 3), np.float64), np.zeros(8, np.float32)), "TypeError", "`out0` has dtype float64"),
        ]
        for args, kind, text in wanted:
            got = refusal(main, *args)
            assert got[0] == kind and text in got[1], f"{got}, wanted {kind}: {text}"
        assert is_right(main(x, y), x, y), "a good call after bad ones"

    def check_bad_index(self):
        x = x_and_y()[0]
        at = np.array([0, -1, 7], np.int64)
        assert (np.from_dlpack(self.net.rows(x, at)) == x[at]).all()
        kind, _ = refusal(self.net.rows, x, np.array([8], np.int64))
        assert kind == "IndexError", kind

    def check_threads(self):
        wrong = []

        def work(n):
            x, y = x_and_y(n, 3 * n)
            for _ in range(500):
                if not is_right(self.net.main(x, y), x, y):
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(n,)) for n in (1, 7, 20, 64)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong, wrong

    def check_results_do_not_depend_on_the_number_of_threads(self):
        code = (
            "import sys, numpy as np, tvm_ffi; sys.path.insert(0, sys.argv[2]); import check;"
            "r = tvm_ffi.load_module(sys.argv[1]).main(*check.x_and_y(64, 999));"
            "print([np.from_dlpack(t).tobytes().hex() for t in r])"
        )
        outputs = {
            subprocess.run(
                [sys.executable, "-c", code, str(self.so), str(HERE)],
                env={**os.environ, "IRC_NUM_THREADS": n}, capture_output=True, text=True, check=True,
            ).stdout
            for n in ("1", "2", "5")
        }
        assert len(outputs) == 1

    def check_fork(self):
        x, y = x_and_y(64, 100)
        child = os.fork()
        if child == 0:
            os._exit(0 if is_right(self.net.main(x, y), x, y) else 1)
        assert os.waitpid(child, 0)[1] == 0

    def check_manifest(self):
        manifest = json.loads(self.net.irc_manifest())
        main = manifest["functions"]["main"]
        assert [slot["shape"] for slot in main["inputs"]] == [["n", 4], ["n", "m"]]
        assert [slot["shape"] for slot in main["outputs"]] == [["n", 3], ["n"]]
        assert main["dims"]["n"]["max"] == 64
        assert "workspace" in main and manifest["kernels"]["regions"] >= 0
        info = subprocess.run([IRC, "info", "--json", self.so], capture_output=True, text=True, check=True)
        assert json.loads(info.stdout) == manifest

    def check_same_bytes_in_any_folder(self):
        first = self.so.read_bytes()
        for name, env in [("elsewhere/deep", {}), ("again", {"HOME": "/", "TZ": "Asia/Tokyo"})]:
            other = build(self.folder / name, env={**os.environ, **env})
            assert other.read_bytes() == first, name
            assert other.with_suffix(".h").read_bytes() == self.so.with_suffix(".h").read_bytes()

    def check_sidecar_weights(self):
        so = build(self.folder / "sidecar", "--weights", "sidecar")
        params = so.with_suffix(".params")
        x, y = x_and_y()
        assert is_right(tvm_ffi.load_module(str(so)).main(x, y), x, y)
        lost = self.folder / "lost" / "net.so"
        lost.parent.mkdir()
        shutil.copy(so, lost)
        net = tvm_ffi.load_module(str(lost))
        kind, text = refusal(net.main, x, y)
        assert kind == "RuntimeError" and "net.params" in text, text
        net.load_params(str(params))
        assert is_right(net.main(x, y), x, y)
        kind, text = refusal(net.load_params, str(HERE / "net.ir"))
        assert kind == "ValueError" and "net.ir" in text, text

    def check_objects_are_whole(self):
        """Another linker makes a library of `--emit obj`, weights included."""
        net = build(self.folder / "object", "--emit", "obj").rename(self.folder / "object" / "net.o")
        linked = net.with_name("linked.so")
        subprocess.run(["cc", "-shared", net.name, "-o", linked.name, "-lm"], cwd=net.parent, check=True)
        x, y = x_and_y()
        assert is_right(tvm_ffi.load_module(str(linked)).main(x, y), x, y)

    def check_no_library_is_needed(self):
        with open("/proc/self/maps") as maps:
            assert str(self.so) in maps.read()
        code = f"import ctypes; ctypes.CDLL({str(self.so)!r}).net_manifest"
        subprocess.run([sys.executable, "-c", code], check=True)

    def check_program_inside(self):
        folder = self.so.parent
        subprocess.run([IRC, "print", "net.so", "-o", "printed.ir"], cwd=folder, check=True)
        assert "def main(" in (folder / "printed.ir").read_text()
        subprocess.run([IRC, "build", "printed.ir", "-o", "printed.so"], cwd=folder, check=True)
        assert (folder / "printed.so").read_bytes() == self.so.read_bytes()

    def check_calls_from_c(self):
        cc = os.environ.get("CC", "cc")
        out = self.folder / "calls"
        flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-std=c11", f"-I{self.so.parent}", "-pthread"]
        subprocess.run([cc, *flags, str(HERE / "calls.c"), str(self.so), f"-Wl,-rpath,{self.so.parent}", "-o", out], check=True)
        for n in ("1", "4"):
            run = subprocess.run([out], env={**os.environ, "IRC_NUM_THREADS": n}, capture_output=True, text=True)
            assert run.returncode == 0, run.stdout
        assert re.search(r"^[1-9]\d+ passed, 0 failed", run.stdout), run.stdout

    def check_calls_on_aarch64(self):
        cc, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
        if not (cc and emulator):
            print("aarch64: aarch64-linux-gnu-gcc or qemu-aarch64 is not there")
            return
        folder = self.folder / "aarch64"
        obj = build(folder, "--emit", "obj,h", "--cpu", "aarch64", output="net.o")
        library, calls = folder / "libnet.so", folder / "calls"
        subprocess.run([cc, "-shared", obj, "-o", library, "-lm", "-pthread"], check=True)
        flags = ["-O1", f"-I{folder}", f"-Wl,-rpath,{folder}", "-pthread"]
        subprocess.run([cc, *flags, HERE / "calls.c", library, "-o", calls], check=True)
        for n in ("1", "4"):
            command = [emulator, "-L", "/usr/aarch64-linux-gnu", calls]
            run = subprocess.run(command, env={**os.environ, "IRC_NUM_THREADS": n}, capture_output=True, text=True)
            assert run.returncode == 0, run.stdout + run.stderr
            assert re.search(r"^[1-9]\d+ passed, 0 failed", run.stdout), run.stdout

    def check_unloading(self):
        x, y = x_and_y(64, 100)
        handle = ctypes.CDLL(None)
        handle.dlopen.restype = ctypes.c_void_p
        handle.dlclose.argtypes = [ctypes.c_void_p]
        copy = self.folder / "unloaded.so"
        shutil.copy(self.so, copy)
        for _ in range(20):
            library = handle.dlopen(str(copy).encode(), 2)
            assert library and handle.dlclose(library) == 0


def main():
    n_passed = n_failed = 0
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(pathlib.Path(folder))
        for name in [name for name in dir(Checks) if name.startswith("check_")]:
            try:
                getattr(checks, name)()
                n_passed += 1
            except Exception:
                n_failed += 1
                print(f"FAILED: {name}")
                traceback.print_exc()
    print(f"{n_passed} passed, {n_failed} failed")
    sys.exit(n_failed != 0)


if __name__ == "__main__":
    main()
