//! One paragraph for every diagnostic code, for `irc explain`.

/// Code and paragraph, ordered by code.
pub const EXPLANATIONS: &[(&str, &str)] = &[
    (
        "argument-order",
        "In a call, arguments without a keyword come before those with one.",
    ),
    (
        "axis-range",
        "An axis of a tensor with n axes is a number from -n to n - 1; negative ones count \
         from the end. No axis is named twice in one call.",
    ),
    (
        "bad-argument",
        "An argument has the wrong kind of value, or one that the operator does not allow. \
         `irc list ops` shows what each operator takes.",
    ),
    (
        "bad-call",
        "A call gives an argument that the callee does not have, gives one twice, or leaves \
         one out that has no default.",
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
        "`*x` spreads a list or tuple into the arguments of a call or the elements of a list. \
         It cannot stand alone.",
    ),
    (
        "bad-statement",
        "The statement has no meaning at this level. A graph function binds names, chooses \
         with `if`, and returns; a loop function has loops, blocks and stores.",
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
        "codegen-fault",
        "The code generator refused what it was given. This is a fault of irc: please report it \
         with the text.",
    ),
    (
        "constraint",
        "An operator of the library states constraints, C1, C2 and so on, in its \
         documentation. The arguments of this call break one.",
    ),
    (
        "dim-fact",
        "Facts on extents are `min`, `max` and `multiple_of`, each an integer: `n = \
         T.int64(min=1, multiple_of=8)`.",
    ),
    (
        "dim-form",
        "An extent is made of integers, symbols, `+`, `-`, `*`, `//`, `%`, `T.min` and \
         `T.max`, and fits an int64.",
    ),
    (
        "dim-mismatch",
        "Two extents must agree and provably do not, whatever the values of their symbols. \
         Extents that may be equal are no fault: the compiled program compares them.",
    ),
    (
        "dim-undecided",
        "A library function chooses by a comparison of extents that cannot be decided when the \
         program is built. `I.prove(c)` asks instead whether it is proved.",
    ),
    (
        "dtype-mismatch",
        "Two dtypes must be equal and are not, or the operator is not defined for this one. \
         Nothing is converted silently: `R.astype` and `T.Cast` convert.",
    ),
    (
        "duplicate-keyword",
        "A call gives the same keyword argument twice; only one value can count.",
    ),
    (
        "duplicate-name",
        "Functions of a module, and parameters of a function, have different names.",
    ),
    (
        "empty-index",
        "Brackets behind a value need an index. A tensor of rank 0 is indexed `[()]`.",
    ),
    (
        "entry-type",
        "A public function takes or returns something that has no form outside of irc: its inputs \
         and outputs are tensors of a known dtype and rank. Make the function private, or give it \
         tensors.",
    ),
    (
        "file",
        "A file that the program names could not be read or written. The note has the reason.",
    ),
    (
        "if-names",
        "The value of a choice is what both branches bind last, under one name.",
    ),
    (
        "illegal-cut",
        "`irc extract` cuts a function at values: parameters, and names that it binds once outside branches and bodies \
         of loops. What is named is none of them.",
    ),
    (
        "illegal-merge",
        "`irc merge` cannot make one program of the two: a result or an input of that name is not there, the two are of \
         types that do not fit, or a function returns in several places.",
    ),
    (
        "impure-call",
        "A function is pure unless it says `@R.function(pure=False)`, and a pure one calls \
         nothing that has effects beyond its result.",
    ),
    (
        "index-range",
        "A member of a tuple is taken by a number below the tuple's length.",
    ),
    (
        "level",
        "A pass leaves a module at a level: normal form, loops, scheduled or planned. Something in the module \
         is not of the level it should be at.",
    ),
    (
        "link-fault",
        "The object that was made cannot be linked. This is a fault of irc: please report it with \
         the text.",
    ),
    (
        "metadata",
        "The text names a tensor of its metadata that is not there, or the metadata (`metadata = tvm.ir.load_json(…)`) \
         is not what TVM saves. Print the module with `mod.script(show_meta=True)`.",
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
        "no-function",
        "A verb that works on one function found none, or several. It takes the public graph function `main`, or the only \
         one there is; `--function NAME` chooses another.",
    ),
    (
        "not-a-shape",
        "A shape is wanted: `R.shape([n, 4])`, or the result of `R.shape_of` or \
         `R.tensor_to_shape`.",
    ),
    (
        "not-a-tensor",
        "A tensor is wanted, and there is a value of another kind.",
    ),
    (
        "not-a-type",
        "A type is `R.Tensor((n, 4), dtype=\"float32\")`, `R.Shape([n])`, `R.Tuple(A, B)`, \
         `R.Callable`, `R.Any`, or a scalar such as `T.int64`.",
    ),
    (
        "not-a-value",
        "The expression has a meaning inside library functions or in attributes only.",
    ),
    (
        "not-lowered",
        "An operator has no loops for these arguments, so that no code can be made of it. It works \
         in the interpreter: `irc run --interp`.",
    ),
    (
        "onnx-external-data",
        "A tensor keeps its data in another file, and what the model says of that file cannot be \
         followed: its name leads out of the model's folder, or the range is not inside it.",
    ),
    (
        "onnx-invalid",
        "The ONNX model contradicts itself: a value that nothing makes, a name that is made twice, \
         an attribute of the wrong kind. The message names the node or value, and both facts.",
    ),
    (
        "onnx-tensor",
        "The data of a tensor in the ONNX model are not what its type and extents ask for.",
    ),
    (
        "onnx-unreadable",
        "The file is not a complete ONNX model: it ends early, or its bytes are no such message. \
         A copy that was interrupted, or a page that was saved in its place, looks like this.",
    ),
    (
        "onnx-unsupported",
        "The ONNX model uses an operator, attribute or type that irc does not import. All of them \
         are listed with the nodes that use them.",
    ),
    (
        "params-hash",
        "The weights file is another one than the module was made with: its sha256 differs from the \
         one in `irc.params`. Get the file that belongs to the text, or write its hash there.",
    ),
    (
        "params-missing",
        "A function has weights, parameters after `num_input`, and the program came without the file that holds them. \
         `irc.params` in `I.module_attrs` names that file; it lies beside the text.",
    ),
    (
        "pass-argument",
        "Arguments of passes are integers by name: `fuse(max=8)`. `irc opt --list` says which a pass takes.",
    ),
    (
        "pass-fault",
        "A pass left the program at another level than it promises, or one that does not print. This is a fault of \
         irc: please report it with the text.",
    ),
    (
        "pass-values",
        "The interpreter gives other answers after a pass than before it: the pass is wrong, and so irc. `--fuel` stops before \
         the rewrite that is named, `--skip` leaves the pass out.",
    ),
    (
        "rank-mismatch",
        "A tensor has another number of axes than is wanted, or an access another number of \
         indices than the buffer has axes.",
    ),
    (
        "round-trip",
        "The printed text of a program did not read back as the same program. This is a fault of irc: please \
         report it with the text.",
    ),
    (
        "schedule-block",
        "No block of the program, or no loop around it, has the name that a schedule primitive gives; \
         blocks are named as in `irc build --emit loops`, with the function's name in front where several \
         have one.",
    ),
    (
        "schedule-primitive",
        "`irc schedule --apply` takes calls of primitives: `split(block, loop, 8)`, `tile`, `reorder`, \
         `fuse`, `vectorize`, `unroll`, `parallel`.",
    ),
    (
        "schedule-refused",
        "A schedule primitive would change what the loops compute, or its conditions are not known to \
         hold: the message says which, and the loop is shown in the program as it is printed.",
    ),
    (
        "second-module",
        "A file holds one class, which is the module. Other functions belong into it, or into \
         a file of their own.",
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
        "template",
        "A library function does something that has no meaning. The note names the place in \
         its text.",
    ),
    (
        "template-result",
        "A library function returns tensors, shapes, or tuples of these.",
    ),
    (
        "template-steps",
        "Expanding a call took too many steps or nested calls, as in a loop that never ends.",
    ),
    (
        "too-deep",
        "Brackets, operators or blocks nest deeper than the limit. Bind parts of the expression to names, or \
         move inner blocks to a function.",
    ),
    (
        "type-mismatch",
        "A value has another type than its use or annotation wants.",
    ),
    (
        "type-unknown",
        "A library function needs the dtype, rank or extents of an operand, and they are not \
         known. An annotation or `R.match_cast` states them.",
    ),
    (
        "unclosed-bracket",
        "A bracket is opened and the statement ends, or another begins, before it is closed.",
    ),
    (
        "unclosed-string",
        "A string has no closing quote on its line. Strings over several lines are written \
         with three quotes.",
    ),
    (
        "unexpected-indent",
        "A line is indented deeper than the one before it, which starts no block. Only lines \
         that end in `:` do.",
    ),
    (
        "unknown-decorator",
        "A function is decorated `@R.function` or `@T.prim_func`, a class `@I.ir_module`. Helpers inside a template \
         have no decorator.",
    ),
    (
        "unknown-dtype",
        "There is no dtype of this name. Dtypes are `float32`, `int64`, `bool` and so on.",
    ),
    (
        "unknown-function",
        "`cls.f` calls a function of the module, and there is none of this name.",
    ),
    (
        "unknown-intrinsic",
        "There is no such name at the loop level.",
    ),
    (
        "unknown-name",
        "The name is not bound here. Names are bound before their use; loop and block \
         variables end with their loop or block.",
    ),
    (
        "unknown-operator",
        "The name is neither a primitive nor an operator of the library.",
    ),
    (
        "unknown-pass",
        "There is no pass of this name; `irc opt --list` names them.",
    ),
    (
        "unknown-shape",
        "A tensor's shape is not known here, not even as symbols, so that no room can be planned \
         for it. Bind it with `R.match_cast`.",
    ),
    (
        "unknown-size",
        "A size is given for a symbol that is no extent of any input.",
    ),
    (
        "unknown-symbol",
        "An extent is declared before its use: by a parameter's shape, by `n = T.int64()`, or \
         by `R.match_cast`.",
    ),
    (
        "unopened-bracket",
        "A closing bracket stands where none is open.",
    ),
    (
        "unsupported-code",
        "A statement or expression of a `T.prim_func` has no machine code on this target.",
    ),
    (
        "unsupported-target",
        "There is no code generator for the target that was asked for.",
    ),
    (
        "value-diverges",
        "A value is not what `irc run --against` compares it with, and every value before it that could be compared \
         is. The notes say by how much, where most, and which values it is computed from agreed.",
    ),
    (
        "value-not-finite",
        "`irc run --sane` looks for the first value that holds NaN, or an infinity that none of the values it is \
         computed from holds. Infinities that the text or a weight states, such as those of masks, are none.",
    ),
];

/// The paragraph of a code.
pub fn explanation(code: &str) -> Option<&'static str> {
    EXPLANATIONS
        .iter()
        .find(|(name, _)| *name == code)
        .map(|(_, text)| *text)
}
