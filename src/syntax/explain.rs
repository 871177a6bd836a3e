//! One paragraph for every diagnostic code, for `irc explain`.

/// Code and paragraph, ordered by code.
pub const EXPLANATIONS: &[(&str, &str)] = &[
    (
        "argument-order",
        "In a call, arguments without a keyword come before those with one.",
    ),
    (
        "bad-character",
        "The text holds a character that starts no name, number, string or operator. Names are made of the \
         letters a to z, digits and `_`.",
    ),
    (
        "bad-dedent",
        "A line is indented less than the block before it, but matches none of the blocks around it. Lines of \
         one block start in the same column.",
    ),
    (
        "bad-escape",
        "A string holds a backslash that starts no escape. The escapes are Python's: `\\n`, `\\t`, `\\\\`, \
         `\\\"`, `\\x41`, `\\u00e9`. Write `\\\\` for a backslash.",
    ),
    (
        "bad-number",
        "An integer literal needs more than 127 bits, which no element type holds.",
    ),
    (
        "bad-star",
        "`*x` spreads a list or tuple into the arguments of a call or the elements of a list. It cannot stand alone.",
    ),
    (
        "bad-target",
        "The left side of `=` is a name, a tuple of names, or an element such as `B[i, j]`. Only a name can be \
         declared without a value.",
    ),
    (
        "chained-compare",
        "Comparisons do not chain: write `a < b and b < c` for what Python writes `a < b < c`.",
    ),
    (
        "class-base",
        "A module is written `class Name:`; it has no base class.",
    ),
    (
        "duplicate-keyword",
        "A call gives the same keyword argument twice; only one value can count.",
    ),
    (
        "empty-index",
        "Brackets behind a value need an index. A tensor of rank 0 is indexed `[()]`.",
    ),
    (
        "mismatched-bracket",
        "A closing bracket is of another kind than the one that was opened last.",
    ),
    (
        "missing-block",
        "A line that ends in `:` starts a block, so that at least one line indented deeper must follow. An empty \
         block is written `pass`.",
    ),
    (
        "round-trip",
        "The printed text of a program did not read back as the same program. This is a fault of irc: please \
         report it with the text.",
    ),
    (
        "second-module",
        "A file holds one class, which is the module. Other functions belong into it, or into a file of their own.",
    ),
    (
        "syntax",
        "The text does not follow the grammar. `grammar/README.md` is the language reference.",
    ),
    (
        "tab-indent",
        "A line is indented with a tab. It is read as going to the next multiple of eight columns; `irc fmt` \
         writes four spaces for each block.",
    ),
    (
        "too-deep",
        "Brackets, operators or blocks nest deeper than the limit. Bind parts of the expression to names, or \
         move inner blocks to a function.",
    ),
    (
        "unclosed-bracket",
        "A bracket is opened and the statement ends, or another begins, before it is closed.",
    ),
    (
        "unclosed-string",
        "A string has no closing quote on its line. Strings over several lines are written with three quotes.",
    ),
    (
        "unexpected-indent",
        "A line is indented deeper than the one before it, which starts no block. Only lines that end in `:` do.",
    ),
    (
        "unknown-decorator",
        "A function is decorated `@R.function` or `@T.prim_func`, a class `@I.ir_module`. Helpers inside a template \
         have no decorator.",
    ),
    (
        "unopened-bracket",
        "A closing bracket stands where none is open.",
    ),
];

/// The paragraph of a code.
pub fn explanation(code: &str) -> Option<&'static str> {
    EXPLANATIONS
        .iter()
        .find(|(name, _)| *name == code)
        .map(|(_, text)| *text)
}
