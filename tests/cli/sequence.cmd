# Sequences and optionals, compiled and interpreted.

# --- sequences_are_values
# => file seq.ir
@I.ir_module
class Module:
    @R.function
    def main(s: R.Seq(R.Tensor(ndim=1, dtype="float32")), x: R.Tensor(("n",), "float32"), i: R.Tensor((), "int64")):
        more = I.seq_insert(s, x, i)
        less = I.seq_erase(more)
        last = I.seq_at(more, R.const(-1, "int64"))
        joined = I.seq_concat(more, axis=0)
        return more, less, last, joined, I.seq_len(s)
# => run irc run seq.ir --input s=[1];[2,3] --input x=[4] --input i=1
out0: a sequence of 3
out0[0]: float32[1] 1
out0[1]: float32[1] 4
out0[2]: float32[2] 2 3
out1: a sequence of 2
out1[0]: float32[1] 1
out1[1]: float32[1] 4
out2: float32[2] 2 3
out3: float32[4] 1 4 2 3
out4: int64[] 2
# => run irc run seq.ir --interp --input s=[1];[2,3] --input x=[4] --input i=1
out0: a sequence of 3
out0[0]: float32[1] 1
out0[1]: float32[1] 4
out0[2]: float32[2] 2 3
out1: a sequence of 2
out1[0]: float32[1] 1
out1[1]: float32[1] 4
out2: float32[2] 2 3
out3: float32[4] 1 4 2 3
out4: int64[] 2
# => run irc run seq.ir --input s=[1];[2,3] --input x=[4] --input i=3
error: position 3 is out of range of a sequence of 2
[exit 5]
# => run irc run seq.ir --interp --input s=[1];[2,3] --input x=[4] --input i=3
error: IndexError: index 3 is out of range of 2
[exit 5]
# => run irc run seq.ir --input s=[[1]] --input x=[4] --input i=0
error: a tensor that has to have 1 axes has another number
[exit 5]

# --- optionals_have_a_value_or_none
# => file opt.ir
@I.ir_module
class Module:
    @R.function
    def main(o: R.Opt(R.Tensor((2,), "float32"))):
        return o, I.has_value(o)

    @R.function
    def value(o: R.Opt(R.Tensor((2,), "float32"))):
        v = I.get_value(o)
        return v + v
# => run irc run opt.ir --input o=None
out0: None
out1: bool[] 0
# => run irc run opt.ir --interp --input o=None
out0: None
out1: bool[] 0
# => run irc run opt.ir --input o=[1,2]
out0: float32[2] 1 2
out1: bool[] 1
# => run irc run opt.ir --interp --input o=[1,2]
out0: float32[2] 1 2
out1: bool[] 1
# => run irc run opt.ir --function value --input o=[1,2]
out: float32[2] 2 4
# => run irc run opt.ir --function value --input o=None
error: the optional has no value
[exit 5]
# => run irc run opt.ir --function value --interp --input o=None
error: ValueError: the optional has no value
[exit 5]

# --- a_loop_collects_elements
# => file split.ir
@R.function
def main(x: R.Tensor(("n", 2), "int64")):
    s = onnx.SplitToSequence(x, R.const(2, "int64"), axis=0, since=24)
    r = onnx.ConcatFromSequence(s, axis=0, since=11)
    return s, r
# => run irc run split.ir --input x=[[1,2],[3,4],[5,6]]
out0: a sequence of 2
out0[0]: int64[2, 2] 1 2 3 4
out0[1]: int64[1, 2] 5 6
out1: int64[3, 2] 1 2 3 4 5 6
# => run irc run split.ir --interp --input x=[[1,2],[3,4],[5,6]]
out0: a sequence of 2
out0[0]: int64[2, 2] 1 2 3 4
out0[1]: int64[1, 2] 5 6
out1: int64[3, 2] 1 2 3 4 5 6

# --- branches_may_differ_in_rank
# => file rank.ir
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", 1), "float32")):
    if c:
        y = R.exp(R.reshape(x, R.shape([n])) * 0.0)
    else:
        y = x + x
    return y
# => run irc run rank.ir --input c=1 --input x=[[1],[2]]
out: float32[2] 1 1
# => run irc run rank.ir --input c=0 --input x=[[1],[2]]
out: float32[2, 1] 2 4
# => run irc run rank.ir --interp --input c=1 --input x=[[1],[2]]
out: float32[2] 1 1
# => run irc run rank.ir --interp --input c=0 --input x=[[1],[2]]
out: float32[2, 1] 2 4
