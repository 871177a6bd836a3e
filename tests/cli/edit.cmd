# Programs cut, joined, and their weights under other names

# --- a_part_from_values_to_values
# => file a.ir
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(x: R.Tensor(("m", 2), dtype="float32")) -> R.Tensor(("m", 2), dtype="float32"):
        y = R.add(x, x)
        return y

    @R.function(private=True)
    def unused(x: R.Tensor(("m", 2), dtype="float32")) -> R.Tensor(("m", 2), dtype="float32"):
        return x

    @R.function
    def main(
        x: R.Tensor(("n", 4), dtype="float32"), c: R.Tensor((), dtype="bool")
    ) -> R.Tensor(("n * 4",), dtype="float32"):
        n = T.int64(max=9)
        cls = Module
        # the halves
        s = R.split(x, 2, axis=1)
        a, b = R.split(x, 2, axis=1)
        h = cls.twice(s[0])  # doubled
        if c:
            t = R.exp(h)
            y = R.negative(t)
        else:
            y = R.add(h, b)
        z = R.concat((y, a), axis=1)
        flat = R.reshape(z, R.shape([n * 4]))
        return flat
# => run irc extract a.ir --from h,b --to y -o -
@I.ir_module
class Module:
    @R.function
    def main(
        h: R.Tensor(("n", 2), dtype="float32"),
        b: R.Tensor(("n", 2), dtype="float32"),
        c: R.Tensor((), dtype="bool"),
    ):
        n = T.int64(max=9)
        if c:
            t = R.exp(h)
            y = R.negative(t)
        else:
            y = R.add(h, b)
        return y
note: `c` stays an input: it is still needed
# => run irc extract a.ir --from s,a --to z,y -o -
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(x: R.Tensor(("m", 2), dtype="float32")) -> R.Tensor(("m", 2), dtype="float32"):
        y = R.add(x, x)
        return y

    @R.function
    def main(
        s_0: R.Tensor(("n", 2), dtype="float32"),
        s_1: R.Tensor(("n", 2), dtype="float32"),
        a: R.Tensor(("n", 2), dtype="float32"),
        x: R.Tensor(("n", 4), dtype="float32"),
        c: R.Tensor((), dtype="bool"),
    ):
        n = T.int64(max=9)
        s = (s_0, s_1)
        cls = Module
        a_unused, b = R.split(x, 2, axis=1)
        h = cls.twice(s[0])  # doubled
        if c:
            t = R.exp(h)
            y = R.negative(t)
        else:
            y = R.add(h, b)
        z = R.concat((y, a), axis=1)
        return (z, y)
note: `x` stays an input: it is still needed
note: `c` stays an input: it is still needed
# => run irc extract a.ir --from y,a -o -
@I.ir_module
class Module:
    @R.function
    def main(y: R.Tensor(("n", 2), dtype="float32"), a: R.Tensor(("n", 2), dtype="float32")):
        n = T.int64(max=9)
        z = R.concat((y, a), axis=1)
        flat = R.reshape(z, R.shape([n * 4]))
        return flat
# => run irc extract a.ir --from flat -o -
@I.ir_module
class Module:
    @R.function
    def main(flat: R.Tensor(("flat_dim",), dtype="float32")):
        return flat
note: the extent `n * 4` is called `flat_dim`: no input binds its symbols
# => run irc extract a.ir --from z -o -
@I.ir_module
class Module:
    @R.function
    def main(z: R.Tensor(("n", 4), dtype="float32")):
        n = T.int64(max=9)
        flat = R.reshape(z, R.shape([n * 4]))
        return flat
# => run irc extract a.ir --to s -o -
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32")):
        n = T.int64(max=9)
        # the halves
        s = R.split(x, 2, axis=1)
        return (s[0], s[1])
# => run irc extract a.ir --from x,h --to h -o -
@I.ir_module
class Module:
    @R.function
    def main(h: R.Tensor(("n", 2), dtype="float32")):
        n = T.int64(max=9)
        return h
note: `x` is not needed for what is wanted
# => run irc extract a.ir --to t -o -
[illegal-cut] Error: `t` is bound inside a branch, which stays whole
    ╭─[ a.ir:23:13 ]
    │
 23 │             t = R.exp(h)
    │             ──────┬─────
    │                   ╰─────── inside a branch
    │
    │ Help: cut at what the choice gives
────╯
[exit 1]
# => run irc extract a.ir --to flaf -o -
error[illegal-cut]: `main` has no value `flaf`
  help: there is `flat`
