"""Writes the models of the import tests beside this file. Needs onnx 1.23.2 and numpy."""

import functools
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(name, nodes, inputs, outputs, initializers=(), opset=17, functions=(), domains=(), ir=9):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)] if opset else []
    opsets += [helper.make_opsetid(domain, 1) for domain in domains]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    model.ir_version = ir
    if not opset:
        del model.opset_import[:]
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())


def main():
    node = helper.make_node
    weight = np.arange(24, dtype=np.float32).reshape(4, 1, 2, 3) / 8
    save("conv", [node("Conv", ["x", "w", "b"], ["/c/out"], "c", pads=[0, 1, 0, 1]), node("Relu", ["/c/out"], ["y"])],
         [value("x", ["batch", 1, 5, 5])], [value("y", None)],
         [constant("w", weight), constant("b", np.float32([1, 2, 3, 4]))])
    save("names", [node("Add", ["in:0", "for"], ["12"]), node("Identity", ["12"], ["out/1"])],
         [value("in:0", ["n", None, "n + 1"]), value("for", ["n", 1, 1])], [value("out/1", None)])
    save("shapes", [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
                    node("Unsqueeze", ["n", "axis"], ["n1"]), node("Concat", ["n1", "rest"], ["t"], axis=0),
                    node("Reshape", ["x", "t"], ["y"])],
         [value("x", ["n", 2, 3])], [value("y", None)],
         [constant("zero", np.int64(0)), constant("axis", np.int64([0])), constant("rest", np.int64([-1]))])
    save("optional_outputs", [node("MaxPool", ["x"], ["", "where"], kernel_shape=[2]), node("Split", ["x"], ["a", "b"], axis=2)],
         [value("x", [1, 1, 4])], [value("where", None, INT64), value("b", None)])
    then = helper.make_graph([node("Add", ["x", "x"], ["t"])], "then", [], [value("t", None)])
    other = helper.make_graph([node("Neg", ["x"], ["t"])], "else", [], [value("t", None)])
    save("if", [node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
         [value("c", [1], BOOL), value("x", [2])], [value("y", None)])
    squeezed = helper.make_graph([node("Squeeze", ["x", "one"], ["s"])], "then", [], [value("s", None)])
    kept = helper.make_graph([node("Identity", ["x"], ["k"])], "else", [], [value("k", None)])
    again = helper.make_graph([node("Unsqueeze", ["e", "one"], ["u"])], "then", [], [value("u", None)])
    as_is = helper.make_graph([node("Identity", ["e"], ["i"])], "else", [], [value("i", None)])
    save("if_ranks", [node("If", ["c"], ["y"], then_branch=squeezed, else_branch=kept), node("Exp", ["y"], ["e"]), node("Not", ["c"], ["n"]),
                      node("Not", ["n"], ["cc"]), node("If", ["cc"], ["z"], then_branch=again, else_branch=as_is),
                      node("Transpose", ["z"], ["t"], perm=[2, 1, 0]), node("Shape", ["e"], ["shape"]), node("Neg", ["t"], ["out"])],
         [value("c", [1], BOOL), value("x", ["a", 1, "b"])], [value("out", None), value("shape", None, INT64), value("y", None)],
         [constant("one", np.int64([1]))])
    flat = helper.make_graph([node("Reshape", ["x", "six"], ["f"])], "else", [], [value("f", None)])
    save("if_wrong", [node("If", ["c"], ["y"], then_branch=squeezed, else_branch=flat), node("Concat", ["y", "y"], ["z"], axis=1)],
         [value("c", [1], BOOL), value("x", [2, 1, 3])], [value("z", None)],
         [constant("one", np.int64([1])), constant("six", np.int64([6]))])
    save("squeeze_open", [node("Squeeze", ["x"], ["s"]), node("Exp", ["s"], ["e"]), node("ReduceSum", ["e"], ["r"], keepdims=0)],
         [value("x", ["n", 1, 3])], [value("e", None), value("r", None)])
    save("ranks", [node("SequenceAt", ["s", "i"], ["e"]), node("ReduceSum", ["e", "axis"], ["r"], keepdims=0)],
         [helper.make_tensor_sequence_value_info("s", FLOAT, None), value("i", [], INT64)], [value("r", None)],
         [constant("axis", np.int64([6]))])
    body = helper.make_graph(
        [node("Add", ["a", "w"], ["more"]), node("Concat", ["a", "more"], ["longer"], axis=0),
         node("ReduceSum", ["longer"], ["sum"], keepdims=0), node("Less", ["sum", "most"], ["go_on"])],
        "body", [value("i", [], INT64), value("go", [], BOOL), value("a", None)],
        [value("go_on", [], BOOL), value("longer", None), value("sum", [])])
    save("loop", [node("Loop", ["", "yes", "x"], ["end", "sums"], body=body)],
         [value("x", [2])], [value("end", None), value("sums", None)],
         [constant("w", np.float32([1])), constant("most", np.float32(20)), constant("yes", np.bool_(True))])
    body = helper.make_graph([node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["row"])],
                             "body", [value("s", None), value("e", None)], [value("t", None), value("row", None)])
    save("scan", [node("Scan", ["s0", "x"], ["s", "y"], num_scan_inputs=1, scan_input_axes=[1],
                       scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1], body=body)],
         [value("s0", [3]), value("x", [3, "n"])], [value("s", None), value("y", None)])
    body = helper.make_graph([node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["row"])],
                             "body", [value("s", None), value("e", None)], [value("t", None), value("row", None)])
    save("scan_lengths", [node("Scan", ["l", "s0", "x"], ["s", "y"], num_scan_inputs=1, directions=[1], body=body)],
         [value("l", ["b"], INT64), value("s0", ["b", 2]), value("x", ["b", "t", 2])], [value("s", None), value("y", None)], opset=8)
    score = helper.make_graph([node("Add", ["scores", "bias"], ["raised"])], "score_mod",
                              [value("scores", None)], [value("raised", None)])
    save("flex_attention", [node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", scale=0.5, score_mod=score)],
         [value(name, [1, 2, 3, 4]) for name in ["q", "k", "v"]], [value("y", None)],
         [constant("bias", np.float32(0.5))], domains=["ai.onnx.preview"])
    gradient = functools.partial(node, "Gradient", domain="ai.onnx.preview.training")
    save("gradient", [node("Mul", ["x", "w"], ["t"]), node("Mul", ["t", "c"], ["y"]), gradient(["x1", "w"], ["dx"], xs=["x"], zs=["w"], y="y"),
                      gradient(["x", "w"], ["", "ddw"], xs=["x", "w"], y="dx")],
         [value("x", [2, 3]), value("w", [3]), value("x1", [2, 3])], [value("y", None), value("dx", None), value("ddw", None)],
         [constant("c", np.float32(0.5))], domains=["ai.onnx.preview.training"])
    save("bad_gradient", [node("CumProd", ["x", "axis"], ["y"], "p"), gradient(["x"], ["dx"], "g", xs=["x"], y="y")],
         [value("x", [2, 2])], [value("dx", None)], [constant("axis", np.int64(0))], opset=26, domains=["ai.onnx.preview.training"])
    types = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOAT, []))
    save("map", [node("DictVectorizer", ["x"], ["v"], domain="ai.onnx.ml", string_vocabulary=["a", "b"]),
                 node("ZipMap", ["v"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[5, 7])],
         [helper.make_value_info("x", types)], [helper.make_value_info("z", helper.make_sequence_type_proto(
             helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [])))), value("v", None)], domains=["ai.onnx.ml"])
    double = helper.make_function("local", "Scale", ["a"], ["b"], [
        node("Constant", [], ["k"], value_float=2.0), node("Mul", ["a", "k"], ["m"]),
        onnx.helper.make_node("Identity", ["m"], ["b"])], [helper.make_opsetid("", 17)])
    save("function", [node("Scale", ["x"], ["u"], domain="local"), node("Scale", ["u"], ["y"], domain="local")],
         [value("x", [2])], [value("y", None)], functions=[double], domains=["local"])
    save("blocks", [node("DepthToSpace", ["x"], ["d"], blocksize=2),
                    node("RoiAlign", ["d", "r", "b"], ["y"], output_height=2, output_width=2, sampling_ratio=0)],
         [value("x", ["n", 4, 3, 3]), value("r", ["k", 4]), value("b", ["k"], INT64)], [value("y", None)])
    save("older", [node("ReduceL2", ["x"], ["n"], axes=[1], keepdims=0), node("Upsample", ["x", "s"], ["y"], mode="nearest")],
         [value("x", ["n", 2, 3])], [value("n", None), value("y", None)], [constant("s", np.float32([1, 1, 2]))], opset=9)
    save("unsorted", [node("Neg", ["t"], ["y"]), node("Abs", ["x"], ["t"])], [value("x", [2])], [value("y", None)])
    save("bad_cycle", [node("Add", ["x", "q"], ["p"], "a"), node("Neg", ["p"], ["q"], "b")], [value("x", [2])], [value("q", None)])
    save("bad_undefined", [node("Add", ["x", "gost"], ["y"], "a"), node("Neg", ["x"], ["ghost"])], [value("x", [2])], [value("y", None)])
    save("bad_output", [node("Neg", ["x"], ["y"])], [value("x", [2])], [value("renamed", None)])
    save("bad_opset", [node("Neg", ["x"], ["y"])], [value("x", [2])], [value("y", None)], opset=0)
    save("bad_axis", [node("Softmax", ["x"], ["y"], "soft", axis=7)], [value("x", [2, 3])], [value("y", None)])
    save("bad_extents", [node("Add", ["x", "z"], ["t"], "a"), node("Relu", ["t"], ["u"]), node("Gemm", ["u", "u"], ["y"])],
         [value("x", [2, 3]), value("z", [4, 3])], [value("y", None)])
    save("bad_operators", [node("Fused", ["x"], ["t"], "f", domain="com.example"), node("Blur", ["t"], ["u"], "g"), node("Blur", ["u"], ["y"], "h")],
         [value("x", [2])], [value("y", None)], domains=["com.example"])
    short = constant("w", np.float32([1, 2, 3, 4]))
    short.raw_data = short.raw_data[:12]
    save("bad_data", [node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", None)], [short])
    outside = constant("w", np.float32([1, 2, 3, 4]))
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    entry = outside.external_data.add()
    entry.key, entry.value = "location", "sub/../../weights.bin"
    save("bad_escape", [node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", None)], [outside])
    (HERE / "bad_truncated.onnx").write_bytes((HERE / "conv.onnx").read_bytes()[:-20])
    (HERE / "bad_html.onnx").write_text("<!DOCTYPE html><html><body>Not found</body></html>\n")


if __name__ == "__main__":
    main()
