"""Exports every case of ONNX's backend suite, and asks ONNX Runtime whether it still answers right.

    python tests/export/run.py --irc target/release/irc target/suite [--filter REGEX] [--text]

A case counts where ONNX Runtime gives the recorded answers for the file as it is. It passes where `irc export` writes a file
that onnx.checker accepts and ONNX Runtime answers right. With `--text` the case goes through `irc import` to a text first.
The last line is "N passed, M failed"; exit code 1 where a case failed. Needs the packages of tests/bench/requirements.txt.
"""

import argparse
import multiprocessing
import os
import queue
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

SECONDS = 60


def read(path, value):
    """The value of a file of test data, of the type that a graph's input or output has."""
    data = path.read_bytes()
    kind = value.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def number(path):
    return int(path.stem.rsplit("_", 1)[1])


def files(folder, what):
    return sorted(folder.glob(f"{what}_*.pb"), key=number)


def answers(model, inputs):
    """What ONNX Runtime answers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    given = {name: inputs[name] for name in names if inputs.get(name) is not None}
    return session.run(None, given)


def agree(found, wanted):
    if wanted is None or found is None:
        return found is wanted
    if isinstance(wanted, list):
        pairs = isinstance(found, list) and len(found) == len(wanted)
        return pairs and all(agree(a, b) for a, b in zip(found, wanted))
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OUS":
        text = [v.decode() if isinstance(v, bytes) else str(v) for v in wanted.ravel()]
        return [str(v) for v in found.ravel()] == text
    if found.dtype.itemsize != wanted.dtype.itemsize:
        return False
    wide = [array.astype(np.float64) for array in (found, wanted)]
    return np.allclose(*wide, rtol=1e-3, atol=1e-5, equal_nan=True)


def export(irc, source, folder, text):
    """The exported file."""
    if text:
        written = folder / "net.ir"
        subprocess.run([irc, "import", source, "-o", written], check=True, capture_output=True, timeout=SECONDS)
        source = written
    target = folder / "net.onnx"
    subprocess.run([irc, "export", source, "-o", target], check=True, capture_output=True, timeout=SECONDS)
    return target


def judge(irc, case, text):
    """`None` where ONNX Runtime does not pass the case, else what went wrong, or nothing."""
    model = onnx.load(case / "model.onnx")
    sets = []
    for folder in sorted(case.glob("test_data_set_*")):
        inputs = {v.name: read(f, v) for f, v in zip(files(folder, "input"), model.graph.input)}
        outputs = [read(f, v) for f, v in zip(files(folder, "output"), model.graph.output)]
        try:
            found = answers(str(case / "model.onnx"), inputs)
        except Exception:
            return None
        if not sets and not outputs or not all(agree(a, b) for a, b in zip(found, outputs)):
            return None
        sets.append((inputs, outputs))
    with tempfile.TemporaryDirectory() as folder:
        try:
            target = export(irc, case / "model.onnx", Path(folder), text)
            onnx.checker.check_model(onnx.load(target))
            for inputs, outputs in sets:
                found = answers(str(target), inputs)
                if not all(agree(a, b) for a, b in zip(found, outputs)):
                    return "the answers differ"
        except subprocess.CalledProcessError as error:
            return error.stderr.decode().strip()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


def work(irc, text, cases, results):
    """Judges cases one by one; a process of its own, since a runtime may crash."""
    while True:
        case = cases.get()
        if case is None:
            return
        try:
            results.put(judge(irc, case, text))
        except Exception as error:
            results.put(f"{type(error).__name__}: {error}")


def start(irc, text):
    cases, results = multiprocessing.Queue(), multiprocessing.Queue()
    worker = multiprocessing.Process(target=work, args=(irc, text, cases, results), daemon=True)
    worker.start()
    return worker, cases, results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("--irc", required=True)
    parser.add_argument("--filter", default="")
    parser.add_argument("--text", action="store_true")
    args = parser.parse_args()
    found = sorted(path.parent for path in args.suite.glob("*/*/model.onnx"))
    found = [case for case in found if re.search(args.filter, case.name)]
    passed, failed, skipped = 0, 0, 0
    worker, cases, results = start(args.irc, args.text)
    for case in found:
        cases.put(case)
        fault = "no answer"
        for _ in range(4 * SECONDS):
            try:
                fault = results.get(timeout=1)
                break
            except queue.Empty:
                if not worker.is_alive():
                    fault = "the process ended"
                    break
        if fault in ("no answer", "the process ended"):
            worker.kill()
            worker, cases, results = start(args.irc, args.text)
        if fault is None:
            skipped += 1
        elif fault:
            failed += 1
            print(f"{case.name}: {fault.splitlines()[0][:300]}")
        else:
            passed += 1
    print(f"{skipped} cases that ONNX Runtime does not pass itself")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