[exit 1]
# => run irc extract a.ir --to n -o -
[illegal-cut] Error: `n` is a scalar int64, no value that a caller has
    ╭─[ a.ir:16:9 ]
    │
 16 │         n = T.int64(max=9)
    │         ─────────┬────────
    │                  ╰────────── bound here
────╯
[exit 1]
# => run irc extract a.ir --to cls -o -
[illegal-cut] Error: the type of `cls` is not known
    ╭─[ a.ir:17:9 ]
    │
 17 │         cls = Module
    │         ──────┬─────
    │               ╰─────── bound here
────╯
[exit 1]
# => run irc extract a.ir --function twice --from x -o -
@I.ir_module
class Module:
    @R.function
    def twice(x: R.Tensor(("m", 2), dtype="float32")):
        y = R.add(x, x)
        return y
# => run irc extract a.ir --function none -o -
error[illegal-cut]: there is no function `none`
[exit 1]
# => run irc extract a.ir --from h --to z -o part.ir
note: `x` stays an input: it is still needed
note: `c` stays an input: it is still needed
# => run irc run part.ir --input h=[[1,2]] --input x=[[1,2,3,4]] --input c=0
out: float32[1, 4] 4 6 1 2

# --- extents_that_no_input_binds
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32"), i: R.Tensor((3,), dtype="int64")):
        n = T.int64()
        m = T.int64()
        d = R.concat((x, x), axis=0)
        e = R.exp(d)
        k = R.nonzero(i)
        kk: R.Tensor((1, m), dtype="int64") = R.match_cast(k, R.Tensor((1, m), dtype="int64"))
        f = R.full(R.shape([m, n]), R.const(1.0, "float32"), dtype="float32")
        g = R.sum(R.add(f, x), axis=[0])
        return (e, g, kk)
# => run irc extract a.ir --from d --to e -o -
@I.ir_module
class Module:
    @R.function
    def main(d: R.Tensor(("d_dim",), dtype="float32")):
        e = R.exp(d)
        return e
note: the extent `n * 2` is called `d_dim`: no input binds its symbols
# => run irc extract a.ir --from d --to e,g -o -
@I.ir_module
class Module:
    @R.function
    def main(
        d: R.Tensor(("n * 2",), dtype="float32"),
        x: R.Tensor(("n",), dtype="float32"),
        i: R.Tensor((3,), dtype="int64"),
    ):
        n = T.int64()
        m = T.int64()
        e = R.exp(d)
        k = R.nonzero(i)
        kk: R.Tensor((1, m), dtype="int64") = R.match_cast(k, R.Tensor((1, m), dtype="int64"))
        f = R.full(R.shape([m, n]), R.const(1.0, "float32"), dtype="float32")
        g = R.sum(R.add(f, x), axis=[0])
        return (e, g)
note: `x` stays an input: it is still needed
note: `i` stays an input: it is still needed
# => run irc extract a.ir --from x,kk --to f -o -
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32"), kk: R.Tensor((1, "m"), dtype="int64")):
        n = T.int64()
        m = T.int64()
        f = R.full(R.shape([m, n]), R.const(1.0, "float32"), dtype="float32")
        return f
# => run irc extract a.ir --from x,k --to g -o -
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32"), k: R.Tensor((1, "nonzero_n"), dtype="int64")):
        n = T.int64()
        m = T.int64()
        kk: R.Tensor((1, m), dtype="int64") = R.match_cast(k, R.Tensor((1, m), dtype="int64"))
        f = R.full(R.shape([m, n]), R.const(1.0, "float32"), dtype="float32")
        g = R.sum(R.add(f, x), axis=[0])
        return g
# => run irc extract a.ir --from e --to g -o -
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32"), i: R.Tensor((3,), dtype="int64")):
        n = T.int64()
        m = T.int64()
        k = R.nonzero(i)
        kk: R.Tensor((1, m), dtype="int64") = R.match_cast(k, R.Tensor((1, m), dtype="int64"))
        f = R.full(R.shape([m, n]), R.const(1.0, "float32"), dtype="float32")
        g = R.sum(R.add(f, x), axis=[0])
        return g
note: `e` is not needed for what is wanted

