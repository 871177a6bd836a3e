#!/usr/bin/env python3
"""Whether `irc opt` leaves models what they are, and how many operators it leaves them.

    python tests/passes/run.py --irc target/release/irc MODELS [--only NAME …] [--table tests/passes/README.md]

MODELS is a folder of folders as in ONNX's model tests: NAME/model.onnx and NAME/test_data_set_0/input_0.pb …. For each,

* `irc opt -O3 --verify --check-values` succeeds: every pass keeps what it promises, and the interpreter's answers;
* its text reads back as the same bytes, and is left alone by another `irc opt -O3`;
* `irc export` of it passes onnx.checker, has the inputs and outputs of the model, and ONNX Runtime gives the answers that
  it gives for the model.

Operators are counted in what `irc opt -O2` and `irc export` make of a model, with those in branches, loops and functions, and
beside it in what onnxsim makes of it, where onnxsim is installed. The last line is "N passed, M failed".
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

BEGIN, END = "<!-- table -->", "<!-- end of table -->"
# Each answer may be this far from the original's, of the largest; or this many times as far as ONNX Runtime's own answers
# with and without its optimizations are apart.
TOLERANCE = 2e-3
SPREAD = 2


def count(graph):
    """Nodes of a graph or function, those of the graphs in it included."""
    total = len(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
            total += sum(count(graph) for graph in inner)
    return total


def count_model(model):
    return count(model.graph) + sum(count(function) for function in model.functions)


def count_onnxsim(path):
    try:
        import onnxsim
    except ImportError:
        return None
    try:
        return count_model(onnxsim.simplify(str(path))[0])
    except Exception:
        return None


def inputs_of(case, session):
    files = sorted((case / "test_data_set_0").glob("input_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    tensors = [onnx.load_tensor(str(file)) for file in files]
    names = [value.name for value in session.get_inputs()]
    return {name: numpy_helper.to_array(tensor) for name, tensor in zip(names, tensors)}


def open_model(path, optimized=True):
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(found, wanted):
    """How far two answers are apart, of the largest number; infinite where they are no alike arrays."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return np.inf
    if found.size == 0:
        return 0.0
    if wanted.dtype.kind in "OUS":
        return 0.0 if (found == wanted).all() else np.inf
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    if not (np.isnan(found) == np.isnan(wanted)).all():
        return np.inf
    return float(np.nanmax(np.abs(found - wanted)) / max(np.nanmax(np.abs(wanted)), 1e-6))


def irc(args, *command):
    return subprocess.run([args.irc, *command], check=True, capture_output=True, text=True)


def export(args, text, folder):
    target = folder / "net.onnx"
    irc(args, "export", text, "-o", target, "--external-data")
    return target


def judge(args, case, folder):
    """What is wrong with the passes on a model, or nothing, and the two counts of operators."""
    model = case / "model.onnx"
    small, again = folder / "small.ir", folder / "again.ir"
    irc(args, "opt", "-O2", model, "-o", small)
    mine = count_model(onnx.load(export(args, small, folder), load_external_data=False))
    irc(args, "opt", "-O3", "--verify", "--check-values", model, "-o", small)
    if irc(args, "print", small).stdout != small.read_text():
        return "the text reads back as another", mine
    irc(args, "opt", "-O3", small, "-o", again)
    if again.read_text().replace("again.safetensors", "small.safetensors") != small.read_text():
        return "a second time changes it", mine
    exported = export(args, small, folder)
    onnx.checker.check_model(str(exported))
    was, now = open_model(model), open_model(exported)
    inputs = inputs_of(case, was)
    for ours, theirs in ((now.get_inputs(), was.get_inputs()), (now.get_outputs(), was.get_outputs())):
        if [value.name for value in ours] != [value.name for value in theirs]:
            return f"the names are {[value.name for value in ours]}", mine
    plain, wanted = open_model(model, optimized=False).run(None, inputs), was.run(None, inputs)
    apart = max(map(difference, now.run(None, inputs), wanted))
    bound = max(TOLERANCE, SPREAD * max(map(difference, plain, wanted)))
    return ("" if apart <= bound else f"the answers are {apart:.1e} apart"), mine


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--irc", required=True)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--table", type=pathlib.Path)
    args = parser.parse_args()
    cases = sorted(path.parent for path in args.models.glob("*/model.onnx"))
    cases = [case for case in cases if not args.only or case.name in args.only]
    rows, failed, larger = [], 0, 0
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                fault, mine = judge(args, case, pathlib.Path(folder))
            except subprocess.CalledProcessError as error:
                fault, mine = f"irc {error.cmd[1]}: {error.stderr.strip()[:2000]}", None
            except Exception as error:
                fault, mine = f"{type(error).__name__}: {error}", None
        original = count_model(onnx.load(case / "model.onnx", load_external_data=False))
        theirs = count_onnxsim(case / "model.onnx")
        rows.append((case.name, original, theirs, mine))
        failed += bool(fault)
        larger += mine is not None and theirs is not None and mine > theirs
        print(f"{case.name}: {original} operators, onnxsim {theirs}, irc {mine}{': ' + fault if fault else ''}", flush=True)
    if args.table:
        lines = ["| model | operators | onnxsim | irc |", "|---|---:|---:|---:|"]
        lines += [f"| {' | '.join('-' if cell is None else str(cell) for cell in row)} |" for row in rows]
        head, rest = args.table.read_text().split(BEGIN)
        args.table.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}")
    print(f"{larger} models have more operators than onnxsim leaves")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
