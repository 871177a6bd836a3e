#!/usr/bin/env python3
"""What loading a library and its first answer take beyond a warm call and reading the weights.

    python tests/bench/first.py --irc target/release/irc MODELS [--only NAME …] [--times 5]

MODELS is a folder as for run.py. One process at a time, one thread, the files in the page cache. Time is that of the
processor, so that others on the machine count little; a figure is the least of several processes.
"""
import argparse
import mmap
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import run


def read_all(path):
    """Maps a file and reads a byte of every page: what reading the weights takes at least."""
    import numpy
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        start = time.process_time()
        numpy.frombuffer(pages, numpy.uint8)[:: mmap.PAGESIZE].max(initial=0).item()
        return time.process_time() - start


def work(library, case):
    """The process of one figure: loading, first and warm call, reading, in ms, and page faults."""
    import tvm_ffi
    library = pathlib.Path(library)
    arguments = [tvm_ffi.from_dlpack(value) for value in run.read_inputs(pathlib.Path(case)).values()]
    reading = read_all(library) + read_all(library.with_suffix(".params"))
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.process_time()
    main = tvm_ffi.load_module(str(library)).main
    loaded = time.process_time()
    main(*arguments)
    answered = time.process_time()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    main(*arguments)
    times = []
    for _ in range(9):
        begin = time.process_time()
        main(*arguments)
        times.append(time.process_time() - begin)
    figures = [loaded - start, answered - loaded, statistics.median(times), reading]
    print(*(figure * 1e3 for figure in figures), faults)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--work":
        return work(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--irc", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    print("| model | load ms | first ms | warm ms | reading ms | beyond ms | page faults |\n" + "|---" * 7 + "|")
    for case in sorted(path.parent for path in args.models.glob("*/model.onnx")):
        if args.only and case.name not in args.only:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            library = pathlib.Path(scratch) / "net.so"
            if not run.build(args.irc, case, str(library)):
                continue
            command = [sys.executable, __file__, "--work", str(library), str(case)]
            environment = dict(os.environ, IRC_NUM_THREADS="1")
            rows = []
            for _ in range(args.times):
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                rows.append([float(word) for word in done.stdout.split()])
        if not all(rows):
            print(f"{case.name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            continue
        load, first, warm, reading, faults = (min(column) for column in zip(*rows))
        figures = (load, first, warm, reading, load + first - warm - reading)
        print(f"| {case.name} |", *(f"{run.show(figure)} |" for figure in figures), f"{faults:.0f} |", flush=True)


if __name__ == "__main__":
    main()
