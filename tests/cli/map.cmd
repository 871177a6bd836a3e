# Maps, compiled and interpreted.

# --- a_map_is_keys_and_values
# => file map.ir
@I.ir_module
class Module:
    @R.function
    def main(x_keys: R.Tensor(("k",), "string"), x_values: R.Tensor(("k",), "int64"), s: R.Tensor((), "float32")):
        R.func_attr({"irc.maps": {"inputs": {"x": 0}, "results": {"z": 1}}})
        k = T.int64()
        row = R.reshape(R.astype(x_values, "float32"), R.shape([1, k]))
        return s, x_keys, R.concat((row, row * s), axis=0)
# => run irc run map.ir --input x={"a":1,"b":2} --input s=0.5
out0: float32[] 0.5
z: a list of 2 maps
z[0]: {"a": 1, "b": 2}
z[1]: {"a": 0.5, "b": 1}
# => run irc run map.ir --interp --input x={"a":1,"b":2} --input s=0.5
out0: float32[] 0.5
z: a list of 2 maps
z[0]: {"a": 1, "b": 2}
z[1]: {"a": 0.5, "b": 1}
# => run irc run map.ir --input x={} --input s=0.5
out0: float32[] 0.5
z: a list of 2 maps
z[0]: {}
z[1]: {}
# => run irc run map.ir --input x_keys=["a"] --input x_values=[3] --input s=0.5
out0: float32[] 0.5
z: a list of 2 maps
z[0]: {"a": 3}
z[1]: {"a": 1.5}
# => run irc run map.ir --input x=[1] --input s=0.5
error: `[1]`: this is no map
[exit 2]
# => run irc run map.ir --input x={"a":"b"} --input s=0.5
error: `{"a":"b"}`: "b" is no int64
[exit 2]

# --- pairs_that_are_no_maps
# => file map.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("k",), "float32"), y: R.Tensor(("k",), "int64")):
        R.func_attr({"irc.maps": {"inputs": {"x": 0}}})
        k = T.int64()
        return x, y
# => run irc build map.ir -o net.so
[entry-type] Error: `irc.maps` of `main` says that `x` has keys and values at 0 and 1, which are not such tensors
   ╭─[ map.ir:4:9 ]
   │
 4 │     def main(x: R.Tensor(("k",), "float32"), y: R.Tensor(("k",), "int64")):
   │         ──┬─
   │           ╰─── public function
   │
   │ Note: keys are a vector of strings or int64, values of strings, int64 or floats
───╯
[exit 1]
