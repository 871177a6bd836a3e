# Tensors of strings, compiled and interpreted.

# --- strings_move_and_compare
# => file move.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "string"), i: R.Tensor((2,), "int64"), c: R.Tensor(("n", 3), "bool")):
        t = R.permute_dims(x)
        r = R.reshape(x, R.shape([3 * n]))
        g = R.take(x, i, axis=1)
        k = R.concat((x, x), axis=0)
        w = R.where(c, x, R.const("no", "string"))
        b = R.broadcast_to(R.const(["p", "", "q"], "string"), R.shape([2, 3]))
        s = R.strided_slice(x, axes=[1], begin=[2], end=[-4], strides=[-1])
        u, u1, u2, u3 = R.unique(r, sorted=True, return_index=True, return_inverse=True, return_counts=True)
        e = R.equal(x, R.const(["a", "b", "ÿ"], "string"))
        l = R.less(x, R.const("b", "string"))
        o = R.sort(r)
        sc = R.scatter_elements(x, R.const([[0, 0, 0]], "int64"), R.const([["X", "YY", "ZZZ"]], "string"), axis=0)
        f = R.full(R.shape([2]), R.const("fill", "string"))
        return t, r, g, k, w, b, s, u, u1, u2, u3, e, l, o, sc, f, x
    @R.function
    def scalar(x: R.Tensor((), "string")):
        return x
# => run irc run move.ir --input x=[["a","b","ccc"],["","ÿ","b"]] --input i=[2,0] --input c=[[True,False,True],[False,True,False]]
out0: string[3, 2] "a" "" "b" "ÿ" "ccc" "b"
out1: string[6] "a" "b" "ccc" "" "ÿ" "b"
out2: string[2, 2] "ccc" "a" "b" ""
out3: string[4, 3] "a" "b" "ccc" "" "ÿ" "b" "a" "b" "ccc" "" "ÿ" "b"
out4: string[2, 3] "a" "no" "ccc" "no" "ÿ" "no"
out5: string[2, 3] "p" "" "q" "p" "" "q"
out6: string[2, 3] "ccc" "b" "a" "b" "ÿ" ""
out7: string[5] "" "a" "b" "ccc" "ÿ"
out8: int64[5] 3 0 1 2 4
out9: int64[6] 1 2 3 0 4 2
out10: int64[5] 1 1 2 1 1
out11: bool[2, 3] 1 1 0 0 0 0
out12: bool[2, 3] 1 0 0 1 0 0
out13: string[6] "" "a" "b" "b" "ccc" "ÿ"
out14: string[2, 3] "X" "YY" "ZZZ" "" "ÿ" "b"
out15: string[2] "fill" "fill"
out16: string[2, 3] "a" "b" "ccc" "" "ÿ" "b"
# => run irc run move.ir --interp --input x=[["a","b","ccc"],["","ÿ","b"]] --input i=[2,0] --input c=[[True,False,True],[False,True,False]]
out0: string[3, 2] "a" "" "b" "ÿ" "ccc" "b"
out1: string[6] "a" "b" "ccc" "" "ÿ" "b"
out2: string[2, 2] "ccc" "a" "b" ""
out3: string[4, 3] "a" "b" "ccc" "" "ÿ" "b" "a" "b" "ccc" "" "ÿ" "b"
out4: string[2, 3] "a" "no" "ccc" "no" "ÿ" "no"
out5: string[2, 3] "p" "" "q" "p" "" "q"
out6: string[2, 3] "ccc" "b" "a" "b" "ÿ" ""
out7: string[5] "" "a" "b" "ccc" "ÿ"
out8: int64[5] 3 0 1 2 4
out9: int64[6] 1 2 3 0 4 2
out10: int64[5] 1 1 2 1 1
out11: bool[2, 3] 1 1 0 0 0 0
out12: bool[2, 3] 1 0 0 1 0 0
out13: string[6] "" "a" "b" "b" "ccc" "ÿ"
out14: string[2, 3] "X" "YY" "ZZZ" "" "ÿ" "b"
out15: string[2] "fill" "fill"
out16: string[2, 3] "a" "b" "ccc" "" "ÿ" "b"
# => run irc run move.ir --function scalar --input x="hello"
out: string[] "hello"

