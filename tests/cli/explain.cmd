# irc explain

# --- a_code
# => run irc explain too-deep
too-deep

Brackets, operators or blocks nest deeper than the limit. Bind parts of the
expression to names, or move inner blocks to a function.

# --- no_code
# => run irc explain no-such-code
error: no diagnostic has the code `no-such-code`; `irc explain` lists them
[exit 1]
