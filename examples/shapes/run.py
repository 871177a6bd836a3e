#!/usr/bin/env python3
"""Ask net.so what is drawn in four pictures: python run.py ./net.so"""
import sys

import numpy as np
import tvm_ffi

NAMES = ["circle", "square", "triangle", "cross"]

y, x = np.mgrid[0:24, 0:24].astype(np.float32) - 11.5
pictures = np.stack([
    x * x + y * y < 36,
    np.maximum(abs(x), abs(y)) < 5,
    (y < 5) & (y > -6) & (abs(x) < 0.6 * (y + 6)),
    (np.minimum(abs(x), abs(y)) < 2) & (np.maximum(abs(x), abs(y)) < 6),
])[:, None].astype(np.float32)

net = tvm_ffi.load_module(sys.argv[1])
answers = np.from_dlpack(net.main(pictures))
for name, answer in zip(NAMES, answers):
    print(f"{name}: {NAMES[answer.argmax()]} ({answer.max():.0%})")
    assert NAMES[answer.argmax()] == name

try:
    net.main(pictures[:, :, :20])
except ValueError as error:
    print(f"a smaller picture: {error.args[0].splitlines()[0]}")
else:
    raise AssertionError("a picture of another size must be refused")
