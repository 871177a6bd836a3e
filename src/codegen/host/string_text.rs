//! The loops behind the primitives on strings, as text. A string tensor is seen as `(n, 2)` of addresses and lengths.
//!
//! Bytes are placed in memory of the call that the caller of these functions has made. What is no UTF-8 is copied as it is.

/// The number of bytes of all strings.
pub const TOTAL: &str = r#"
@T.prim_func(private=True)
def irc_string_total(x: T.Buffer((n, 2), "int64"), total: T.Buffer((), "int64")):
    k: T.int64 = 0
    for i in range(n):
        k = k + x[i, 1]
    total[()] = k
"#;

pub const CONCAT: &str = r#"
@T.prim_func(private=True)
def irc_string_concat(a: T.Buffer((n, 2), "int64"), b: T.Buffer((n, 2), "int64"), bytes: T.Buffer((m,), "uint8"), out: T.Buffer((n, 2), "int64")):
    k: T.int64 = 0
    for i in range(n):
        out[i, 0] = T.Cast("int64", T.address_of(bytes[k]))
        out[i, 1] = a[i, 1] + b[i, 1]
        T.call_extern("int64", "memcpy", T.address_of(bytes[k]), a[i, 0], a[i, 1])
        k = k + a[i, 1]
        T.call_extern("int64", "memcpy", T.address_of(bytes[k]), b[i, 0], b[i, 1])
        k = k + b[i, 1]
"#;

/// Pieces are parts of the strings they come from. The first run only counts.
pub const SPLIT: &str = r#"
@T.prim_func(private=True)
def irc_string_split(x: T.Buffer((n, 2), "int64"), delimiter: T.Buffer((d,), "uint8"), counts: T.Buffer((n,), "int64"), widest: T.Buffer((), "int64"), out: T.Buffer((n, m, 2), "int64"), most: T.int64, write: T.bool):
    wide: T.int64 = 0
    for i in range(n):
        s = T.decl_buffer((1,), "uint8", data=x[i, 0])
        size: T.let[T.int64] = x[i, 1]
        count: T.int64 = 0
        first: T.int64 = 0
        j: T.int64 = 0
        while j + d <= size and count < most:
            same: T.bool = True
            for c in range(d):
                if s[j + c] != delimiter[c]:
                    same = False
            if same:
                if write:
                    out[i, count, 0] = x[i, 0] + first
                    out[i, count, 1] = j - first
                count = count + 1
                j = j + d
                first = j
            else:
                j = j + 1
        if write:
            out[i, count, 0] = x[i, 0] + first
            out[i, count, 1] = size - first
        count = count + 1
        if write:
            for c in range(count, m):
                out[i, c, 0] = x[i, 0]
                out[i, c, 1] = T.int64(0)
        counts[i] = count
        wide = T.max(wide, count)
    widest[()] = wide
"#;