# --- loops_stay_whole
# => file a.ir
@I.ir_module
class Module:
    @T.prim_func
    def copy(x: T.Buffer((2,), "float32"), y: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.sblock("y"):
                v_i = T.axis.spatial(2, i)
                y[v_i] = x[v_i]

    @R.function(private=True)
    def step(i: R.Tensor((), dtype="int64"), h: R.Tensor((2,), dtype="float32")):
        g = R.add(h, h)
        return g

    @R.function
    def main(x: R.Tensor((2,), dtype="float32"), s: R.Seq(R.Tensor((2,), dtype="float32"))):
        cls = Module
        a = R.exp(x)
        l = I.while_loop(cls.step, 3, None, (a,), (), out_ty=[R.Tensor((2,), dtype="float32")])
        t = I.seq_insert(s, l, None)
        y = R.negative(l)
        return (y, t)
# => run irc extract a.ir --from a --to l -o -
@I.ir_module
class Module:
    @R.function(private=True)
    def step(i: R.Tensor((), dtype="int64"), h: R.Tensor((2,), dtype="float32")):
        g = R.add(h, h)
        return g

    @R.function
    def main(a: R.Tensor((2,), dtype="float32")):
        cls = Module
        l = I.while_loop(cls.step, 3, None, (a,), (), out_ty=[R.Tensor((2,), dtype="float32")])
        return l
# => run irc extract a.ir --from l,s --to t -o -
@I.ir_module
class Module:
    @R.function
    def main(l: R.Tensor((2,), dtype="float32"), s: R.Seq(R.Tensor((2,), dtype="float32"))):
        t = I.seq_insert(s, l, None)
        return t
# => run irc extract a.ir --to g -o -
error[illegal-cut]: `main` has no value `g`
[exit 1]
# => run irc extract a.ir --function copy --to y -o -
[illegal-cut] Error: `copy` is written in loops, and has no values to cut at
   ╭─[ a.ir:4:9 ]
   │
 4 │     def copy(x: T.Buffer((2,), "float32"), y: T.Buffer((2,), "float32")):
   │         ──┬─
   │           ╰─── a prim_func
───╯
[exit 1]

# --- blocks_of_dataflow_are_taken_apart
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        with R.dataflow():
            # inside
            lv = R.exp(x)
            lv1 = R.negative(lv)
            gv = R.add(lv1, x)
            R.output(gv)
        return gv
# => run irc extract a.ir --from lv --to lv1 -o -
@I.ir_module
class Module:
    @R.function
    def main(lv: R.Tensor((2,), dtype="float32")):
        lv1 = R.negative(lv)
        return lv1
# => run irc extract a.ir --from lv1 -o -
@I.ir_module
class Module:
    @R.function
    def main(lv1: R.Tensor((2,), dtype="float32"), x: R.Tensor((2,), dtype="float32")):
        gv = R.add(lv1, x)
        return gv
note: `x` stays an input: it is still needed
# => run irc run a.ir --trace-values v.jsonl --input x=[0,0]
# => is v.jsonl
{"dtype":"float32","inf":0,"max":1.0,"mean":1.0,"min":1.0,"name":"lv","nan":0,"shape":[2]}
{"dtype":"float32","inf":0,"max":-1.0,"mean":-1.0,"min":-1.0,"name":"lv1","nan":0,"shape":[2]}
{"dtype":"float32","inf":0,"max":-1.0,"mean":-1.0,"min":-1.0,"name":"gv","nan":0,"shape":[2]}
# => run irc build a.ir
# => run irc extract a.so --to lv -o -
error[illegal-cut]: tensors have their places already; the program that it was made of has values
[exit 1]
# => run irc merge a.so a.ir -o -
error[illegal-merge]: tensors have their places already; the program that it was made of has values
[exit 1]
# => run irc print a.so -o planned.ir
# => run irc run planned.ir --sane
error: the values inside `main` cannot be seen: tensors have their places already; the program that it was made of has values
[exit 4]

# --- private_functions_are_seen_by_the_interpreter
# => file a.ir
@I.ir_module
class Module:
    @R.function(private=True)
    def f(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        y = R.log(x)
        return y

    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        cls = Module
        y = cls.f(x)
        return y
# => run irc run a.ir --function f --sane --input x=[1,-1] --interp --message-format short
a.ir:5:9: error[value-not-finite]: `y` is not finite: 1 NaN of 2 values
[exit 1]
# => run irc run a.ir --function f --sane --input x=[1,-1]
error: the values inside `f` cannot be seen: compiled, it is called by its module only
[exit 4]
# => run irc run a.ir --sane --input x=[1,-1] --message-format short
a.ir:11:9: error[value-not-finite]: `y` is not finite: 1 NaN of 2 values
[exit 1]
# => run irc run a.ir --function g --sane
error: there is no function `g`; there are: f, main
[exit 2]

# --- two_modules_in_one
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32")):
        y = R.exp(x)
        return y
# => file b.ir
@I.ir_module
class Other:
    @R.function(private=True)
    def f(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        y = R.sin(x)
        return y

    @R.function
    def main(x: R.Tensor(("n",), dtype="float32")):
        cls = Other
        y = cls.f(x)
        return y
# => run irc merge a.ir b.ir -o c.ir
note: the second function `main` is called `main_1`
# => is c.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), dtype="float32")):
        y = R.exp(x)
        return y

    @R.function(private=True)
    def f(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        y = R.sin(x)
        return y

    @R.function
    def main_1(x: R.Tensor(("n",), dtype="float32")):
        cls = Module
        y = cls.f(x)
        return y
# => run irc run c.ir --function main_1 --input x=[0]
out: float32[1] 0
# => run irc merge a.ir none.ir -o c.ir
error[file]: `none.ir` cannot be read: No such file or directory (os error 2)
[exit 3]

# --- one_function_of_two
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), dtype="float32"), w: R.Tensor((2,), dtype="float32")):
        R.func_attr({"num_input": 1})
        y = R.add(x, w)
        i = R.nonzero(R.astype(x, "bool"))
        return (R.exp(y), i, x)
# => file b.ir
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", "m"), dtype="float32"),
        q: R.Tensor(("k", "m"), dtype="float32"),
        w: R.Tensor((3,), dtype="float32"),
    ):
        R.func_attr({"irc.dims": {"k": {"min": 2}, "n": {"max": 7}}, "num_input": 2})
        n = T.int64()
        m = T.int64()
        k = T.int64()
        y = R.add(x, q)
        flat = R.reshape(y, R.shape([n * m]))
        v = R.concat((flat, w), axis=0)
        return v
