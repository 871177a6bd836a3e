//! The editors' grammars are what the token table gives: `BLESS=1 cargo test -- editors` writes them.

use super::{compare_text, is_blessing, root};
use irc::syntax::DType;
use irc::syntax::token::{KEYWORDS, NAMESPACES, RESERVED};
use libtest_mimic::Trial;
use serde_json::{Value, json};

/// The words that stand for values and operators.
const CONSTANTS: [&str; 3] = ["False", "None", "True"];
const WORD_OPERATORS: [&str; 5] = ["and", "in", "is", "not", "or"];
const DECLARATIONS: [&str; 2] = ["class", "def"];

/// One test a written file.
pub fn trials() -> Vec<Trial> {
    let file = |path: &'static str, text: fn() -> String| {
        Trial::test(path, move || {
            let full = root().join(path);
            if is_blessing() {
                return std::fs::write(full, text()).map_err(|error| error.to_string().into());
            }
            let stored = std::fs::read_to_string(full).unwrap_or_default();
            compare_text(&stored, &text(), path, "editors")
        })
    };
    vec![
        file("editors/vscode/syntaxes/irc.tmLanguage.json", text_mate),
        file("editors/vim/syntax/irc.vim", vim),
    ]
}

/// The keywords that steer, declare or are kept without meaning.
fn control_words() -> Vec<&'static str> {
    let is_other = |word: &&str| {
        CONSTANTS.contains(word) || WORD_OPERATORS.contains(word) || DECLARATIONS.contains(word)
    };
    KEYWORDS
        .into_iter()
        .filter(|word| !is_other(word))
        .collect()
}

fn words(words: &[&str]) -> String {
    format!("\\b({})\\b", words.join("|"))
}

fn dtype_words() -> Vec<&'static str> {
    DType::all().map(DType::name).collect()
}

fn text_mate() -> String {
    let rule = |name: &str, pattern: &str| json!({"name": format!("{name}.irc"), "match": pattern});
    let string = |name: &str, quote: &str, end: &str| -> Value {
        json!({
            "name": format!("string.quoted.{name}.irc"),
            "begin": quote,
            "end": end,
            "patterns": [rule("constant.character.escape", r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")],
        })
    };
    let namespaces: Vec<&str> = NAMESPACES
        .into_iter()
        .filter(|word| *word != "cls")
        .collect();
    let grammar = json!({
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "irc",
        "scopeName": "source.irc",
        "fileTypes": ["ir"],
        "patterns": [
            rule("comment.line.number-sign", "#.*$"),
            string("triple", "\"\"\"", "\"\"\""),
            string("triple", "'''", "'''"),
            string("double", "\"", "\"|$"),
            string("single", "'", "'|$"),
            {
                "match": r"^\s*(@)\s*([A-Za-z_][\w.]*)",
                "captures": {
                    "1": {"name": "punctuation.definition.decorator.irc"},
                    "2": {"name": "entity.name.function.decorator.irc"},
                },
            },
            {
                "match": r"\b(class|def)\s+([A-Za-z_]\w*)",
                "captures": {
                    "1": {"name": "storage.type.irc"},
                    "2": {"name": "entity.name.function.irc"},
                },
            },
            rule("constant.language", &words(&CONSTANTS)),
            rule("keyword.operator.word", &words(&WORD_OPERATORS)),
            rule("storage.type", &words(&DECLARATIONS)),
            rule("keyword.control", &words(&control_words())),
            rule("invalid.illegal.reserved", &words(&RESERVED)),
            rule("constant.numeric.hex", r"\b0[xX][0-9A-Fa-f_]+\b"),
            rule("constant.numeric.float", r"(\b\d[\d_]*\.[\d_]*|\.\d[\d_]*)([eE][+-]?\d+)?|\b\d[\d_]*[eE][+-]?\d+\b"),
            rule("constant.numeric.integer", r"\b\d[\d_]*\b"),
            rule("support.type", &format!("(?<=T\\.){}", words(&dtype_words()))),
            {
                "match": format!("\\b({})((?:\\.[A-Za-z_]\\w*)+)", namespaces.join("|")),
                "captures": {
                    "1": {"name": "support.module.irc"},
                    "2": {"name": "support.function.irc"},
                },
            },
            rule("variable.language", r"\bcls\b"),
            rule("variable.parameter", r"\b[A-Za-z_]\w*(?=\s*=[^=])(?=[^()]*[,)])"),
            rule("keyword.operator", r"->|\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%@&|^~<>=]"),
        ],
    });
    format!("{grammar:#}\n")
}

fn vim() -> String {
    let mut out = String::from(
        "\" Vim syntax file of irc, written by `BLESS=1 cargo test -- editors`.\n\
         if exists(\"b:current_syntax\")\n  finish\nendif\n\n",
    );
    let mut keywords = |group: &str, words: &[&str]| {
        out.push_str(&format!("syntax keyword {group} {}\n", words.join(" ")));
    };
    keywords("ircConstant", &CONSTANTS);
    keywords("ircOperatorWord", &WORD_OPERATORS);
    keywords("ircDeclaration", &DECLARATIONS);
    keywords("ircControl", &control_words());
    keywords("ircReserved", &RESERVED);
    keywords("ircNamespace", &NAMESPACES);
    keywords("ircType", &dtype_words());
    out.push_str(
        r##"syntax match ircFunction "\(\<def\s\+\|\<class\s\+\)\@<=\h\w*"
syntax match ircDecorator "^\s*@\h[0-9A-Za-z_.]*"
syntax match ircNumber "\<\d[0-9_]*\>\|\<0[xX][0-9A-Fa-f_]\+\>"
syntax match ircNumber "\<\d[0-9_]*\.[0-9_]*\([eE][+-]\?\d\+\)\?\|\<\d[0-9_]*[eE][+-]\?\d\+\>"
syntax match ircComment "#.*$" contains=@Spell
syntax match ircEscape "\\." contained
syntax region ircString start=+"+ skip=+\\.+ end=+"\|$+ contains=ircEscape
syntax region ircString start=+'+ skip=+\\.+ end=+'\|$+ contains=ircEscape
syntax region ircString start=+"""+ skip=+\\.+ end=+"""+ contains=ircEscape,@Spell
syntax region ircString start=+'''+ skip=+\\.+ end=+'''+ contains=ircEscape,@Spell
syntax sync minlines=200

highlight default link ircConstant Constant
highlight default link ircOperatorWord Operator
highlight default link ircDeclaration Statement
highlight default link ircControl Statement
highlight default link ircReserved Error
highlight default link ircNamespace Identifier
highlight default link ircType Type
highlight default link ircFunction Function
highlight default link ircDecorator PreProc
highlight default link ircNumber Number
highlight default link ircComment Comment
highlight default link ircEscape Special
highlight default link ircString String

setlocal commentstring=#\ %s expandtab shiftwidth=4 softtabstop=4
let b:current_syntax = "irc"
"##,
    );
    out
}