/// The same at Unicode's white space, whose characters have one to three bytes.
pub const SPLIT_SPACE: &str = r#"
@T.prim_func(private=True)
def irc_string_split_space(x: T.Buffer((n, 2), "int64"), counts: T.Buffer((n,), "int64"), widest: T.Buffer((), "int64"), out: T.Buffer((n, m, 2), "int64"), most: T.int64, write: T.bool):
    wide: T.int64 = 0
    for i in range(n):
        s = T.decl_buffer((1,), "uint8", data=x[i, 0])
        size: T.let[T.int64] = x[i, 1]
        count: T.int64 = 0
        first: T.int64 = -1
        last: T.int64 = 0
        j: T.int64 = 0
        while j < size:
            b: T.let[T.int32] = T.Cast("int32", s[j])
            width: T.int64 = 0
            if b == 32 or (b >= 9 and b <= 13):
                width = 1
            if b == 0xC2 and j + 1 < size:
                if s[j + 1] == 0x85 or s[j + 1] == 0xA0:
                    width = 2
            if b >= 0xE1 and b <= 0xE3 and j + 2 < size:
                c: T.let[T.int32] = (b << 16) | (T.Cast("int32", s[j + 1]) << 8) | T.Cast("int32", s[j + 2])
                if c >= 0xE28080 and c <= 0xE2808A:
                    width = 3
                if c == 0xE280A8 or c == 0xE280A9 or c == 0xE280AF or c == 0xE2819F:
                    width = 3
                if c == 0xE19A80 or c == 0xE38080:
                    width = 3
            if width > 0:
                if first >= 0 and count < most:
                    if write:
                        out[i, count, 0] = x[i, 0] + first
                        out[i, count, 1] = j - first
                    count = count + 1
                    first = -1
                j = j + width
            else:
                if first < 0:
                    first = j
                j = j + 1
                last = j
        if first >= 0:
            if write:
                out[i, count, 0] = x[i, 0] + first
                out[i, count, 1] = last - first
            count = count + 1
        if write:
            for c in range(count, m):
                out[i, c, 0] = x[i, 0]
                out[i, c, 1] = T.int64(0)
        counts[i] = count
        wide = T.max(wide, count)
    widest[()] = wide
"#;

/// `table` holds, in order, the code points that change, each with up to three others.
pub const CASE: &str = r#"
@T.prim_func(private=True)
def irc_string_case(x: T.Buffer((n, 2), "int64"), table: T.Buffer((t, 4), "int32"), bytes: T.Buffer((m,), "uint8"), out: T.Buffer((n, 2), "int64")):
    k: T.int64 = 0
    for i in range(n):
        s = T.decl_buffer((1,), "uint8", data=x[i, 0])
        size: T.let[T.int64] = x[i, 1]
        start: T.let[T.int64] = k
        out[i, 0] = T.Cast("int64", T.address_of(bytes[k]))
        j: T.int64 = 0
        while j < size:
            b: T.let[T.int32] = T.Cast("int32", s[j])
            want: T.int64 = 1
            code: T.int32 = b
            if b >= 0xC2:
                want = 2
                code = b & 31
            if b >= 0xE0:
                want = 3
                code = b & 15
            if b >= 0xF0:
                want = 4
                code = b & 7
            if j + want > size or b > 0xF4 or (b >= 128 and b < 0xC2):
                want = 1
                code = -1
            for c in range(1, want):
                if s[j + c] & 192 != 128 or code < 0:
                    code = -1
                else:
                    code = (code << 6) | T.Cast("int32", s[j + c] & 63)
            if code < 0:
                want = 1
            low: T.int64 = 0
            high: T.int64 = t
            while low < high:
                middle: T.let[T.int64] = (low + high) // 2
                if table[middle, 0] < code:
                    low = middle + 1
                else:
                    high = middle
            found: T.bool = False
            if low < t:
                found = table[low, 0] == code
            if found:
                for c in range(1, 4):
                    p: T.let[T.int32] = table[low, c]
                    if p > 0:
                        if p < 128:
                            bytes[k] = T.Cast("uint8", p)
                            k = k + 1
                        else:
                            if p < 2048:
                                bytes[k] = T.Cast("uint8", 192 | (p >> 6))
                                k = k + 1
                            else:
                                if p < 65536:
                                    bytes[k] = T.Cast("uint8", 224 | (p >> 12))
                                    k = k + 1
                                else:
                                    bytes[k] = T.Cast("uint8", 240 | (p >> 18))
                                    bytes[k + 1] = T.Cast("uint8", 128 | ((p >> 12) & 63))
                                    k = k + 2
                                bytes[k] = T.Cast("uint8", 128 | ((p >> 6) & 63))
                                k = k + 1
                            bytes[k] = T.Cast("uint8", 128 | (p & 63))
                            k = k + 1
            else:
                for c in range(want):
                    bytes[k] = s[j + c]
                    k = k + 1
            j = j + want
        out[i, 1] = k - start