# --- strings_have_no_arithmetic
# => file add.ir
@R.function
def main(x: R.Tensor((2,), "string")):
    y = x + x
    return y
# => run irc check add.ir
[dtype-mismatch] Error: `R.add` needs numbers, and `x` is string
   ╭─[ add.ir:3:9 ]
   │
 3 │     y = x + x
   │         ──┬──
   │           ╰──── (2,) string
───╯
[exit 1]

# --- strings_are_made_and_read
# => file text.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "string"), y: R.Tensor(("n",), "string")):
        c = R.str.concat(x, y)
        p, k = R.str.split(x, delimiter=",")
        p1, k1 = R.str.split(x, delimiter=",", maxsplit=1)
        w, wk = R.str.split(x)
        w1, wk1 = R.str.split(x, maxsplit=1)
        lo = R.str.lower(x)
        up = R.str.upper(x)
        m = R.str.full_match(x, pattern="(?i)[\\wß]+(,.*)?")
        return c, p, k, p1, k1, w, wk, w1, wk1, lo, up, m
    @R.function
    def form(x: R.Tensor(("n",), "float32"), d: R.Tensor(("n",), "float64"), i: R.Tensor(("k",), "int64"), u: R.Tensor(("k",), "uint64")):
        h = R.astype(x, "float16")
        g = R.astype(x, "bfloat16")
        a = R.str.format(x)
        b = R.str.format(d)
        c = R.str.format(i)
        e = R.str.format(u)
        f = R.str.format(h)
        j = R.str.format(g)
        return a, b, c, e, f, j
    @R.function
    def parse(x: R.Tensor(("n",), "string")):
        a = R.str.parse(x, "float32")
        b = R.str.parse(x, "float64")
        return a, b
    @R.function
    def ints(x: R.Tensor(("n",), "string")):
        a = R.str.parse(x, "int64")
        b = R.str.parse(x, "uint64")
        return a, b
