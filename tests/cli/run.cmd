# irc run: compiled code and the interpreter say the same

# --- round_goes_to_even_halves
# => file halves.ir
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def halves(x: T.Buffer((5,), "float64"), y: T.Buffer((5,), "float64")):
        for i in range(5):
            with T.sblock("y"):
                v_i = T.axis.spatial(5, i)
                y[v_i] = T.round(x[v_i]) + T.nearbyint(x[v_i])

    @R.function
    def main() -> R.Tensor((5,), dtype="float64"):
        cls = Module
        x = R.const([0.5, 1.5, 2.5, -2.5, 2.6], "float64")
        y = R.call_tir(cls.halves, (x,), out_ty=R.Tensor((5,), dtype="float64"))
        return y
# => run irc run halves.ir
out: float64[5] 0 4 4 -4 6
# => run irc run --interp halves.ir
out: float64[5] 0 4 4 -4 6

# --- numbers_for_scalars
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="float32")):
        y = R.exp(x)
        return y
# => run irc run a.ir --input x=0
out: float32[] 1
# => run irc run a.ir --input x=0 --interp
out: float32[] 1
# => run irc run - --input x=0 < a.ir
out: float32[] 1
# => run irc build a.ir
# => run irc run a.so --input x=0
out: float32[] 1

# --- what_is_expected
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="float32")):
        y = R.exp(x)
        return y
# => run irc run a.ir --input x=0 --expect out=1
# => run irc run a.ir --input x=0 --expect out=1.5
error: `out`: 1 of 1 values differ, first 1 not 1.5 at []
[exit 1]
# => run irc run a.ir --input x=0 --expect out=1.5 --tol 0.5
# => run irc run a.ir --input x=0 --expect z=1
error: there is no result `z`; there are: out
[exit 2]

# --- results_are_saved
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), dtype="float32")):
        y = R.exp(x)
        return y
# => run irc run a.ir --input x=0 --save out=@y.npy
# => run irc run a.ir --input x=@y.npy
out: float32[] 2.7182817

# --- bad_inputs
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        return x
# => run irc run a.ir
error: input `x` is missing: --input x=@FILE
[exit 2]
# => run irc run a.ir --input z=1
error: input `x` is missing: --input x=@FILE
[exit 2]
# => run irc run a.ir --input x
error: `x` is not of the form NAME=VALUE
[exit 2]
# => run irc run a.ir --input x=two
error: `two` is neither a number nor a list nor @FILE
[exit 2]
# => run irc run a.ir --input x=@none.npy
error: cannot read none.npy: No such file or directory (os error 2)
[exit 3]
# => run irc run a.ir --input x=1
error: main: argument 0 `x` has 0 dims, wanted are 1: Tensor((2,), "float32")
[exit 5]
# => run irc run a.ir --function other
error: there is no function `other`; there are: main
[exit 2]

# --- an_error_while_running
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(at: R.Tensor((), dtype="int64")):
        return R.take(R.const([1.0, 2.0], "float32"), at, axis=0)
# => run irc run a.ir --input at=1
out: float32[] 2
# => run irc run a.ir --input at=2
error: index out of range: an axis of 2 elements
[exit 5]
# => run irc run a.ir --input at=2 --interp
error: IndexError: index 2 is out of range of 2
[exit 5]
