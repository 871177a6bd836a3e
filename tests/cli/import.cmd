# irc import

# --- to_stdout
# => copy net.onnx tests/onnx/models/unsorted.onnx
# => run irc import net.onnx
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        t = R.abs(x)
        y = R.negative(t)
        return y

# --- a_dash_is_stdout_too
# => copy net.onnx tests/onnx/models/unsorted.onnx
# => run irc import net.onnx -o -
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        t = R.abs(x)
        y = R.negative(t)
        return y

# --- weights_go_beside_the_text
# => copy shapes.onnx examples/shapes/shapes.onnx
# => run irc import shapes.onnx -o net.ir
# => run irc check net.ir
# => run irc info net.ir
main
  <- picture: R.Tensor(("batch", 1, 24, 24), dtype="float32")
  1 R.add
  1 R.mean
  2 R.nn.max_pool2d
  3 R.nn.relu
  1 R.nn.softmax
  1 R.reshape
  3 onnx.Conv
  1 onnx.Gemm
weights: 6 of 32112 bytes
# => lists
net.ir
net.safetensors
shapes.onnx

# --- stdin
# => copy shapes.onnx examples/shapes/shapes.onnx
# => run irc import - -o net.ir < shapes.onnx
# => lists
net.ir
net.safetensors
shapes.onnx

# --- what_is_no_model
# => file bad.onnx
not a model
# => run irc import bad.onnx -o net.ir
error[onnx-unreadable]: not a complete ONNX file: a field has an unknown wire type at byte 0
[exit 1]
# => lists
bad.onnx

# --- a_file_that_is_not_there
# => run irc import none.onnx
error[file]: `none.onnx` cannot be read: No such file or directory (os error 2)
[exit 3]

# --- what_is_not_supported
# => copy net.onnx tests/onnx/models/bad_operators.onnx
# => run irc import net.onnx -o net.ir
error[onnx-unsupported]: operator Blur (operator set 17) is not supported; it is used by node `g` (Blur), node `h` (Blur)
  help: a function `@R.function(op="onnx.Blur")` in a file that `--ops` names gives it a meaning
error[onnx-unsupported]: operator com.example.Fused (version 1) is not supported; it is used by node `f` (Fused)
  help: a function `@R.function(op="onnx.example.Fused")` in a file that `--ops` names gives it a meaning
[exit 4]
# => lists
net.onnx

# --- a_folder_that_is_not_there
# => copy shapes.onnx examples/shapes/shapes.onnx
# => run irc import shapes.onnx -o none/net.ir
error: cannot write none/net.safetensors: No such file or directory (os error 2)
[exit 3]
# => lists
shapes.onnx
