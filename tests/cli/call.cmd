# Calls of functions whose results are not annotated.

# --- the_type_of_a_call_is_that_of_the_body
# => file call.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("m", 4), "float32")):
        m = T.int64()
        a, b = cls.f(x)
        return a + R.sum(b), cls.g(x)

    @R.function(private=True)
    def f(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        y = R.sum(x, axis=[1])
        return y, x

    @R.function(private=True)
    def g(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        return cls.h(R.reshape(x, R.shape([4 * n])))

    @R.function(private=True)
    def h(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.nonzero(x)
# => run irc run call.ir --input x=[[1,0,3,4]]
out0: float32[1] 16
out1: int64[1, 3] 0 2 3
# => run irc run call.ir --interp --input x=[[1,0,3,4]]
out0: float32[1] 16
out1: int64[1, 3] 0 2 3