"#;

/// State 0 is the one that is never left; the first is 1.
pub const FULL_MATCH: &str = r#"
@T.prim_func(private=True)
def irc_string_match(x: T.Buffer((n, 2), "int64"), classes: T.Buffer((256,), "uint8"), next: T.Buffer((q, c), "uint16"), accepts: T.Buffer((q,), "bool"), out: T.Buffer((n,), "bool")):
    for i in range(n):
        s = T.decl_buffer((1,), "uint8", data=x[i, 0])
        state: T.int64 = 1
        j: T.int64 = 0
        while j < x[i, 1] and state > 0:
            byte: T.let[T.int64] = T.Cast("int64", s[j])
            state = T.Cast("int64", next[state, T.Cast("int64", classes[byte])])
            j = j + 1
        out[i] = accepts[state]
"#;

pub const FORMAT_INT: &str = r#"
@T.prim_func(private=True)
def irc_string_format_DTYPE(x: T.Buffer((n,), "DTYPE"), bytes: T.Buffer((m,), "uint8"), out: T.Buffer((n, 2), "int64")):
    digits = T.alloc_local((24,), "uint8")
    k: T.int64 = 0
    for i in range(n):
        start: T.let[T.int64] = k
        out[i, 0] = T.Cast("int64", T.address_of(bytes[k]))
        v: T.uint64 = T.Cast("uint64", x[i])
        if x[i] < T.DTYPE(0):
            v = T.uint64(0) - v
            bytes[k] = T.uint8(45)
            k = k + 1
        d: T.int64 = 0
        while d == 0 or v > T.uint64(0):
            digits[d] = T.Cast("uint8", v % T.uint64(10)) + T.uint8(48)
            v = v // T.uint64(10)
            d = d + 1
        for c in range(d):
            bytes[k] = digits[d - 1 - c]
            k = k + 1
        out[i, 1] = k - start
"#;

/// The fewest digits that read back as the same number, by the algorithm of Steele and White with numbers of 40 limbs of
/// 32 bits (R. Burger, R. K. Dybvig, "Printing floating-point numbers quickly and accurately", 1996). `PRECISION` is the
/// number of bits of a mantissa, `LEAST` the exponent of the least subnormal number. The first run only counts bytes.
pub const FORMAT_FLOAT: &str = r#"
@T.prim_func(private=True)
def irc_string_limbs_order(a: T.Buffer((40,), "int64"), b: T.Buffer((40,), "int64"), c: T.Buffer((40,), "int64"), scale: T.int64, order: T.Buffer((), "int64")):
    carry: T.int64 = 0
    rest: T.int64 = 0
    for j in range(40):
        t: T.let[T.int64] = a[j] - (b[j] + c[j]) * scale + carry
        rest = rest | (t & T.int64(4294967295))
        carry = t >> T.int64(32)
    order[()] = T.if_then_else(carry < T.int64(0), T.int64(-1), T.if_then_else(rest == T.int64(0), T.int64(0), T.int64(1)))

@T.prim_func(private=True)
def irc_string_limbs_times_ten(a: T.Buffer((40,), "int64")):
    carry: T.int64 = 0
    for j in range(40):
        t: T.let[T.int64] = a[j] * T.int64(10) + carry
        a[j] = t & T.int64(4294967295)
        carry = t >> T.int64(32)

@T.prim_func(private=True)
def irc_string_limbs_set(a: T.Buffer((40,), "int64"), value: T.int64, shift: T.int64):
    for j in range(40):
        a[j] = T.int64(0)
    q: T.let[T.int64] = shift // 32
    o: T.let[T.int64] = shift % 32
    t: T.int64 = (value & T.int64(4294967295)) << o
    a[q] = t & T.int64(4294967295)
    t = ((value >> T.int64(32)) << o) + (t >> T.int64(32))
    a[q + 1] = t & T.int64(4294967295)
    a[q + 2] = t >> T.int64(32)

