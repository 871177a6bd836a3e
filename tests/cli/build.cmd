# irc build

# --- everything_at_once
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        return R.exp(x)
# => run irc build a.ir -o out.so --emit ir,loops,scheduled,clif,asm,obj,so,h --cpu x86-64-v2
kernels: 0 of 0 regions by the vector emitter
# => lists
a.ir
out.clif
out.h
out.ir
out.loops.ir
out.o
out.s
out.scheduled.ir
out.so
# => is out.ir
@I.ir_module
class Module:
    I.module_attrs({
        "irc.source": "cd06fed62805ea328cff544ae5f5a8fc6fb8f2660e80f86b47854ebbf2de74d9"
    })

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        gv = R.exp(x)
        return gv
# => is out.loops.ir
@I.ir_module
class Module:
    I.module_attrs({
        "irc.source": "cd06fed62805ea328cff544ae5f5a8fc6fb8f2660e80f86b47854ebbf2de74d9"
    })

    @T.prim_func(private=True)
    def exp(p0: T.Buffer((4,), "float32"), lv0: T.Buffer((4,), "float32")):
        T.func_attr({"op_pattern": 0, "tirx.noalias": True})
        for ax0 in range(4):
            with T.sblock("lv0"):
                v_ax0 = T.axis.spatial(4, ax0)
                lv0[v_ax0] = T.exp(p0[v_ax0])

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        gv = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((4,), dtype="float32"))
        return gv

# --- a_text_goes_to_stdout
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        return R.exp(x)
# => run irc build a.ir --emit ir
@I.ir_module
class Module:
    I.module_attrs({
        "irc.source": "cd06fed62805ea328cff544ae5f5a8fc6fb8f2660e80f86b47854ebbf2de74d9"
    })

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        gv = R.exp(x)
        return gv
# => run irc build - --emit ir -o - < a.ir
@I.ir_module
class Module:
    I.module_attrs({
        "irc.source": "cd06fed62805ea328cff544ae5f5a8fc6fb8f2660e80f86b47854ebbf2de74d9"
    })

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        gv = R.exp(x)
        return gv
# => run irc build a.ir --emit scheduled --cpu x86-64-v2
@I.ir_module
class Module:
    I.module_attrs({
        "irc.source": "cd06fed62805ea328cff544ae5f5a8fc6fb8f2660e80f86b47854ebbf2de74d9"
    })

    @T.prim_func(private=True)
    def exp(p0: T.Buffer((4,), "float32"), lv0: T.Buffer((4,), "float32")):
        T.func_attr({"op_pattern": 0, "tirx.noalias": True})
        for ax0 in range(4):
            with T.sblock("lv0"):
                v_ax0 = T.axis.spatial(4, ax0)
                lv0[v_ax0] = T.exp(p0[v_ax0])

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        gv = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), 0)
        cls.exp(x, gv)
        return gv
kernels: 0 of 0 regions by the vector emitter
# => lists
a.ir

# --- bytes_do_not_go_to_stdout
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        return R.exp(x)
# => run irc build a.ir -o -
error: only one kind of text can go to stdout
[exit 2]
# => run irc build a.ir --emit ir,so -o -
error: only one kind of text can go to stdout
[exit 2]
# => lists
a.ir

# --- which_regions_are_refused
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((64,), dtype="float32")):
        return R.sinh(x)
# => run irc build -v a.ir -o a.so --cpu x86-64-v3
kernels: 0 of 1 regions by the vector emitter
  1 not: `T.sinh(p0[jo * 16 + vi])` is not for the vector emitter (first in sinh:lv0)

# --- two_instruction_sets_in_one_library
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 40), dtype="float32")):
        n = T.int64()
        return R.nn.softmax(x)
# => run irc build -v a.ir -o a.so --cpu x86-64-v3+v4
kernels: 1 of 1 regions by the vector emitter
# => run irc run a.ir --against interp --size n=3 --tol 1e-6,1e-6 --cpu x86-64-v3+v4
1 value agrees
# => run irc info a.so
main
  <- x: float32[n, 40]
  -> out: float32[n, 40]
  workspace: 0 bytes
irc: 0.1.0
target: x86_64-unknown-linux-gnu x86-64-v3+v4
source_sha256: 574cd74ed3318614b30746242c57cc61d8d983cec559c34c7fa99f2dc84bda29
weights: 0 of 0 bytes
kernels: 1 of 1 regions by the vector emitter

# --- objects_for_another_machine
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 40), dtype="float32")):
        n = T.int64()
        return R.nn.softmax(x)
# => run irc build a.ir -o a.o --emit obj,h --cpu aarch64
# => run irc build a.ir --cpu aarch64
error: irc links for x86-64, not for aarch64: `--emit obj,h` gives an object for another linker
[exit 4]
# => run irc run a.ir --size n=3 --cpu aarch64
error: invalid value 'aarch64' for '--cpu <CPU>': this machine is another one

For more information, try '--help'.
[exit 2]
# => lists
a.h
a.ir
a.o

# --- stdin_names_the_output_net
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        return R.exp(x)
# => run irc build - < a.ir
# => lists
a.ir
net.h
net.so

# --- a_text_with_errors_leaves_nothing
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")):
        return R.expo(x)
# => run irc build a.ir
[unknown-operator] Error: there is no operator `R.expo`
   ╭─[ a.ir:5:16 ]
   │
 5 │         return R.expo(x)
   │                ────┬────
   │                    ╰────── unknown operator
   │
   │ Help: write `R.exp`
───╯
[exit 1]
# => lists
a.ir

# --- what_is_not_supported
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Any):
        return x
# => run irc build a.ir
[unsupported-code] Error: `x` cannot be passed
   ╭─[ a.ir:4:14 ]
   │
 4 │     def main(x: R.Any):
   │              ────┬───
   │                  ╰─────
───╯
[exit 4]
# => lists
a.ir

# --- a_cpu_that_is_none
# => run irc build a.ir --cpu z80
error: invalid value 'z80' for '--cpu <CPU>': known are native, x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v3+v4, portable, aarch64

For more information, try '--help'.
[exit 2]

# --- a_file_that_is_not_there
# => run irc build none.ir
error[file]: `none.ir` cannot be read: No such file or directory (os error 2)
[exit 3]
