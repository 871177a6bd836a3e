#!/usr/bin/env python3
"""Write a model with an operator of a domain that no tool knows: `GatedUnit` of `com.acme`.

usage: make.py [gated.onnx]        needs: pip install "onnx==1.23.2" numpy
"""
import pathlib
import sys

import numpy as np

WIDTH, HIDDEN, LIMIT = 6, 8, 3.0


def weights():
    """The model's two matrices: [WIDTH, 2 HIDDEN], [HIDDEN, WIDTH]."""
    rng = np.random.default_rng(5)
    up = rng.normal(0, 0.4, (WIDTH, 2 * HIDDEN)).astype(np.float32)
    return up, rng.normal(0, 0.4, (HIDDEN, WIDTH)).astype(np.float32)


def main():
    from onnx import TensorProto, helper, numpy_helper

    names = ["up.weight", "down.weight"]
    initializers = [numpy_helper.from_array(w, name) for w, name in zip(weights(), names)]
    nodes = [
        helper.make_node("MatMul", ["x", "up.weight"], ["up"], name="up"),
        helper.make_node("GatedUnit", ["up"], ["gated"], name="gate", domain="com.acme", axis=-1, limit=LIMIT),
        helper.make_node("MatMul", ["gated", "down.weight"], ["y"], name="down"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "time", WIDTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "time", WIDTH])
    graph = helper.make_graph(nodes, "gated", [x], [y], initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    model = helper.make_model(graph, producer_name="acme", opset_imports=opsets)
    model.ir_version = 8
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("gated.onnx"))
    out.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
