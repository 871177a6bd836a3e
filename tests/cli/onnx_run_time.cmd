# Operators of ONNX whose operands or extents are known at run time only, compiled and interpreted.

# --- slice_bounds_below_zero_at_run_time
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), e: R.Tensor((1,), "int64")):
        n = T.int64()
        return onnx.Slice(x, R.const([0], "int64"), e, R.const([0], "int64"), since=13)
# => run irc run net.ir --input x=[1,2,3,4] --input e=[-1]
out: float32[3] 1 2 3
# => run irc run net.ir --interp --input x=[1,2,3,4] --input e=[-1]
out: float32[3] 1 2 3
# => run irc run net.ir --input x=[1,2] --input e=[-9]
out: float32[0]
# => run irc run net.ir --interp --input x=[1,2] --input e=[-9]
out: float32[0]

# --- pads_below_zero_at_run_time_crop
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), p: R.Tensor((2,), "int64")):
        return onnx.Pad(x, p, since=18)
# => run irc run net.ir --input x=[1,2,3,4] --input p=[-1,2]
out: float32[5] 2 3 4 0 0
# => run irc run net.ir --interp --input x=[1,2,3,4] --input p=[-1,2]
out: float32[5] 2 3 4 0 0
# => run irc run net.ir --input x=[1,2,3,4] --input p=[1,-3]
out: float32[2] 0 1
# => run irc run net.ir --interp --input x=[1,2,3,4] --input p=[1,-3]
out: float32[2] 0 1

# --- ranges_from_below_zero
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(a: R.Tensor((), "int64"), b: R.Tensor((), "int64")):
        return onnx.Range(a, b, R.const(2, "int64"), since=11)
# => run irc run net.ir --input a=-3 --input b=2
out: int64[3] -3 -1 1
# => run irc run net.ir --interp --input a=-3 --input b=2
out: int64[3] -3 -1 1
# => run irc run net.ir --input a=3 --input b=-2
out: int64[0]
# => run irc run net.ir --interp --input a=3 --input b=-2
out: int64[0]

# --- a_last_axis_of_one_or_two_is_real_or_complex
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, "c"), "float32")):
        c = T.int64()
        return onnx.DFT(x, since=20), onnx.STFT(x, R.const(1, "int64"), None, R.const(2, "int64"), onesided=0, since=17)
# => run irc run net.ir --input x=[[[1,2],[3,4]]]
out0: float32[1, 2, 2] 4 6 -2 -2
out1: float32[1, 1, 2, 2] 4 6 -2 -2
# => run irc run net.ir --interp --input x=[[[1,2],[3,4]]]
out0: float32[1, 2, 2] 4 6 -2 -2
out1: float32[1, 1, 2, 2] 4 6 -2 -2
# => run irc run net.ir --input x=[[[1],[3]]]
out0: float32[1, 2, 2] 4 0 -2 -0.00000000000000036739406
out1: float32[1, 1, 2, 2] 4 0 -2 -0.00000000000000036739406
# => run irc run net.ir --interp --input x=[[[1],[3]]]
out0: float32[1, 2, 2] 4 0 -2 -0.00000000000000036739406
out1: float32[1, 1, 2, 2] 4 0 -2 -0.00000000000000036739406

# --- nothing_broadcasts_with_one
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        n = T.int64()
        m = T.int64()
        return onnx.Add(onnx.Mul(x, y, since=14), y, since=14)
# => run irc run net.ir --input x=[] --input y=[2]
out: float32[0]
# => run irc run net.ir --interp --input x=[] --input y=[2]
out: float32[0]
# => run irc run net.ir --input x=[3] --input y=[1,2]
out: float32[2] 4 8
# => run irc run net.ir --interp --input x=[3] --input y=[1,2]
out: float32[2] 4 8

# --- same_pads_of_unknown_extents
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 1, "n"), "float32")):
        n = T.int64()
        a = onnx.AveragePool(x, kernel_shape=[2], auto_pad="SAME_UPPER", since=22)
        b = onnx.LpPool(x, kernel_shape=[2], auto_pad="SAME_UPPER", strides=[2], since=22)
        c = onnx.ConvTranspose(x, R.const([[[1.0, 1.0, 1.0]]], "float32"), auto_pad="SAME_UPPER", strides=[2], since=22)
        return a, b, c