@T.prim_func(private=True)
def irc_string_digits_DTYPE(mantissa: T.int64, exponent: T.int64, digits: T.Buffer((20,), "uint8"), result: T.Buffer((2,), "int64")):
    r = T.alloc_buffer((40,), "int64")
    s = T.alloc_buffer((40,), "int64")
    up = T.alloc_buffer((40,), "int64")
    down = T.alloc_buffer((40,), "int64")
    zero = T.alloc_buffer((40,), "int64")
    order = T.alloc_buffer((1,), "int64")
    p: T.let[T.int64] = T.max(exponent, T.int64(0))
    m: T.let[T.int64] = T.max(T.int64(0) - exponent, T.int64(0))
    edge: T.int64 = 0
    if mantissa == T.int64(1) << T.int64(PRECISION - 1) and exponent > T.int64(LEAST):
        edge = T.int64(1)
    T.call_extern("int32", "irc.irc_string_limbs_set", r, mantissa, p + 1 + edge)
    T.call_extern("int32", "irc.irc_string_limbs_set", s, T.int64(1), m + 1 + edge)
    T.call_extern("int32", "irc.irc_string_limbs_set", up, T.int64(1), p + edge)
    T.call_extern("int32", "irc.irc_string_limbs_set", down, T.int64(1), p)
    T.call_extern("int32", "irc.irc_string_limbs_set", zero, T.int64(0), T.int64(0))
    even: T.let[T.int64] = T.int64(1) - (mantissa & T.int64(1))
    k: T.int64 = 0
    go: T.bool = True
    while go:
        T.call_extern("int32", "irc.irc_string_limbs_order", s, r, up, T.int64(1), order)
        go = order[0] < even
        if go:
            T.call_extern("int32", "irc.irc_string_limbs_times_ten", s)
            k = k + 1
    go = True
    while go:
        T.call_extern("int32", "irc.irc_string_limbs_order", s, r, up, T.int64(10), order)
        go = order[0] >= even
        if go:
            T.call_extern("int32", "irc.irc_string_limbs_times_ten", r)
            T.call_extern("int32", "irc.irc_string_limbs_times_ten", up)
            T.call_extern("int32", "irc.irc_string_limbs_times_ten", down)
            k = k - 1
    n: T.int64 = 0
    go = True
    while go:
        T.call_extern("int32", "irc.irc_string_limbs_times_ten", r)
        T.call_extern("int32", "irc.irc_string_limbs_times_ten", up)
        T.call_extern("int32", "irc.irc_string_limbs_times_ten", down)
        digit: T.int64 = 0
        T.call_extern("int32", "irc.irc_string_limbs_order", r, s, zero, T.int64(1), order)
        while order[0] >= T.int64(0):
            carry: T.int64 = 0
            for j in range(40):
                t: T.let[T.int64] = r[j] - s[j] + carry
                r[j] = t & T.int64(4294967295)
                carry = t >> T.int64(32)
            digit = digit + 1
            T.call_extern("int32", "irc.irc_string_limbs_order", r, s, zero, T.int64(1), order)
        T.call_extern("int32", "irc.irc_string_limbs_order", r, down, zero, T.int64(1), order)
        low: T.bool = order[0] < even
        T.call_extern("int32", "irc.irc_string_limbs_order", s, r, up, T.int64(1), order)
        high: T.bool = order[0] < even
        if low or high:
            go = False
            if high:
                T.call_extern("int32", "irc.irc_string_limbs_order", s, r, zero, T.int64(2), order)
                if not low or order[0] <= T.int64(0):
                    digit = digit + 1
        digits[n] = T.Cast("uint8", digit + 48)
        n = n + 1
    result[0] = n
    result[1] = k

