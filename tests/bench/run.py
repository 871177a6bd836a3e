#!/usr/bin/env python3
"""How long irc, ONNX Runtime and OpenVINO take for the same models, measured in one run.

    python tests/bench/run.py --irc target/release/irc MODELS [--only NAME …] [--threads 1,2] [--rounds 7]
                              [--table tests/bench/README.md] [--json FILE]

MODELS is a folder of folders as in ONNX's model tests: NAME/model.onnx and NAME/test_data_set_0/input_0.pb ….

Every pair of a peer and a number of threads lives in a process of its own, and all pairs of a model are timed in turn, round
after round, so that a ratio holds while the machine's speed drifts. A round is about 0.2 s of calls with warm caches; its
figure is the median call, and a pair's figure the median of its rounds.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PEERS = ("irc", "ort", "openvino")
MODULES = {"irc": "tvm_ffi", "ort": "onnxruntime", "openvino": "openvino"}
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def read_inputs(case):
    import numpy as np
    import onnx
    from onnx import numpy_helper

    def place(path):
        return int(path.stem.split("_")[1])

    files = sorted((case / "test_data_set_0").glob("input_*.pb"), key=place)
    tensors = [onnx.load_tensor(str(file)) for file in files]
    return {tensor.name: np.require(numpy_helper.to_array(tensor), requirements=["C", "W"]) for tensor in tensors}


def open_irc(library, n_threads, inputs):
    import tvm_ffi
    main = tvm_ffi.load_module(library).main
    arguments = [tvm_ffi.from_dlpack(value) for value in inputs.values()]
    return lambda: main(*arguments)


def open_ort(model, n_threads, inputs):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = n_threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def open_openvino(model, n_threads, inputs):
    import openvino
    settings = {
        "INFERENCE_NUM_THREADS": n_threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
    }
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    values = [inputs[next(name for name in port.get_names() if name in inputs)] for port in compiled.inputs]
    return lambda: request.infer(values, share_inputs=True, share_outputs=True)


OPEN = {"irc": open_irc, "ort": open_ort, "openvino": open_openvino}


def resident(key):
    """A figure of this process in MB."""
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return math.nan


def work(peer, case, artefact, n_threads, seconds):
    """The process of one pair: a line of JSON for the first answer, one for each `round`, one at the end."""
    case = pathlib.Path(case)
    inputs = read_inputs(case)
    __import__(MODULES[peer])
    before = resident("VmRSS")
    start = time.perf_counter()
    call = OPEN[peer](artefact, int(n_threads), inputs)
    call()
    print(json.dumps({"cold": (time.perf_counter() - start) * 1e3}), flush=True)
    call()
    for line in sys.stdin:
        if line.strip() != "round":
            break
        times, end = [], time.perf_counter() + float(seconds)
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        print(json.dumps({"ms": statistics.median(times) * 1e3}), flush=True)
    print(json.dumps({"rss": resident("VmHWM") - before}), flush=True)


class Pair:
    """A peer at a number of threads, and the process that calls it."""

    def __init__(self, peer, case, artefact, n_threads, seconds):
        self.rounds = []
        self.figures = {}
        environment = dict(os.environ, OMP_NUM_THREADS=str(n_threads), IRC_NUM_THREADS=str(n_threads))
        command = [sys.executable, __file__, "--work", peer, str(case), artefact, str(n_threads), str(seconds)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        self.take()

    def take(self):
        """What the process says next; nothing when it has failed."""
        try:
            answer = json.loads(self.process.stdout.readline())
        except (OSError, json.JSONDecodeError):
            answer = {}
        self.figures.update(answer)
        return answer

    def ask(self, order):
        try:
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
        except OSError:
            return {}
        return self.take()

    def round(self):
        if "cold" in self.figures:
            self.rounds.append(self.ask("round").get("ms", math.inf))

    def end(self):
        if self.rounds and math.isfinite(max(self.rounds)):
            self.ask("end")
            self.figures["ms"] = statistics.median(self.rounds)
        else:
            self.figures = {}
        self.process.kill()
        self.process.wait()
        return self.figures


def build(irc, case, library):
    start = time.perf_counter()
    status = subprocess.run([irc, "build", str(case / "model.onnx"), "-o", library], capture_output=True, text=True)
    if status.returncode != 0:
        reason = status.stderr.strip().splitlines()
        print(f"{case.name}: irc build: {reason[0] if reason else status.returncode}", file=sys.stderr)
        return {}
    size = sum(path.stat().st_size for path in pathlib.Path(library).parent.iterdir())
    return {"build_s": time.perf_counter() - start, "so_mb": size / 1e6}


def measure(args, case):
    """The figures of a model: of its build, and of every pair."""
    with tempfile.TemporaryDirectory() as scratch:
        library = f"{scratch}/net.so"
        result = {"model": case.name, "build": build(args.irc, case, library), "pairs": {}}
        peers = [peer for peer in PEERS if peer != "irc" or result["build"]]
        pairs = {}
        for n_threads in args.threads:
            for peer in peers:
                artefact = library if peer == "irc" else str(case / "model.onnx")
                pairs[peer, n_threads] = Pair(peer, case, artefact, n_threads, args.seconds)
        for _ in range(args.rounds):
            for pair in pairs.values():
                pair.round()
        for (peer, n_threads), pair in pairs.items():
            result["pairs"][f"{peer}/{n_threads}"] = pair.end()
    return result


def ratio_of(result, n_threads):
    """The best peer's time over irc's; none where either is missing."""
    ms = {peer: result["pairs"].get(f"{peer}/{n_threads}", {}).get("ms") for peer in PEERS}
    others = [time for peer, time in ms.items() if peer != "irc" and time]
    return min(others) / ms["irc"] if others and ms["irc"] else None


def show(value, digits=3):
    """Three digits that count."""
    if value is None or not math.isfinite(value):
        return "–"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, digits - whole)}f}"


def summary(results, n_threads):
    ratios = [ratio for ratio in (ratio_of(result, n_threads) for result in results) if ratio]
    if not ratios:
        return f"{n_threads} thread(s): no model runs on irc and a peer."
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{n_threads} thread(s), {len(ratios)} models: geometric mean of ratios {mean:.2f}, lowest {min(ratios):.2f}."


def notes_in(text):
    """The hand-written last column of a table that is there already, by model and threads."""
    notes = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 16 and cells[1].isdigit():
            notes[cells[0], cells[1]] = cells[-1]
    return notes


def table(results, threads, notes):
    heads = ["model", "threads"]
    heads += [f"{peer} {what}" for what in ("ms", "cold ms", "rss MB") for peer in ("irc", "ORT", "OV")]
    heads += ["build s", ".so MB", "rss of ORT's", "ratio", "what limits it"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for result in results:
        for n_threads in threads:
            of = {peer: result["pairs"].get(f"{peer}/{n_threads}", {}) for peer in PEERS}
            cells = [result["model"], str(n_threads)]
            cells += [show(of[peer].get(key)) for key in ("ms", "cold", "rss") for peer in PEERS]
            cells += [show(result["build"].get(key)) for key in ("build_s", "so_mb")]
            rss = [of[peer].get("rss") for peer in ("irc", "ort")]
            cells.append(show(rss[0] / rss[1], 2) if all(rss) else "–")
            cells.append(show(ratio_of(result, n_threads)))
            cells.append(notes.get((result["model"], str(n_threads)), ""))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def machine():
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    from importlib.metadata import version
    peers = ", ".join(f"{package} {version(package)}" for package in ("onnxruntime", "openvino"))
    return f"{name}, {os.cpu_count()} logical cores; {peers}."


def write_table(path, results, threads):
    text = path.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    sums = "\n".join(f"- {summary(results, n_threads)}" for n_threads in threads)
    new = f"{machine()}\n\n{sums}\n\n{table(results, threads, notes_in(old))}"
    path.write_text(f"{before}{BEGIN}\n{new}\n{END}{after}")


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--work":
        return work(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path, metavar="MODELS")
    parser.add_argument("--irc", default="target/release/irc", metavar="FILE")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--threads", default="1,2", metavar="N,…")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a round")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="write the table into this page")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures")
    args = parser.parse_args()
    args.irc = str(pathlib.Path(args.irc).resolve())
    args.threads = [int(text) for text in args.threads.split(",")]
    results = []
    for case in sorted(path.resolve() for path in args.models.iterdir() if (path / "model.onnx").exists()):
        if args.only and case.name not in args.only:
            continue
        result = measure(args, case)
        results.append(result)
        for n_threads in args.threads:
            times = [f"{peer} {show(result['pairs'].get(f'{peer}/{n_threads}', {}).get('ms'))}" for peer in PEERS]
            ratio = show(ratio_of(result, n_threads))
            print(f"{case.name:28} {n_threads}T  {'  '.join(times)} ms  ratio {ratio}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n")
    for n_threads in args.threads:
        print(summary(results, n_threads))
    if args.table:
        write_table(args.table, results, args.threads)


if __name__ == "__main__":
    main()
