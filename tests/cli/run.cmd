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
