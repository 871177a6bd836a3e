# irc schedule

# --- loops_by_hand
# => file net.ir
@R.function
def main(x: R.Tensor(("n", 4), dtype="float32"), w: R.Tensor((4, 6), dtype="float32")):
    y = R.matmul(x, w)
    return y
# => run irc schedule net.ir
@T.prim_func(private=True)
def matmul(
    p0: T.Buffer((n, 4), "float32"),
    p1: T.Buffer((4, 6), "float32"),
    lv0: T.Buffer((n, 6), "float32"),
):
    T.func_attr({"op_pattern": 4, "tirx.noalias": True})
    n = T.int64()
    for ax0, ax1, k in T.grid(n, 6, 4):
        with T.sblock("lv0"):
            v_ax0, v_ax1, v_k = T.axis.remap("SSR", [ax0, ax1, k])
            with T.init():
                lv0[v_ax0, v_ax1] = T.float32(0.0)
            lv0[v_ax0, v_ax1] = lv0[v_ax0, v_ax1] + p0[v_ax0, v_k] * p1[v_k, v_ax1]

@R.function
def main(x: R.Tensor(("n", 4), dtype="float32"), w: R.Tensor((4, 6), dtype="float32")):
    y = R.call_tir(cls.matmul, (x, w), out_ty=R.Tensor((n, 6), dtype="float32"))
    return y
# => run irc schedule net.ir --apply tile(matmul,ax0,2,ax1,4) --apply reorder(matmul,k,ax0_1,ax1_1) --apply vectorize(matmul,ax1_1) --apply unroll(matmul,ax0_1) --apply parallel(matmul,ax0_0) -o fast.ir
# => is fast.ir
@T.prim_func(private=True)
def matmul(
    p0: T.Buffer((n, 4), "float32"),
    p1: T.Buffer((4, 6), "float32"),
    lv0: T.Buffer((n, 6), "float32"),
):
    T.func_attr({"op_pattern": 4, "tirx.is_scheduled": True, "tirx.noalias": True})
    n = T.int64()
    for ax0_0 in T.parallel((n + 1) // 2):
        for ax1_0 in range(2):
            for k in range(4):
                for ax0_1 in T.unroll(2):
                    for ax1_1 in T.vectorized(4):
                        with T.sblock("lv0"):
                            v_ax0 = T.axis.spatial(n, ax0_0 * 2 + ax0_1)
                            v_ax1 = T.axis.spatial(6, ax1_0 * 4 + ax1_1)
                            v_k = T.axis.reduce(4, k)
                            T.where(ax0_0 * 2 + ax0_1 < n and ax1_0 * 4 + ax1_1 < 6)
                            with T.init():
                                lv0[v_ax0, v_ax1] = T.float32(0.0)
                            lv0[v_ax0, v_ax1] = lv0[v_ax0, v_ax1] + p0[v_ax0, v_k] * p1[v_k, v_ax1]

@R.function
def main(x: R.Tensor(("n", 4), dtype="float32"), w: R.Tensor((4, 6), dtype="float32")):
    y = R.call_tir(cls.matmul, (x, w), out_ty=R.Tensor((n, 6), dtype="float32"))
    return y
# => run irc check fast.ir
# => run irc build fast.ir -o fast.so
# => run irc run fast.so --input x=[[1,2,3,4],[5,6,7,8],[1,-1,1,-1],[0,0,0,1],[2,2,2,2]] --input w=[[1,2,3,4,5,6],[1,1,1,1,1,1],[0,1,0,1,0,1],[-1,-2,-1,-2,-1,-2]]
out: float32[5, 6] -1 -1 1 1 3 3 3 7 13 17 23 27 1 4 3 6 …

# --- refusals
# => file net.ir
@R.function
def main(x: R.Tensor(("n", 64), dtype="float32"), w: R.Tensor((64, 30), dtype="float32")):
    y = R.matmul(x, w)
    z = R.nn.softmax(y)
    return z
# => run irc schedule net.ir --apply parallel(matmul,k)
[schedule-refused] Error: `parallel(matmul,k)`: the loop `k` is one of the sum over `v_k`: its iterations write to one place
   ╭─[ the program:9:24 ]
   │
 9 │     for ax0, ax1, k in T.grid(n, 30, 64):
   │                        ────────┬────────
   │                                ╰────────── this loop
───╯
[exit 1]
# => run irc schedule net.ir --apply vectorize(matmul,ax0)
[schedule-refused] Error: `vectorize(matmul,ax0)`: the loop `ax0` has no constant extent: split it by one
   ╭─[ the program:9:24 ]
   │
 9 │     for ax0, ax1, k in T.grid(n, 30, 64):
   │                        ────────┬────────
   │                                ╰────────── this loop
───╯
[exit 1]
# => run irc schedule net.ir --apply fuse(matmul,ax0,k)
[schedule-refused] Error: `fuse(matmul,ax0,k)`: the loop `k` is not right inside `ax0`
   ╭─[ the program:9:24 ]
   │
 9 │     for ax0, ax1, k in T.grid(n, 30, 64):
   │                        ────────┬────────
   │                                ╰────────── this loop
───╯
[exit 1]
# => run irc schedule net.ir --apply split(matmul,ax2,4)
[schedule-block] Error: `split(matmul,ax2,4)`: no loop around the block has the variable `ax2`; there are: ax0, ax1, k
    ╭─[ the program:10:9 ]
    │
 10 │ ╭─▶         with T.sblock("lv0"):
    ┆ ┆
 14 │ ├─▶             lv0[v_ax0, v_ax1] = lv0[v_ax0, v_ax1] + p0[v_ax0, v_k] * p1[v_k, v_ax1]
    │ │
    │ ╰───────────────────────────────────────────────────────────────────────────────────────── this block
────╯
[exit 1]
# => run irc schedule net.ir --apply split(nothing,ax2,4)
error[schedule-block]: no block has the name `nothing`: matmul.lv0, fused_max_subtract_exp_sum_divide.lv0, fused_max_subtract_exp_sum_divide.lv2, fused_max_subtract_exp_sum_divide.lv3, fused_max_subtract_exp_sum_divide.lv4
[exit 1]
# => run irc schedule net.ir --apply split(matmul,k)
error[schedule-primitive]: `split(matmul,k)` has arguments that `split` does not take
[exit 1]
# => run irc schedule net.ir --apply melt(matmul,k)
error[schedule-primitive]: there is no primitive `melt`; there are: fuse, parallel, reorder, split, tile, unroll, vectorize
[exit 2]
# => run irc schedule net.ir --apply split(
error[schedule-primitive]: `split(` is not of the form `split(block, loop, 8)`
[exit 2]
