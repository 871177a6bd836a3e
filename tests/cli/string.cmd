# Tensors of strings, compiled and interpreted.

# --- strings_move_and_compare
# => file move.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "string"), i: R.Tensor((2,), "int64"), c: R.Tensor(("n", 3), "bool")):
        t = R.permute_dims(x)
        r = R.reshape(x, R.shape([3 * n]))
        g = R.take(x, i, axis=1)
        k = R.concat((x, x), axis=0)
        w = R.where(c, x, R.const("no", "string"))
        b = R.broadcast_to(R.const(["p", "", "q"], "string"), R.shape([2, 3]))
        s = R.strided_slice(x, axes=[1], begin=[2], end=[-4], strides=[-1])
        u, u1, u2, u3 = R.unique(r, sorted=True, return_index=True, return_inverse=True, return_counts=True)
        e = R.equal(x, R.const(["a", "b", "ÿ"], "string"))
        l = R.less(x, R.const("b", "string"))
        o = R.sort(r)
        sc = R.scatter_elements(x, R.const([[0, 0, 0]], "int64"), R.const([["X", "YY", "ZZZ"]], "string"), axis=0)
        f = R.full(R.shape([2]), R.const("fill", "string"))
        return t, r, g, k, w, b, s, u, u1, u2, u3, e, l, o, sc, f, x
    @R.function
    def scalar(x: R.Tensor((), "string")):
        return x
# => run irc run move.ir --input x=[["a","b","ccc"],["","ÿ","b"]] --input i=[2,0] --input c=[[True,False,True],[False,True,False]]
out0: string[3, 2] "a" "" "b" "ÿ" "ccc" "b"
out1: string[6] "a" "b" "ccc" "" "ÿ" "b"
out2: string[2, 2] "ccc" "a" "b" ""
out3: string[4, 3] "a" "b" "ccc" "" "ÿ" "b" "a" "b" "ccc" "" "ÿ" "b"
out4: string[2, 3] "a" "no" "ccc" "no" "ÿ" "no"
out5: string[2, 3] "p" "" "q" "p" "" "q"
out6: string[2, 3] "ccc" "b" "a" "b" "ÿ" ""
out7: string[5] "" "a" "b" "ccc" "ÿ"
out8: int64[5] 3 0 1 2 4
out9: int64[6] 1 2 3 0 4 2
out10: int64[5] 1 1 2 1 1
out11: bool[2, 3] 1 1 0 0 0 0
out12: bool[2, 3] 1 0 0 1 0 0
out13: string[6] "" "a" "b" "b" "ccc" "ÿ"
out14: string[2, 3] "X" "YY" "ZZZ" "" "ÿ" "b"
out15: string[2] "fill" "fill"
out16: string[2, 3] "a" "b" "ccc" "" "ÿ" "b"
# => run irc run move.ir --interp --input x=[["a","b","ccc"],["","ÿ","b"]] --input i=[2,0] --input c=[[True,False,True],[False,True,False]]
out0: string[3, 2] "a" "" "b" "ÿ" "ccc" "b"
out1: string[6] "a" "b" "ccc" "" "ÿ" "b"
out2: string[2, 2] "ccc" "a" "b" ""
out3: string[4, 3] "a" "b" "ccc" "" "ÿ" "b" "a" "b" "ccc" "" "ÿ" "b"
out4: string[2, 3] "a" "no" "ccc" "no" "ÿ" "no"
out5: string[2, 3] "p" "" "q" "p" "" "q"
out6: string[2, 3] "ccc" "b" "a" "b" "ÿ" ""
out7: string[5] "" "a" "b" "ccc" "ÿ"
out8: int64[5] 3 0 1 2 4
out9: int64[6] 1 2 3 0 4 2
out10: int64[5] 1 1 2 1 1
out11: bool[2, 3] 1 1 0 0 0 0
out12: bool[2, 3] 1 0 0 1 0 0
out13: string[6] "" "a" "b" "b" "ccc" "ÿ"
out14: string[2, 3] "X" "YY" "ZZZ" "" "ÿ" "b"
out15: string[2] "fill" "fill"
out16: string[2, 3] "a" "b" "ccc" "" "ÿ" "b"
# => run irc run move.ir --function scalar --input x="hello"
out: string[] "hello"

# --- strings_have_no_arithmetic
# => file add.ir
@R.function
def main(x: R.Tensor((2,), "string")):
    y = x + x
    return y
# => run irc check add.ir
[dtype-mismatch] Error: `R.add` needs numbers, and `x` is string
   ╭─[ add.ir:3:9 ]
   │
 3 │     y = x + x
   │         ──┬──
   │           ╰──── (2,) string
───╯
[exit 1]
