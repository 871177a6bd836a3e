# The values inside a function: compared, written out, looked at

# --- the_first_value_that_differs_from_another_program
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 2), dtype="float32")):
        n = T.int64()
        h = R.add(x, R.const([1.0, 2.0], "float32"))
        u = R.multiply(h, R.const(2.0, "float32"))
        y = R.negative(u)
        return y
# => file b.ir
@I.ir_module
class Module:
    @R.function
    def main(input: R.Tensor(("n", 2), dtype="float32")):
        n = T.int64()
        sum = R.add(input, R.const([1.0, 2.0], "float32"))
        u = R.multiply(sum, R.const(2.5, "float32"))
        y = R.negative(u)
        return y
# => run irc run a.ir --against b.ir --input x=[[0,0],[1,-3]] --message-format short
a.ir:7:9: error[value-diverges]: `u` differs: 4 of 4 values differ, first 2 not 2.5 at [0, 0]
[exit 1]
# => run irc run a.ir --against b.ir --input x=[[0,0],[1,-3]] --interp
[value-diverges] Error: `u` differs: 4 of 4 values differ, first 2 not 2.5 at [0, 0]
   ╭─[ a.ir:7:9 ]
   │
 7 │         u = R.multiply(h, R.const(2.0, "float32"))
   │         ─────────────────────┬────────────────────
   │                              ╰────────────────────── first value that differs
   │
   │ Note 1: float32[2, 2], most at [0, 1]: 4 not 5
   │
   │ Note 2: largest difference 1, relative 0.2
   │
   │ Note 3: `h` agrees
───╯
[exit 1]
# => run irc run a.ir --against b.ir --input x=[[0,0],[1,-3]] --tol 0.3
4 values agree
# => run irc run a.ir --against a.ir --size n=3
4 values agree
# => run irc run a.ir --against b.ir
error: input `x` needs a size: --size n=…
[exit 2]
# => run irc run a.ir --against none.ir --size n=1
error: cannot read none.ir: No such file or directory (os error 2)
[exit 3]
# => run irc build a.ir
# => run irc run a.so --against b.ir --input x=[[0,0],[1,-3]]
error[value-diverges]: the result `out` differs: 4 of 4 values differ, first -2 not -2.5 at [0, 0]
  note: float32[2, 2], most at [0, 1]: -4 not -5
  note: largest difference 1, relative 0.2
[exit 1]
# => run irc run a.so --against interp --size n=1
error: a.so has no text to interpret: give the program that it was made of
[exit 4]
# => run irc run a.so --sane --size n=1
error: the values inside a.so cannot be seen: give the program that it was made of
[exit 4]

# --- names_that_moved_are_matched_by_what_they_compute
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        lv1 = R.exp(x)
        lv2 = R.sin(lv1)
        return lv2
# => file b.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        lv = R.negative(x)
        lv1 = R.negative(lv)
        lv2 = R.exp(lv1)
        lv3 = R.sin(lv2)
        return lv3
# => run irc run a.ir --against b.ir --interp
3 values agree

# --- compiled_code_beside_the_interpreter
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        h = R.add(x, x)
        y = R.tanh(h)
        return R.negative(y)
# => run irc run a.ir --against interp
1 value agrees
# => run irc run a.ir --against interp --interp
3 values agree
# => run irc run a.ir --against interp --tol 0,0 --cpu x86-64-v2
[value-diverges] Error: `y` differs: 2 of 4 values differ, first -0.7834253907203674 not -0.7834253311157227 at [0]
   ╭─[ a.ir:6:9 ]
   │
 6 │         y = R.tanh(h)
   │         ──────┬──────
   │               ╰──────── first value that differs
   │
   │ Note 1: float32[4], most at [0]: -0.7834254 not -0.78342533
   │
   │ Note 2: largest difference 5.960e-8, relative 1.098e-7
   │
   │ Note 3: `h` agrees
───╯
[exit 1]
# => run irc run a.ir --against interp --tol nan
1 value agrees

# --- values_are_written
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), dtype="float32"), c: R.Tensor((), dtype="bool")):
        s = R.split(x, 2, axis=1)
        a, b = R.split(s[1], 2, axis=0)
        n = R.astype(a, "int64")
        if c:
            t = R.exp(x)
            y = R.negative(t)
        else:
            y = R.divide(x, x)
        return R.add(y, y)
