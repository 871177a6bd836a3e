# irc bench: what it refuses; what it measures differs every time

# --- sizes_and_inputs_are_needed
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32"), y: R.Tensor(("n",), dtype="float32")):
        z = R.add(x, R.reshape(y, R.shape([n, 1])))
        return z
# => run irc bench a.ir --threads 1
error: input `x` needs a size: --size n=…
[exit 2]
# => run irc bench a.ir --threads 1 --size n=many
error: `many` is no size of `n`
[exit 2]
# => run irc bench a.ir --threads 1 --size n=2 --input z=1
error: there is no input `z`; there are: x, y
[exit 2]
# => run irc bench a.ir --threads 1 --size n=2 --function other
error: there is no function `other`; there are: main
[exit 2]
# => run irc bench a.ir --threads 1 --size n=2 --input y=[1,2,3]
error: main: `y.shape[0]` is 3, wanted is 2: `n` is 2 by `x.shape[0]`
[exit 5]
# => run irc bench a.ir --threads 0
error: invalid value '0' for '--threads <N,…>': 0 is not in 1..=4294967295

For more information, try '--help'.
[exit 2]
# => run irc bench a.ir --fail-over 5%
error: the following required arguments were not provided:
  --baseline <FILE>

Usage: irc bench --baseline <FILE> --fail-over <PART> <FILE>...

For more information, try '--help'.
[exit 2]
# => run irc bench a.ir --baseline a.ir
error: a.ir is no baseline: expected value at line 1 column 1
[exit 3]
# => run irc bench missing.so
error: cannot read missing.so: No such file or directory (os error 2)
[exit 3]