# => run irc run net.ir --input x=[[[3,4]]]
out0: float32[1, 1, 2] 3.5 4
out1: float32[1, 1, 1] 5
out2: float32[1, 1, 4] 3 3 7 4
# => run irc run net.ir --interp --input x=[[[3,4]]]
out0: float32[1, 1, 2] 3.5 4
out1: float32[1, 1, 1] 5
out2: float32[1, 1, 4] 3 3 7 4
# => run irc run net.ir --input x=[[[3,4,5]]]
out0: float32[1, 1, 3] 3.5 4.5 5
out1: float32[1, 1, 2] 5 5
out2: float32[1, 1, 6] 3 3 7 4 9 5
# => run irc run net.ir --interp --input x=[[[3,4,5]]]
out0: float32[1, 1, 3] 3.5 4.5 5
out1: float32[1, 1, 2] 5 5
out2: float32[1, 1, 6] 3 3 7 4 9 5

# --- ceil_mode_of_unknown_extents
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 1, "n"), "float32")):
        n = T.int64()
        a = onnx.AveragePool(x, kernel_shape=[1], strides=[2], ceil_mode=1, since=22)
        b = onnx.AveragePool(x, kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1, since=22)
        return a, b
# => run irc run net.ir --input x=[[[3,4]]]
out0: float32[1, 1, 1] 3
out1: float32[1, 1, 1] 3
# => run irc run net.ir --interp --input x=[[[3,4]]]
out0: float32[1, 1, 1] 3
out1: float32[1, 1, 1] 3
# => run irc run net.ir --input x=[[[3,4,5,6]]]
out0: float32[1, 1, 2] 3 5
out1: float32[1, 1, 2] 3 5.5
# => run irc run net.ir --interp --input x=[[[3,4,5,6]]]
out0: float32[1, 1, 2] 3 5
out1: float32[1, 1, 2] 3 5.5

# --- indices_of_pools_of_unknown_extents
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, "c", "n", "m"), "float32")):
        c = T.int64()
        n = T.int64()
        m = T.int64()
        lv = onnx.MaxPool(x, kernel_shape=[2, 2], pads=[1, 0, 0, 1], strides=[2, 1], outputs=2, since=22)
        return lv[0], lv[1]
# => run irc run net.ir --input x=[[[[1,5,3],[4,2,6]]]]
out0: float32[1, 1, 1, 3] 5 5 3
out1: int64[1, 1, 1, 3] 1 1 2
# => run irc run net.ir --interp --input x=[[[[1,5,3],[4,2,6]]]]
out0: float32[1, 1, 1, 3] 5 5 3
out1: int64[1, 1, 1, 3] 1 1 2

# --- reductions_of_nothing_over_axes_known_at_run_time
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), a: R.Tensor((1,), "int64")):
        n = T.int64()
        m = T.int64()
        return onnx.ReduceSum(R.strided_slice(x, axes=[0], begin=[1], end=[9], strides=[1]), a, since=13)
# => run irc run net.ir --input x=[[1,2]] --input a=[0]
out: float32[1, 2] 0 0
# => run irc run net.ir --interp --input x=[[1,2]] --input a=[0]
out: float32[1, 2] 0 0
# => run irc run net.ir --input x=[[1,2]] --input a=[1]
out: float32[0, 1]
# => run irc run net.ir --interp --input x=[[1,2]] --input a=[1]
out: float32[0, 1]
# => run irc run net.ir --input x=[[1,2],[3,4]] --input a=[-1]
out: float32[1, 1] 7
# => run irc run net.ir --interp --input x=[[1,2],[3,4]] --input a=[-1]
out: float32[1, 1] 7

# --- symbols_and_bindings_have_names_of_their_own
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 3), "float32"), s: R.Tensor((2,), "int32")):
        return onnx.CenterCropPad(x, s, since=18)
# => run irc run net.ir --input x=[[1,2,3]] --input s=[2,1]
out: float32[2, 1] 2 0
# => run irc run net.ir --interp --input x=[[1,2,3]] --input s=[2,1]
out: float32[2, 1] 2 0

# --- attention_of_heads_of_unknown_size
# => file net.ir
@I.ir_module
class Module:
    @R.function
    def main(q: R.Tensor((1, 1, 1, "e"), "float32"), k: R.Tensor((1, 1, 2, "e"), "float32")):
        e = T.int64()
        return onnx.Attention(q, k, k, since=23)
# => run irc run net.ir --input q=[[[[0,0]]]] --input k=[[[[1,2],[3,6]]]]
out: float32[1, 1, 1, 2] 2 4
# => run irc run net.ir --interp --input q=[[[[0,0]]]] --input k=[[[[1,2],[3,6]]]]
out: float32[1, 1, 1, 2] 2 4