# => run irc run a.ir --trace-values v.jsonl --input x=[[0,1],[2,3]] --input c=0
# => is v.jsonl
{"dtype":"float32","inf":0,"max":2.0,"mean":1.0,"min":0.0,"name":"s.0","nan":0,"shape":[2,1]}
{"dtype":"float32","inf":0,"max":3.0,"mean":2.0,"min":1.0,"name":"s.1","nan":0,"shape":[2,1]}
{"dtype":"float32","inf":0,"max":1.0,"mean":1.0,"min":1.0,"name":"a","nan":0,"shape":[1,1]}
{"dtype":"float32","inf":0,"max":3.0,"mean":3.0,"min":3.0,"name":"b","nan":0,"shape":[1,1]}
{"dtype":"int64","inf":0,"max":1.0,"mean":1.0,"min":1.0,"name":"n","nan":0,"shape":[1,1]}
{"dtype":"float32","inf":0,"max":1.0,"mean":1.0,"min":1.0,"name":"y","nan":1,"shape":[2,2]}
# => run irc run a.ir --trace-values v.jsonl --input x=[[0,1],[2,3]] --input c=1 --interp
# => is v.jsonl
{"dtype":"float32","inf":0,"max":2.0,"mean":1.0,"min":0.0,"name":"s.0","nan":0,"shape":[2,1]}
{"dtype":"float32","inf":0,"max":3.0,"mean":2.0,"min":1.0,"name":"s.1","nan":0,"shape":[2,1]}
{"dtype":"float32","inf":0,"max":1.0,"mean":1.0,"min":1.0,"name":"a","nan":0,"shape":[1,1]}
{"dtype":"float32","inf":0,"max":3.0,"mean":3.0,"min":3.0,"name":"b","nan":0,"shape":[1,1]}
{"dtype":"int64","inf":0,"max":1.0,"mean":1.0,"min":1.0,"name":"n","nan":0,"shape":[1,1]}
{"dtype":"float32","inf":0,"max":20.08553695678711,"mean":7.798218727111816,"min":1.0,"name":"t","nan":0,"shape":[2,2]}
{"dtype":"float32","inf":0,"max":-1.0,"mean":-7.798218727111816,"min":-20.08553695678711,"name":"y","nan":0,"shape":[2,2]}
# => run irc run a.ir --trace-values v.npz --input x=[[0,1],[2,3]] --input c=1
# => run irc run a.ir --against v.npz --input x=[[0,1],[2,3]] --input c=1 --interp
6 values agree
note: 1 value without a counterpart: t
# => run irc run a.ir --against v.npz --input x=[[0,1],[2,4]] --input c=1 --interp
[value-diverges] Error: `s.1` differs: 1 of 2 values differ, first 4 not 3 at [1, 0]
   ╭─[ a.ir:5:9 ]
   │
 5 │         s = R.split(x, 2, axis=1)
   │         ────────────┬────────────
   │                     ╰────────────── first value that differs
   │
   │ Note 1: float32[2, 1], most at [1, 0]: 4 not 3
   │
   │ Note 2: largest difference 1, relative 0.3333
   │
   │ Note 3: `x` agrees
───╯
[exit 1]

# --- the_first_value_that_is_not_finite
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), dtype="float32")):
        mask = R.const([0.0, -I.inf, 0.0], "float32")
        masked = R.add(x, mask)
        top = R.max(masked, axis=[0], keepdims=True)
        y = R.exp(masked)
        z = R.divide(y, R.subtract(top, R.const(1.0, "float32")))
        w = R.multiply(z, y)
        return w
# => run irc run a.ir --sane --input x=[0,1,2]
7 values are sane
# => run irc run a.ir --sane --input x=[0,5,1]
[value-not-finite] Error: `z` is not finite: 1 NaN and 2 infinite of 3 values
   ╭─[ a.ir:9:9 ]
   │
 9 │         z = R.divide(y, R.subtract(top, R.const(1.0, "float32")))
   │         ────────────────────────────┬────────────────────────────
   │                                     ╰────────────────────────────── first here
   │
   │ Note 1: float32[3], first inf at [0]
   │
   │ Note 2: `y`, `top` are finite
───╯
[exit 1]
# => run irc run a.ir --sane --input x=[0,5,1] --interp --message-format short
a.ir:9:9: error[value-not-finite]: `z` is not finite: 1 NaN and 2 infinite of 3 values
[exit 1]
# => file nan.npz
not an archive
# => run irc run a.ir --against nan.npz
[syntax] Error: an operator or the end of the line is missing before name `archive`
   ╭─[ nan.npz:1:8 ]
   │
 1 │ not an archive
   │        ───┬───
   │           ╰───── stands side by side
───╯
[exit 1]

# --- values_without_a_form
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="string"), s: R.Seq(R.Tensor((2,), dtype="float32"))):
        y = R.str.upper(x)
        t = I.seq_insert(s, R.const([5.0, 6.0], "float32"), None)
        e = R.const([], "float32")
        return (y, t, e)
# => run irc run a.ir --trace-values v.npz --input x=["a","b"] --input s=[1,2]
note: 1 value of text is left out: `.npz` has no form of it
# => run irc run a.ir --against v.npz --input x=["a","b"] --input s=[1,2]
1 value agrees
note: 2 values without a counterpart: y, t
# => run irc run a.ir --trace-values v.jsonl --input x=["a","b"] --input s=[1,2] --interp
# => is v.jsonl
{"dtype":"string","name":"y","shape":[2]}
{"dtype":"float32","inf":0,"max":2.0,"mean":1.5,"min":1.0,"name":"t.0","nan":0,"shape":[2]}
{"dtype":"float32","inf":0,"max":6.0,"mean":5.5,"min":5.0,"name":"t.1","nan":0,"shape":[2]}
{"dtype":"float32","inf":0,"max":null,"mean":null,"min":null,"name":"e","nan":0,"shape":[0]}
# => run irc run a.ir --against interp --input x=["a","b"] --input s=[1,2]
3 values agree
# => run irc run a.ir --sane --input x=["a","b"] --input s=[1,2]
6 values are sane
# => run irc run a.ir --trace-values v.npz
error: input `s` has to be given: --input s=@FILE
[exit 2]
# => run irc run a.ir --input s=[1,2] --size n=2
error: the following required arguments were not provided:
  <--profile|--against <B>|--trace-values <FILE>|--sane>

Usage: irc run --input <NAME=VALUE> --size <SYMBOL=NUMBER> <--profile|--against <B>|--trace-values <FILE>|--sane> <FILE>

For more information, try '--help'.
[exit 2]