# => run irc run text.ir --input x=["a,b,,c","\x20\x20Hello\x20\tWORLD\u3000x\x20","ÄÖß,ǅŉΐ","","ẞİ","\x20\x20\x20"] --input y=["1","","ÿ","yy","z","?"]
out0: string[6] "a,b,,c1" "  Hello \tWORLD\u{3000}x " "ÄÖß,ǅŉΐÿ" "yy" "ẞİz" "   ?"
out1: string[6, 4] "a" "b" "" "c" "  Hello \tWORLD\u{3000}x " "" "" "" "ÄÖß" "ǅŉΐ" "" "" "" "" "" "" …
out2: int64[6] 4 1 2 1 1 1
out3: string[6, 2] "a" "b,,c" "  Hello \tWORLD\u{3000}x " "" "ÄÖß" "ǅŉΐ" "" "" "ẞİ" "" "   " ""
out4: int64[6] 2 1 2 1 1 1
out5: string[6, 3] "a,b,,c" "" "" "Hello" "WORLD" "x" "ÄÖß,ǅŉΐ" "" "" "" "" "" "ẞİ" "" "" "" …
out6: int64[6] 1 3 1 0 1 0
out7: string[6, 2] "a,b,,c" "" "Hello" "WORLD\u{3000}x" "ÄÖß,ǅŉΐ" "" "" "" "ẞİ" "" "" ""
out8: int64[6] 1 2 1 0 1 0
out9: string[6] "a,b,,c" "  hello \tworld\u{3000}x " "äöß,ǆŉΐ" "" "ßi\u{307}" "   "
out10: string[6] "A,B,,C" "  HELLO \tWORLD\u{3000}X " "ÄÖSS,ǄʼNΙ\u{308}\u{301}" "" "ẞİ" "   "
out11: bool[6] 1 0 0 0 0 0
# => run irc run text.ir --interp --input x=["a,b,,c","\x20\x20Hello\x20\tWORLD\u3000x\x20","ÄÖß,ǅŉΐ","","ẞİ","\x20\x20\x20"] --input y=["1","","ÿ","yy","z","?"]
out0: string[6] "a,b,,c1" "  Hello \tWORLD\u{3000}x " "ÄÖß,ǅŉΐÿ" "yy" "ẞİz" "   ?"
out1: string[6, 4] "a" "b" "" "c" "  Hello \tWORLD\u{3000}x " "" "" "" "ÄÖß" "ǅŉΐ" "" "" "" "" "" "" …
out2: int64[6] 4 1 2 1 1 1
out3: string[6, 2] "a" "b,,c" "  Hello \tWORLD\u{3000}x " "" "ÄÖß" "ǅŉΐ" "" "" "ẞİ" "" "   " ""
out4: int64[6] 2 1 2 1 1 1
out5: string[6, 3] "a,b,,c" "" "" "Hello" "WORLD" "x" "ÄÖß,ǅŉΐ" "" "" "" "" "" "ẞİ" "" "" "" …
out6: int64[6] 1 3 1 0 1 0
out7: string[6, 2] "a,b,,c" "" "Hello" "WORLD\u{3000}x" "ÄÖß,ǅŉΐ" "" "" "" "ẞİ" "" "" ""
out8: int64[6] 1 2 1 0 1 0
out9: string[6] "a,b,,c" "  hello \tworld\u{3000}x " "äöß,ǆŉΐ" "" "ßi\u{307}" "   "
out10: string[6] "A,B,,C" "  HELLO \tWORLD\u{3000}X " "ÄÖSS,ǄʼNΙ\u{308}\u{301}" "" "ẞİ" "   "
out11: bool[6] 1 0 0 0 0 0
# => run irc run text.ir --function form --input x=[1,0.1,3.4028235e38,1e-45,123456.79,0,16777216,0.3] --input d=[0.1,1e30,5e-32,123456789012345680,9007199254740993,2.2250738585072014e-30,0.30000000000000004,100] --input i=[0,-9223372036854775808,9223372036854775807] --input u=[0,1,12]
out0: string[8] "1.0" "0.1" "340282350000000000000000000000000000000.0" "0.000000000000000000000000000000000000000000001" "123456.79" "0.0" "16777216.0" "0.3"
out1: string[8] "0.1" "1000000000000000000000000000000.0" "0.00000000000000000000000000000005" "123456789012345680.0" "9007199254740992.0" "0.0000000000000000000000000000022250738585072013" "0.30000000000000004" "100.0"
out2: string[3] "0" "-9223372036854775808" "9223372036854775807"
out3: string[3] "0" "1" "12"
out4: string[8] "1.0" "0.1" "INF" "0.0" "INF" "0.0" "INF" "0.3"
out5: string[8] "1.0" "0.1" "INF" "0.0" "123400.0" "0.0" "16800000.0" "0.3"
# => run irc run text.ir --interp --function form --input x=[1,0.1,3.4028235e38,1e-45,123456.79,0,16777216,0.3] --input d=[0.1,1e30,5e-32,123456789012345680,9007199254740993,2.2250738585072014e-30,0.30000000000000004,100] --input i=[0,-9223372036854775808,9223372036854775807] --input u=[0,1,12]
out0: string[8] "1.0" "0.1" "340282350000000000000000000000000000000.0" "0.000000000000000000000000000000000000000000001" "123456.79" "0.0" "16777216.0" "0.3"
out1: string[8] "0.1" "1000000000000000000000000000000.0" "0.00000000000000000000000000000005" "123456789012345680.0" "9007199254740992.0" "0.0000000000000000000000000000022250738585072013" "0.30000000000000004" "100.0"
out2: string[3] "0" "-9223372036854775808" "9223372036854775807"
out3: string[3] "0" "1" "12"
out4: string[8] "1.0" "0.1" "INF" "0.0" "INF" "0.0" "INF" "0.3"
out5: string[8] "1.0" "0.1" "INF" "0.0" "123400.0" "0.0" "16800000.0" "0.3"
# => run irc run text.ir --function parse --input x=["1","-0.5e-3","INF","-inf","nan","1e400",".5","5.","3.14159265358979323846264338327950288","16777217","1e-400","0.000001e6","+2"]
out0: float32[13] 1 -0.0005 inf -inf NaN inf 0.5 5 3.1415927 16777216 0 1 2
out1: float64[13] 1 -0.0005 inf -inf NaN inf 0.5 5 3.1415927 16777216 0 1 2
# => run irc run text.ir --function ints --input x=["1","5e0","9223372036854775807","3.99","+0007"]
out0: int64[5] 1 5 9223372036854775807 3 7
out1: uint64[5] 1 5 9223372036854775807 3 7
# => run irc run text.ir --function ints --input x=["18446744073709551616"]
error: a string is an integer that int64 has not
[exit 5]
# => run irc run text.ir --function ints --input x=["1e"]
error: a string is no number
[exit 5]
# => run irc run text.ir --function parse --input x=[""]
error: a string is no number
[exit 5]
# => run irc run text.ir --function parse --input x=["1\x20"]
error: a string is no number
[exit 5]