# => file c.ir
@I.ir_module
class Module:
    @R.function
    def main(i: R.Tensor((2, "k"), dtype="int64")):
        k = T.int64()
        z = R.full(R.shape([k]), R.const(1.0, "float32"), dtype="float32")
        return z
# => run irc merge a.ir b.ir --map out0=x -o -
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 2), dtype="float32"),
        q: R.Tensor(("k", 2), dtype="float32"),
        w: R.Tensor((2,), dtype="float32"),
        w_1: R.Tensor((3,), dtype="float32"),
    ):
        k = T.int64()
        R.func_attr({"irc.dims": {"k": {"min": 2}, "n": {"max": 7}}, "num_input": 2})
        y = R.add(x, w)
        i = R.nonzero(R.astype(x, "bool"))
        x_1 = R.exp(y)
        y_1 = R.add(x_1, q)
        flat = R.reshape(y_1, R.shape([n * 2]))
        v = R.concat((flat, w_1), axis=0)
        return (i, x, v)
note: the second weight `w` is called `w_1`
note: 2 names of the second function got a number
# => run irc merge a.ir b.ir --map out0=x,out2=q -o -
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 2), dtype="float32"),
        w: R.Tensor((2,), dtype="float32"),
        w_1: R.Tensor((3,), dtype="float32"),
    ):
        R.func_attr({"irc.dims": {"n": {"min": 2, "max": 7}}, "num_input": 1})
        y = R.add(x, w)
        i = R.nonzero(R.astype(x, "bool"))
        x_1 = R.exp(y)
        y_1 = R.add(x_1, x)
        flat = R.reshape(y_1, R.shape([n * 2]))
        v = R.concat((flat, w_1), axis=0)
        return (i, v)
note: the second weight `w` is called `w_1`
note: 2 names of the second function got a number
# => run irc merge a.ir b.ir --map y=x,x=q -o -
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 2), dtype="float32"),
        w: R.Tensor((2,), dtype="float32"),
        w_1: R.Tensor((3,), dtype="float32"),
    ):
        R.func_attr({"irc.dims": {"n": {"min": 2, "max": 7}}, "num_input": 1})
        y = R.add(x, w)
        i = R.nonzero(R.astype(x, "bool"))
        y_1 = R.add(y, x)
        flat = R.reshape(y_1, R.shape([n * 2]))
        v = R.concat((flat, w_1), axis=0)
        return (R.exp(y), i, v)
note: the second weight `w` is called `w_1`
note: 2 names of the second function got a number
# => run irc merge a.ir c.ir --map i=i -o -
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), dtype="float32"), w: R.Tensor((2,), dtype="float32")):
        k = T.int64()
        R.func_attr({"num_input": 1})
        y = R.add(x, w)
        i = R.nonzero(R.astype(x, "bool"))
        i_1 = R.match_cast(i, R.Tensor((2, k), dtype="int64"))
        z = R.full(R.shape([k]), R.const(1.0, "float32"), dtype="float32")
        return (R.exp(y), x, z)
