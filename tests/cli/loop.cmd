# Loops, compiled and interpreted.

# --- loop_stacks_rows_and_stops_at_its_condition
# => file loop.ir
@I.ir_module
class Module:
    @R.function(private=True)
    def step(i: R.Tensor((), "int64"), h: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor((), "bool"), R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")):
        y = R.add(h, w)
        c = R.less(R.sum(y), R.const(20.0, "float32"))
        return c, y, y

    @R.function
    def main(x: R.Tensor(("n",), "float32"), t: R.Tensor((), "int64")):
        n = T.int64()
        k = T.int64()
        cls = Module
        lv = I.while_loop(cls.step, t, R.const(True, "bool"), (x,), (x,), out_ty=[R.Tensor((n,), "float32"), R.Tensor((k, n), "float32")])
        rows = R.match_cast(lv[1], R.Tensor((k, n), "float32"))
        return lv[0], rows, rows + x
# => run irc run loop.ir --input x=[1,2,3] --input t=10
out0: float32[3] 4 8 12
out1: float32[3, 3] 2 4 6 3 6 9 4 8 12
out2: float32[3, 3] 3 6 9 4 8 12 5 10 15
# => run irc run loop.ir --interp --input x=[1,2,3] --input t=10
out0: float32[3] 4 8 12
out1: float32[3, 3] 2 4 6 3 6 9 4 8 12
out2: float32[3, 3] 3 6 9 4 8 12 5 10 15
# => run irc run loop.ir --input x=[1,2,3] --input t=0
out0: float32[3] 1 2 3
out1: float32[0, 3]
out2: float32[0, 3]
# => run irc run loop.ir --interp --input x=[1,2,3] --input t=0
out0: float32[3] 1 2 3
out1: float32[0, 3]
out2: float32[0, 3]

# --- carried_values_change_shape_in_nested_loops
# => file grow.ir
@I.ir_module
class Module:
    @R.function(private=True)
    def inner(j: R.Tensor((), "int64"), a: R.Tensor(("m",), "int64"), b: R.Tensor((1,), "int64")):
        s = R.concat((a, R.add(b, R.reshape(j, R.shape([1])))), axis=0)
        return s

    @R.function(private=True)
    def outer(i: R.Tensor((), "int64"), a: R.Tensor(("m",), "int64")) -> R.Tensor(ndim=1, dtype="int64"):
        k = T.int64()
        cls = Module
        b = R.reshape(R.multiply(i, R.const(10, "int64")), R.shape([1]))
        lv = I.while_loop(cls.inner, i, None, (a,), (b,), out_ty=R.Tensor((k,), "int64"))
        y = R.match_cast(lv, R.Tensor((k,), "int64"))
        return y

    @R.function
    def main(x: R.Tensor(("n",), "int64"), t: R.Tensor((), "int64")):
        k = T.int64()
        cls = Module
        lv = I.while_loop(cls.outer, t, None, (x,), (), out_ty=[R.Tensor((k,), "int64")])
        y = R.match_cast(lv, R.Tensor((k,), "int64"))
        return y
# => run irc run grow.ir --input x=[7] --input t=4
out: int64[7] 7 10 20 21 30 31 32
# => run irc run grow.ir --interp --input x=[7] --input t=4
out: int64[7] 7 10 20 21 30 31 32

# --- an_error_in_a_body_is_the_caller_s
# => file fault.ir
@I.ir_module
class Module:
    @R.function(private=True)
    def pick(i: R.Tensor((), "int64"), x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
        y = R.take(x, i, axis=0)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32"), t: R.Tensor((), "int64")):
        k = T.int64()
        cls = Module
        lv = I.while_loop(cls.pick, t, None, (), (x,), out_ty=[R.Tensor((k,), "float32")])
        return lv
# => run irc run fault.ir --input x=[1,2,3] --input t=3
out: float32[3] 1 2 3
# => run irc run fault.ir --input x=[1,2,3] --input t=4
error: index out of range: an axis of 3 elements
[exit 5]

# --- a_recurrent_network_runs_any_number_of_steps
# => file lstm.ir
@R.function
def main(x: R.Tensor(("t", 1, 1), "float32")):
    w = R.const([[[0.5], [0.25], [1.0], [2.0]]], "float32")
    r = R.const([[[1.0], [0.5], [0.0], [1.0]]], "float32")
    y, h, c = onnx.LSTM(x, w, r, outputs=3, since=14)
    z = onnx.LSTM(x, w, r, direction="reverse", since=14)
    gw = R.const([[[0.5], [0.25], [1.0]]], "float32")
    gr = R.const([[[1.0], [0.5], [0.75]]], "float32")
    g = onnx.GRU(x, gw, gr, since=14)
    return y, h, c, z, g
# => run irc run lstm.ir --input x=[[[1]],[[2]]]
out0: float32[2, 1, 1, 1] 0.30194384 0.56875813
out1: float32[1, 1, 1] 0.56875813
out2: float32[1, 1, 1] 1.3144119
out3: float32[2, 1, 1, 1] 0.5134434 0.3880492
out4: float32[2, 1, 1, 1] 0.28753275 0.43572882
