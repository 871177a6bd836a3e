# irc opt

# --- chosen_passes
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        y = (x + 1.0) * 2.0
        return y
# => run irc opt -p normalize,fuse a.ir
@I.ir_module
class Module:
    @R.function(private=True)
    def fused_add_multiply(p0: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        R.func_attr({"op_pattern": 0})
        lv0 = R.add(p0, R.const(1.0, "float32"))
        lv1 = R.multiply(lv0, R.const(2.0, "float32"))
        return lv1

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        y = cls.fused_add_multiply(x)
        return y
# => run irc opt -p normalize --dump-after normalize -o out.ir a.ir
# after normalize
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        lv = R.add(x, R.const(1.0, "float32"))
        y = R.multiply(lv, R.const(2.0, "float32"))
        return y
# => is out.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        lv = R.add(x, R.const(1.0, "float32"))
        y = R.multiply(lv, R.const(2.0, "float32"))
        return y
# => run irc opt -p normalize -o - a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        lv = R.add(x, R.const(1.0, "float32"))
        y = R.multiply(lv, R.const(2.0, "float32"))
        return y
# => run irc opt -p normalize - < a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        lv = R.add(x, R.const(1.0, "float32"))
        y = R.multiply(lv, R.const(2.0, "float32"))
        return y

# --- a_folder_of_steps
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        return R.nn.relu(x)
# => run irc opt -p normalize,legalize,simplify --dump steps --changed -o out.ir a.ir
note: `simplify` changed nothing
# => is steps/02-legalize.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        gv = R.maximum(x, R.const(0.0, "float32"))
        return gv

# --- a_pass_that_is_none
# => file a.ir
x = 1
# => run irc opt -p nothing a.ir
error[unknown-pass]: no pass has the name `nothing`; `irc opt --list` lists them
[exit 2]

# --- a_text_with_errors
# => file a.ir
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    return R.matmul(x, y)
# => run irc opt a.ir
[unknown-name] Error: `y` is not defined
   ╭─[ a.ir:3:24 ]
   │
 3 │     return R.matmul(x, y)
   │                        ┬
   │                        ╰── not defined
───╯
[exit 1]

# --- without_a_file
# => run irc opt
error: the following required arguments were not provided:
  <FILE>

Usage: irc opt <FILE>

For more information, try '--help'.
[exit 2]

# --- passes_keep_their_promises
# => file net.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")):
    return R.nn.softmax(x), R.nonzero(x)
# => run irc opt --until plan_memory --verify -o out.ir net.ir

# --- levels_and_what_they_do
# => file net.ir
@R.function
def main(
    x: R.Tensor(("n", 1, 4, 4), dtype="float32"),
):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    c = R.add(a, R.const([[[2.0]]], "float32"))
    d = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    y = R.multiply(R.add(b, c), d)
    return y
# => run irc opt -O0 net.ir
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    c = R.add(a, R.const([[[2.0]]], "float32"))
    d = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    y_1 = R.add(b, c)
    y = R.multiply(y_1, d)
    return y
# => run irc opt -O1 net.ir
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    y_1 = R.add(b, b)
    y = R.multiply(y_1, R.const(3.0, "float32"))
    return y
# => run irc opt net.ir --summary --check-values --remarks
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    b = onnx.Conv(
        x,
        R.const([[[[0.5]]]], "float32"),
        R.const([2.0], "float32"),
        dilations=[1, 1],
        group=1,
        kernel_shape=[1, 1],
        pads=[0, 0, 0, 0],
        strides=[1, 1],
        since=1,
    )
    y_1 = R.add(b, b)
    y = R.multiply(y_1, R.const(3.0, "float32"))
    return y
note[normalize]: the module is rewritten: one operator a binding, unique names
[fold_constants] Advice: `d` is rewritten: it is a constant
    ╭─[ net.ir:10:5 ]
    │
 10 │     d = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    │     ─────────────────────────────┬─────────────────────────────
    │                                  ╰─────────────────────────────── here
────╯
[common_subexpr] Advice: `c` is rewritten: it is `b`
   ╭─[ net.ir:9:5 ]
   │
 9 │     c = R.add(a, R.const([[[2.0]]], "float32"))
   │     ─────────────────────┬─────────────────────
   │                          ╰─────────────────────── here
───╯
[fuse_add_bias_into_conv] Advice: `b` is rewritten
   ╭─[ net.ir:8:9 ]
   │
 8 │     b = R.add(a, R.const([[[2.0]]], "float32"))
   │         ───────────────────┬───────────────────
   │                            ╰───────────────────── here
───╯
main                      before    after
operators                      5        3
parameters                     0        0
bytes of parameters            0        0
FLOPs                 n * 96 + 1   n * 80
bytes moved          n * 576 + 8  n * 384
bytes alive at most  n * 192 + 4  n * 128
  R.add                        3        1
  R.nn.conv2d                  1        0
  onnx.Conv                    0        1
note: 4 passes changed the program, and no answer
# => run irc opt net.ir --fuel 1 --dim n=3
@R.function
def main(x: R.Tensor((3, 1, 4, 4), dtype="float32")):
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    c = R.add(a, R.const([[[2.0]]], "float32"))
    y_1 = R.add(b, c)
    y = R.multiply(y_1, R.const(3.0, "float32"))
    return y
# => run irc opt net.ir --skip common_subexpr,fold_constants
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    c = R.add(a, R.const([[[2.0]]], "float32"))
    d = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    y_1 = R.add(b, c)
    y = R.multiply(y_1, d)
    return y
# => run irc opt net.ir --only common_subexpr --remarks=done
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    d = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    y_1 = R.add(b, b)
    y = R.multiply(y_1, d)
    return y
note[normalize]: the module is rewritten: one operator a binding, unique names
[common_subexpr] Advice: `c` is rewritten: it is `b`
   ╭─[ net.ir:9:5 ]
   │
 9 │     c = R.add(a, R.const([[[2.0]]], "float32"))
   │     ─────────────────────┬─────────────────────
   │                          ╰─────────────────────── here
───╯
# => run irc opt net.ir --until fold_constants
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    c = R.add(a, R.const([[[2.0]]], "float32"))
    y_1 = R.add(b, c)
    y = R.multiply(y_1, R.const(3.0, "float32"))
    return y
# => run irc opt net.ir --dim m=3
error[unknown-size]: no input has the symbol `m`; the symbols are: n
[exit 2]
# => run irc opt net.ir --skip comon_subexpr
error[unknown-pass]: no pass has the name `comon_subexpr`; `common_subexpr` is one; `irc opt --list` lists them
[exit 2]
# => run irc opt net.ir -p normalize(a=3)
error[pass-argument]: `normalize` has no argument `a`; it has: none
[exit 2]
# => run irc opt net.ir -p bind_symbols(n=two)
error[pass-argument]: `n=two` of `bind_symbols` is not of the form `name=4`
[exit 2]
# => run irc opt net.ir -p bind_symbols(n=2
error[pass-argument]: the arguments of `bind_symbols` have no `)`
[exit 2]
# => run irc opt net.ir -p normalize,common_subexpr --dump steps --trace trace.json -o out.ir
# => is steps/02-common_subexpr.ir
@R.function
def main(x: R.Tensor(("n", 1, 4, 4), dtype="float32")):
    n = T.int64()
    # The first layer.
    a = R.nn.conv2d(x, R.const([[[[0.5]]]], "float32"))
    b = R.add(a, R.const([[[2.0]]], "float32"))
    d = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
    y_1 = R.add(b, b)
    y = R.multiply(y_1, d)
    return y
