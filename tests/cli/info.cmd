# irc info

# --- a_text
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
        n = T.int64(min=1, max=64)
        return R.exp(R.add(x, x))
# => run irc info a.ir
main
  <- x: R.Tensor(("n", 4), dtype="float32")
  -> R.Tensor(("n", 4), dtype="float32")
  1 R.add
  1 R.exp
weights: 0 of 0 bytes
# => run irc info --json a.ir
{
  "functions": {
    "main": {
      "inputs": [
        {
          "name": "x",
          "type": "R.Tensor((\"n\", 4), dtype=\"float32\")"
        }
      ],
      "level": "graph",
      "operators": {
        "R.add": 1,
        "R.exp": 1
      },
      "returns": "R.Tensor((\"n\", 4), dtype=\"float32\")"
    }
  },
  "weights": {
    "bytes": 0,
    "count": 0
  }
}
# => run irc info - < a.ir
main
  <- x: R.Tensor(("n", 4), dtype="float32")
  -> R.Tensor(("n", 4), dtype="float32")
  1 R.add
  1 R.exp
weights: 0 of 0 bytes

# --- a_shared_object
# => file a.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
        n = T.int64(min=1, max=64)
        return R.exp(R.add(x, x))
# => run irc build a.ir -o a.so --cpu x86-64-v3
# => run irc info a.so
main
  <- x: float32[n, 4]
  -> out: float32[n, 4]
  n <= 64
  workspace: 0 bytes
irc: 0.1.0
target: x86_64-unknown-linux-gnu x86-64-v3
source_sha256: f446e25ab4fe01a8c5243aafe8d8b0893ab959c89cc12974a331d94844951c1c
weights: 0 of 0 bytes
kernels: 1 of 1 regions by the vector emitter

# --- a_text_with_errors
# => file a.ir
def f(
# => run irc info a.ir
[unclosed-bracket] Error: `(` is never closed
   ╭─[ a.ir:1:6 ]
   │
 1 │ def f(
   │      ┬ │
   │      ╰─── opened here
   │        │
   │        ╰─ the statement ends before this
───╯
[exit 1]

# --- a_file_that_is_not_there
# => run irc info none.so
error: cannot read none.so: No such file or directory (os error 2)
[exit 3]