# --- patterns_are_those_of_re2
# => file pattern.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "string")):
        a = R.str.full_match(x, pattern="\\d{2,3}|[[:alpha:]]+|\\x{E9}|{a|\\Q.*\\E")
        b = R.str.full_match(x, pattern="(?i)Ä[^&&a-c\\]]?")
        c = R.str.full_match(x, pattern="")
        d = R.str.full_match(x, pattern="(?s).*\\bfoo\\b.*")
        e = R.str.full_match(x, pattern="\\p{Greek}+|\\PL")
        return a, b, c, d, e
# => run irc run pattern.ir --input x=["12","1234","abc","é","{a",".*","ä","äd","Äa","ä&",""]
out0: bool[11] 1 0 1 1 1 1 0 0 0 0 0
out1: bool[11] 0 0 0 0 0 0 1 1 0 0 0
out2: bool[11] 0 0 0 0 0 0 0 0 0 0 1
out3: bool[11] 0 0 0 0 0 0 0 0 0 0 0
out4: bool[11] 0 0 0 0 0 0 0 0 0 0 0
# => run irc run pattern.ir --input x=["a\nfoo","foobar","a-foo-b","αβγ","1","a","٣","\x00"]
out0: bool[8] 0 1 0 0 0 1 0 0
out1: bool[8] 0 0 0 0 0 0 0 0
out2: bool[8] 0 0 0 0 0 0 0 0
out3: bool[8] 1 0 1 0 0 0 0 0
out4: bool[8] 0 0 0 1 1 0 1 1
# => run irc run pattern.ir --interp --input x=["a\nfoo","foobar","a-foo-b","αβγ","1","a","٣","\x00"]
out0: bool[8] 0 1 0 0 0 1 0 0
out1: bool[8] 0 0 0 0 0 0 0 0
out2: bool[8] 0 0 0 0 0 0 0 0
out3: bool[8] 1 0 1 0 0 0 0 0
out4: bool[8] 0 0 0 1 1 0 1 1
# => file backward.ir
@R.function
def main(x: R.Tensor(("n",), "string")):
    return R.str.full_match(x, pattern="(a)\\1")
# => run irc check backward.ir
[bad-argument] Error: `R.str.full_match` takes a pattern in RE2's syntax: `\1` is no escape
   ╭─[ backward.ir:3:12 ]
   │
 3 │     return R.str.full_match(x, pattern="(a)\\1")
   │            ──────────────────┬──────────────────
   │                              ╰──────────────────── "(a)\\1"
───╯
[exit 1]
# => file large.ir
@R.function
def main(x: R.Tensor(("n",), "string")):
    return R.str.full_match(x, pattern=".*a.{40}")
# => run irc build large.ir -o large.so
[unsupported-code] Error: pattern ".*a.{40}": its automaton is too large
   ╭─[ large.ir:3:12 ]
   │
 3 │     return R.str.full_match(x, pattern=".*a.{40}")
   │            ───────────────────┬───────────────────
   │                               ╰─────────────────────
───╯
[exit 4]