@T.prim_func(private=True)
def irc_string_format_DTYPE(x: T.Buffer((n,), "DTYPE"), total: T.Buffer((), "int64"), bytes: T.Buffer((m,), "uint8"), out: T.Buffer((n, 2), "int64"), write: T.bool):
    digits = T.alloc_buffer((20,), "uint8")
    result = T.alloc_buffer((2,), "int64")
    text = T.alloc_buffer((400,), "uint8")
    k: T.int64 = 0
    for i in range(n):
        bits: T.let[T.int64] = T.reinterpret("int64", T.Cast("float64", x[i]))
        raw: T.let[T.int64] = (bits >> T.int64(52)) & T.int64(2047)
        part: T.let[T.int64] = bits & T.int64(4503599627370495)
        size: T.int64 = 0
        if bits < T.int64(0) and (raw < 2047 or part == 0):
            text[0] = T.uint8(45)
            size = T.int64(1)
        if raw == 2047:
            if part == 0:
                text[size] = T.uint8(73)
                text[size + 1] = T.uint8(78)
                text[size + 2] = T.uint8(70)
            else:
                text[size] = T.uint8(78)
                text[size + 1] = T.uint8(97)
                text[size + 2] = T.uint8(78)
            size = size + 3
        else:
            count: T.int64 = 1
            point: T.int64 = 1
            if raw == 0 and part == 0:
                digits[0] = T.uint8(48)
            else:
                mantissa: T.int64 = part
                exponent: T.int64 = -1074
                if raw > 0:
                    mantissa = part + T.int64(4503599627370496)
                    exponent = raw - 1075
                drop: T.int64 = T.int64(53 - PRECISION)
                if exponent + drop < T.int64(LEAST):
                    drop = T.int64(LEAST) - exponent
                mantissa = mantissa >> drop
                exponent = exponent + drop
                T.call_extern("int32", "irc.irc_string_digits_DTYPE", mantissa, exponent, digits, result)
                count = result[0]
                point = result[1]
            if point <= 0:
                text[size] = T.uint8(48)
                text[size + 1] = T.uint8(46)
                size = size + 2
                for c in range(T.int64(0) - point):
                    text[size] = T.uint8(48)
                    size = size + 1
            for c in range(count):
                if c == point and point > 0:
                    text[size] = T.uint8(46)
                    size = size + 1
                text[size] = digits[c]
                size = size + 1
            if point >= count:
                for c in range(point - count):
                    text[size] = T.uint8(48)
                    size = size + 1
                text[size] = T.uint8(46)
                text[size + 1] = T.uint8(48)
                size = size + 2
        if write:
            out[i, 0] = T.Cast("int64", T.address_of(bytes[k]))
            out[i, 1] = size
            for c in range(size):
                bytes[k + c] = text[c]
        k = k + size
    total[()] = k
"#;

