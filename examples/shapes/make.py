#!/usr/bin/env python3
"""Train the example's model and write it: which of four shapes is drawn in a 24 x 24 picture?

usage: make.py [shapes.onnx]        needs: pip install "onnx==1.23.2" numpy

A small convolutional network with residual connection, trained on pictures that `draw` makes, by gradients
written out below. The same seed gives the same file.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NAMES = ["circle", "square", "triangle", "cross"]
SIZE = 24
STEPS, BATCH, RATE, MOMENTUM = 700, 32, 0.04, 0.9


def draw(rng, n):
    """`n` pictures and what is on them."""
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    pictures, labels = [], rng.integers(0, len(NAMES), n)
    for label in labels:
        cx, cy = rng.uniform(8, 16, 2)
        r = rng.uniform(4, 7)
        dx, dy = np.abs(x - cx), y - cy
        inside = {
            0: dx**2 + dy**2 <= r * r,
            1: (dx <= 0.85 * r) & (np.abs(dy) <= 0.85 * r),
            2: (dy <= 0.8 * r) & (dy >= -r) & (dx <= 0.6 * (dy + r)),
            3: (np.minimum(dx, np.abs(dy)) <= 0.3 * r) & (np.maximum(dx, np.abs(dy)) <= r),
        }[int(label)]
        ink = rng.uniform(0.5, 1.0) * rng.choice([-1, 1])
        pictures.append(inside * ink + rng.normal(0, 0.15, inside.shape))
    return np.stack(pictures)[:, None].astype(np.float32), labels


def patches(x):
    """The 3 x 3 surroundings of each pixel: [n, h, w, 9 c]."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    n, c, h, w = view.shape[:4]
    return view.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x, w, b):
    cols = patches(x)
    return (cols @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2), cols


def conv_back(grad, cols, w, h):
    g = grad.transpose(0, 2, 3, 1)
    dw = (g.reshape(-1, len(w)).T @ cols.reshape(-1, cols.shape[-1])).reshape(w.shape)
    flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    return conv(grad, np.ascontiguousarray(flipped), np.zeros(w.shape[1], np.float32))[0], dw, g.sum((0, 1, 2))


def pool(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    best = blocks.max((3, 5))
    return best, blocks == best[:, :, :, None, :, None]


def pool_back(grad, mask):
    n, c, h, _, w, _ = mask.shape
    return (mask * grad[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


def init(rng):
    def he(*shape):
        return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)

    p = {"conv1.weight": he(12, 1, 3, 3), "conv2.weight": he(24, 12, 3, 3), "conv3.weight": he(24, 24, 3, 3),
         "head.weight": he(len(NAMES), 24)}
    for name in list(p):
        p[name.replace("weight", "bias")] = np.zeros(len(p[name]), np.float32)
    return p


def step(p, x, labels):
    """Loss, share of right answers, gradients."""
    a1, c1 = conv(x, p["conv1.weight"], p["conv1.bias"])
    r1 = np.maximum(a1, 0)
    q1, m1 = pool(r1)
    a2, c2 = conv(q1, p["conv2.weight"], p["conv2.bias"])
    r2 = np.maximum(a2, 0)
    q2, m2 = pool(r2)
    a3, c3 = conv(q2, p["conv3.weight"], p["conv3.bias"])
    r3 = np.maximum(a3 + q2, 0)
    feat = r3.mean((2, 3))
    logits = feat @ p["head.weight"].T + p["head.bias"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    prob = e / e.sum(1, keepdims=True)
    n = len(x)
    loss = -np.log(prob[np.arange(n), labels] + 1e-9).mean()
    g = prob.copy()
    g[np.arange(n), labels] -= 1
    g /= n
    grads = {"head.weight": g.T @ feat, "head.bias": g.sum(0)}
    h, w = r3.shape[2:]
    g3 = np.repeat(np.repeat((g @ p["head.weight"])[:, :, None, None] / (h * w), h, 2), w, 3) * (r3 > 0)
    gq2, grads["conv3.weight"], grads["conv3.bias"] = conv_back(g3, c3, p["conv3.weight"], h)
    g2 = pool_back(gq2 + g3, m2) * (a2 > 0)
    gq1, grads["conv2.weight"], grads["conv2.bias"] = conv_back(g2, c2, p["conv2.weight"], h)
    g1 = pool_back(gq1, m1) * (a1 > 0)
    _, grads["conv1.weight"], grads["conv1.bias"] = conv_back(g1, c1, p["conv1.weight"], h)
    return loss, (logits.argmax(1) == labels).mean(), grads


def to_onnx(p):
    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs, [output], name=output, **attrs)

    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["picture", "conv1.weight", "conv1.bias"], "conv1", **pads),
        node("Relu", ["conv1"], "relu1"),
        node("MaxPool", ["relu1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["pool1", "conv2.weight", "conv2.bias"], "conv2", **pads),
        node("Relu", ["conv2"], "relu2"),
        node("MaxPool", ["relu2"], "pool2", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["pool2", "conv3.weight", "conv3.bias"], "conv3", **pads),
        node("Add", ["conv3", "pool2"], "skip"),
        node("Relu", ["skip"], "relu3"),
        node("GlobalAveragePool", ["relu3"], "mean"),
        node("Flatten", ["mean"], "features", axis=1),
        node("Gemm", ["features", "head.weight", "head.bias"], "logits", transB=1),
        node("Softmax", ["logits"], "probabilities", axis=1),
    ]
    weights = [numpy_helper.from_array(p[name].astype(np.float32), name) for name in sorted(p)]
    picture = helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["batch", 1, SIZE, SIZE])
    answer = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(NAMES)])
    graph = helper.make_graph(nodes, "shapes", [picture], [answer], weights)
    model = helper.make_model(graph, producer_name="shapes", opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def main():
    rng = np.random.default_rng(7)
    p = init(rng)
    speed = {name: np.zeros_like(value) for name, value in p.items()}
    for i in range(STEPS):
        loss, right, grads = step(p, *draw(rng, BATCH))
        rate = RATE * 0.5 * (1 + np.cos(np.pi * i / STEPS))
        for name in p:
            speed[name] = MOMENTUM * speed[name] - rate * grads[name]
            p[name] = (p[name] + speed[name]).astype(np.float32)
        if i % 100 == 99:
            print(f"step {i + 1}: loss {loss:.3f}, {right:.0%} right")
    _, right, _ = step(p, *draw(np.random.default_rng(8), 400))
    print(f"on 400 new pictures: {right:.1%} right")
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("shapes.onnx"))
    out.write_bytes(to_onnx(p).SerializeToString())


if __name__ == "__main__":
    main()
