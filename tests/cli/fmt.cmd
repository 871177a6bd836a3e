# irc fmt

# --- a_formatted_text_stays
# => file a.ir
def f(x):
    return x
# => run irc fmt --check a.ir
# => run irc fmt a.ir
# => is a.ir
def f(x):
    return x

# --- check_names_the_file_and_fails
# => file a.ir
def f( x ):
    return x
# => run irc fmt --check a.ir
a.ir
[exit 1]
# => is a.ir
def f( x ):
    return x

# --- diff_shows_what_would_change
# => file a.ir
def f( x ):
    return x
# => run irc fmt --diff a.ir
--- a.ir
+++ a.ir (formatted)
@@ -1,2 +1,2 @@
-def f( x ):
+def f(x):
     return x
[exit 1]

# --- writes_in_place
# => file a.ir
def f( x ):
    return x # why
# => run irc fmt a.ir
# => is a.ir
def f(x):
    return x  # why

# --- stdin_goes_to_stdout
# => file a.ir
def f( x ):
    return x
# => run irc fmt - < a.ir
def f(x):
    return x

# --- a_text_with_errors_stays
# => file a.ir
def f( x ):
    return
    y = (
# => run irc fmt a.ir
[unclosed-bracket] Error: `(` is never closed
   ╭─[ a.ir:3:9 ]
   │
 3 │     y = (
   │         ┬ │
   │         ╰─── opened here
   │           │
   │           ╰─ the statement ends before this
───╯
[exit 1]
# => is a.ir
def f( x ):
    return
    y = (

# --- a_missing_file_is_an_io_error
# => run irc fmt missing.ir
error: cannot read missing.ir: No such file or directory (os error 2)
[exit 3]

# --- without_files_is_a_usage_error
# => run irc fmt
error: the following required arguments were not provided:
  <FILE>...

Usage: irc fmt <FILE>...

For more information, try '--help'.
[exit 2]