# => run irc merge a.ir c.ir --map out0=i -o -
[illegal-merge] Error: `out0` is a tensor (n, 2) float32, and the input `i` wants a tensor (2, k) int64
   ╭─[ c.ir:4:14 ]
   │
 4 │     def main(i: R.Tensor((2, "k"), dtype="int64")):
   │              ──────────────────┬─────────────────
   │                                ╰─────────────────── this input
───╯
[exit 1]
# => run irc merge a.ir b.ir --map out0=x,out2=x -o -
error[illegal-merge]: the input `x` is given twice
[exit 1]
# => run irc merge a.ir b.ir --map out3=x -o -
error[illegal-merge]: the first program has no value `out3`; its results are: out0, i, x
[exit 1]
# => run irc merge a.ir b.ir --map out0=z -o -
error[illegal-merge]: the second program has no input `z`; there are: x, q
[exit 1]
# => run irc merge a.ir b.ir --map out0 -o -
error: `out0` is not of the form OUT=IN
[exit 2]
# => run irc merge a.ir b.ir --map out0=x --then f -o -
error[illegal-merge]: there is no function `f`
[exit 1]

# --- weights_listed_and_changed
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((2,), dtype="float32"),
        w: R.Tensor((2,), dtype="float32"),
        b: R.Tensor((2,), dtype="float32"),
    ):
        R.func_attr({"num_input": 1})
        y = R.multiply(x, w)
        z = R.add(y, b)
        return z
# => run irc weights a.ir
w: R.Tensor((2,), dtype="float32") without contents
b: R.Tensor((2,), dtype="float32") without contents
2 weights of 0 bytes
# => run irc weights a.ir rename w=b b=w -o b.ir
# => is b.ir
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((2,), dtype="float32"),
        b: R.Tensor((2,), dtype="float32"),
        w: R.Tensor((2,), dtype="float32"),
    ):
        R.func_attr({"num_input": 1})
        y = R.multiply(x, b)
        z = R.add(y, w)
        return z
# => run irc weights a.ir rename w=z -o b.ir
error: `main` has a value `z` already
[exit 2]
# => run irc weights a.ir rename w=x+1 -o b.ir
error: `x+1` is no name of the language
[exit 2]
# => run irc weights a.ir rename ww=x -o b.ir
error: there is no weight `ww`
[exit 2]
# => run irc weights a.ir rename w -o b.ir
error: `w` is not of the form NAME=VALUE
[exit 2]
# => file loops.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")):
        y = R.exp(x)
        z = R.log(R.negative(y))
        return z
# => run irc run loops.ir --trace-values v.npz --input x=[[0,0,0],[1,2,3]]
# => run irc weights v.npz
y: float32[2, 3] 24 bytes f79e0b4cc479 min 1 max 20.085537 mean 5.532146
z: float32[2, 3] 24 bytes 3fbf182a570e 6 NaN
2 weights of 48 bytes
# => run irc weights v.npz convert --to safetensors -o v.safetensors
# => run irc weights v.safetensors rename y=one -o one.safetensors
# => run irc weights one.safetensors splat -1.5 -o two.npz
# => run irc weights two.npz --json
{
  "bytes": 48,
  "count": 2,
  "weights": [
    {
      "bytes": 24,
      "dtype": "float32",
      "inf": 0,
      "max": -1.5,
      "mean": -1.5,
      "min": -1.5,
      "name": "one",
      "nan": 0,
      "sha256": "d5f27050d541",
      "shape": [
        2,
        3
      ]
    },
    {
      "bytes": 24,
      "dtype": "float32",
      "inf": 0,
      "max": -1.5,
      "mean": -1.5,
      "min": -1.5,
      "name": "z",
      "nan": 0,
      "sha256": "d5f27050d541",
      "shape": [
        2,
        3
      ]
    }
  ]
}
# => run irc weights v.npz rename q=y -o one.npz
error: there is no weight `q`
[exit 2]
# => run irc weights v.npz rename y=z -o one.npz
error: two weights would be called `z`
[exit 2]
# => run irc weights v.npz strip -o one.npz
error: a file of weights is nothing without their contents
[exit 2]
# => run irc weights none.npz
error[file]: `none.npz` cannot be read: No such file or directory (os error 2)
[exit 3]
# => lists
a.ir
b.ir
loops.ir
one.safetensors
two.npz
v.npz
v.safetensors
