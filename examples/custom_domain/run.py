#!/usr/bin/env python3
"""Ask gated.so, and numpy, the same: python run.py gated.so"""
import sys

import numpy as np
import tvm_ffi
from make import HIDDEN, LIMIT, WIDTH, weights

up, down = weights()
net = tvm_ffi.load_module(sys.argv[1])
for shape in [(1, 1, WIDTH), (2, 5, WIDTH)]:
    x = np.linspace(-2, 2, np.prod(shape), dtype=np.float32).reshape(shape)
    value, gate = np.split(x @ up, [HIDDEN], axis=-1)
    wanted = value * np.clip(gate / (2 * LIMIT) + 0.5, 0, 1) @ down
    y = np.from_dlpack(net.main(x))
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    print(f"{shape}: {y.ravel()[:3].round(4)}, as numpy says")
