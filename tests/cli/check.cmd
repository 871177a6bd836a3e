# irc check, and the forms of diagnostics

# --- roundtrip_of_a_sound_text
# => file a.ir
@R.function
def main(x: R.Tensor((2, 3), dtype="float32")):
    return x
# => run irc check --roundtrip a.ir
# => run irc check a.ir

# --- full
# => file a.ir
x = f(1, (2, 3)
y = 3 +
# => run irc check a.ir
[unclosed-bracket] Error: `(` is never closed
   ╭─[ a.ir:1:6 ]
   │
 1 │ x = f(1, (2, 3)
   │      ┬          │
   │      ╰──────────── opened here
   │                 │
   │                 ╰─ the statement ends before this
───╯
[syntax] Error: `+` needs a value behind it
   ╭─[ a.ir:2:8 ]
   │
 2 │ y = 3 +
   │        │
   │        ╰─ the line ends here
───╯
[exit 1]

# --- short
# => file a.ir
y = 3 +
# => run irc check --message-format short a.ir
a.ir:1:8: error[syntax]: `+` needs a value behind it
[exit 1]

# --- json
# => file a.ir
y = (3]
# => run irc check --message-format json a.ir
{"code":"mismatched-bracket","help":null,"message":"`]` closes a bracket that needs `)`","notes":[],"primary":{"column":7,"end_column":8,"end_line":1,"file":"a.ir","line":1,"text":"closed here"},"related":[{"column":5,"end_column":6,"end_line":1,"file":"a.ir","line":1,"text":"opened here"}],"severity":"error"}
[exit 1]

# --- sarif
# => file a.ir
y = 3 +
# => run irc check --message-format sarif a.ir
{
  "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
  "runs": [
    {
      "results": [
        {
          "level": "error",
          "locations": [
            {
              "message": {
                "text": "the line ends here"
              },
              "physicalLocation": {
                "artifactLocation": {
                  "uri": "a.ir"
                },
                "region": {
                  "endColumn": 8,
                  "endLine": 1,
                  "startColumn": 8,
                  "startLine": 1
                }
              }
            }
          ],
          "message": {
            "text": "`+` needs a value behind it"
          },
          "relatedLocations": [],
          "ruleId": "syntax"
        }
      ],
      "tool": {
        "driver": {
          "name": "irc",
          "version": "0.1.0"
        }
      }
    }
  ],
  "version": "2.1.0"
}
[exit 1]

# --- github
# => file a.ir
y = 3 +
# => run irc check --message-format github a.ir
::error title=syntax,file=a.ir,line=1,col=8::`+` needs a value behind it
[exit 1]
