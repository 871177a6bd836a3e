# irc print

# --- types
# => file a.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    y = R.exp(x)
    z: R.Tensor = R.add(y, x)
    return z
# => run irc print a.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    y = R.exp(x)
    z: R.Tensor = R.add(y, x)
    return z
# => run irc print --types all a.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    y: R.Tensor((2, 3), dtype="float32") = R.exp(x)
    z: R.Tensor((2, 3), dtype="float32") = R.add(y, x)
    return z
# => run irc print --types sig a.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    y = R.exp(x)
    z = R.add(y, x)
    return z
# => run irc print --types none a.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")):
    y = R.exp(x)
    z = R.add(y, x)
    return z
