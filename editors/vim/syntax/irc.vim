" Vim syntax file of irc, written by `BLESS=1 cargo test -- editors`.
if exists("b:current_syntax")
  finish
endif

syntax keyword ircConstant False None True
syntax keyword ircOperatorWord and in is not or
syntax keyword ircDeclaration class def
syntax keyword ircControl as assert break continue elif else for from if import pass return while with
syntax keyword ircReserved async await del except finally global lambda nonlocal raise try yield
syntax keyword ircNamespace I R T cls
syntax keyword ircType bool int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float16 bfloat16 float32 float64 complex64 complex128 string
syntax match ircFunction "\(\<def\s\+\|\<class\s\+\)\@<=\h\w*"
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
