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
# => run irc opt -p normalize,legalize,simplify --dump-dir steps -o out.ir a.ir
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
# => run irc opt --verify -o out.ir net.ir