/// A number is brought into a form without a point, which the C library reads in any locale. `READ` is its function.
pub const PARSE: &str = r#"
@T.prim_func(private=True)
def irc_string_parse_DTYPE(x: T.Buffer((n, 2), "int64"), out: T.Buffer((n,), "DTYPE")):
    for i in range(n):
        s = T.decl_buffer((1,), "uint8", data=x[i, 0])
        size: T.let[T.int64] = x[i, 1]
        text = T.alloc_buffer((size + 32,), "uint8")
        j: T.int64 = 0
        k: T.int64 = 0
        minus: T.bool = False
        if size > 0:
            if s[0] == 43 or s[0] == 45:
                minus = s[0] == 45
                j = T.int64(1)
        whole: T.uint64 = 0
        exact: T.bool = True
        n_digits: T.int64 = 0
        scale: T.int64 = 0
        seen_point: T.bool = False
        go: T.bool = True
        if minus:
            text[0] = T.uint8(45)
            k = T.int64(1)
        while go and j < size:
            b: T.let[T.int32] = T.Cast("int32", s[j])
            if b >= 48 and b <= 57:
                digit: T.let[T.uint64] = T.Cast("uint64", b - 48)
                if whole > (T.uint64(18446744073709551615) - digit) // T.uint64(10):
                    exact = False
                whole = whole * T.uint64(10) + digit
                text[k] = s[j]
                k = k + 1
                n_digits = n_digits + 1
                if seen_point:
                    scale = scale - 1
                j = j + 1
            else:
                if b == 46 and not seen_point:
                    seen_point = True
                    j = j + 1
                else:
                    go = False
        special: T.int32 = 0
        if n_digits == 0 and not seen_point and j + 3 == size:
            code: T.let[T.int32] = ((T.Cast("int32", s[j]) | 32) << 16) | ((T.Cast("int32", s[j + 1]) | 32) << 8) | T.Cast("int32", s[j + 2]) | 32
            if code == 0x696E66:
                special = 1
                j = size
            if code == 0x6E616E and j == 0:
                special = 2
                j = size
        plain: T.let[T.bool] = j == size and n_digits > 0 and not seen_point
        if j < size and n_digits > 0:
            if s[j] | 32 == 101:
                j = j + 1
                down: T.bool = False
                if j < size:
                    if s[j] == 43 or s[j] == 45:
                        down = s[j] == 45
                        j = j + 1
                if j == size:
                    n_digits = T.int64(0)
                e: T.int64 = 0
                go = True
                while go and j < size:
                    if s[j] >= 48 and s[j] <= 57:
                        e = T.min(e * 10 + T.Cast("int64", s[j]) - 48, T.int64(1000000000000))
                        j = j + 1
                    else:
                        go = False
                if down:
                    e = T.int64(0) - e
                scale = scale + e
        assert j == size and (n_digits > 0 or special > 0), ("ValueError", ["a string is no number"])
        text[k] = T.uint8(101)
        text[k + 1] = T.uint8(43)
        if scale < 0:
            text[k + 1] = T.uint8(45)
            scale = T.int64(0) - scale
        for c in range(18):
            power: T.int64 = 1
            for u in range(17 - c):
                power = power * 10
            text[k + 2 + c] = T.Cast("uint8", scale // power % 10) + T.uint8(48)
        text[k + 20] = T.uint8(0)
        FINISH
"#;

/// What [`PARSE`] ends with for floats.
pub const PARSE_FLOAT: &str = r#"v: T.DTYPE = T.infinity("DTYPE")
        if special == 2:
            v = T.nan("DTYPE")
        if special == 1 and minus:
            v = T.DTYPE(0) - v
        if special == 0:
            v = T.call_extern("DTYPE", "READ", text, T.int64(0))
        out[i] = v"#;

/// What it ends with for integers: those without point and exponent are exact, others drop their fraction.
pub const PARSE_INT: &str = r#"assert special == 0, ("ValueError", ["a string is no integer"])
        if plain:
            fits: T.bool = exact
            if SIGNED:
                if whole > T.uint64(9223372036854775808) or (whole == T.uint64(9223372036854775808) and not minus):
                    fits = False
            if not SIGNED and minus:
                fits = False
            assert fits, ("ValueError", ["a string is an integer that DTYPE has not"])
            if minus:
                out[i] = T.Cast("DTYPE", T.uint64(0) - whole)
            else:
                out[i] = T.Cast("DTYPE", whole)
        else:
            v: T.let[T.float64] = T.trunc(T.call_extern("float64", "strtod", text, T.int64(0)))
            if SIGNED:
                assert v >= T.float64(-9223372036854775808.0) and v < T.float64(9223372036854775808.0), ("ValueError", ["a string is an integer that DTYPE has not"])
            else:
                assert v >= T.float64(0) and v < T.float64(18446744073709551616.0), ("ValueError", ["a string is an integer that DTYPE has not"])
            out[i] = T.Cast("DTYPE", v)"#;
