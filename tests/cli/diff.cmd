# irc diff

# --- a_model_its_text_and_its_weights
# => copy net.onnx examples/shapes/shapes.onnx
# => run irc import net.onnx -o net.ir
# => run irc diff net.onnx net.ir
equal
# => run irc diff net.safetensors net.onnx
equal
# => run irc diff net.onnx - < net.onnx
equal
# => lists
net.ir
net.onnx
net.safetensors

# --- shared_objects_by_their_loops
# => file a.ir
@R.function
def main(x: R.Tensor(("n", 8), dtype="float32")):
    y = R.nn.relu(x)
    z = R.sum(y, axis=1)
    return z
# => file b.ir
@R.function
def main(image: R.Tensor(("n", 8), dtype="float32")):
    y = R.exp(image)
    z = R.sum(y, axis=1)
    return z
# => run irc build a.ir -o a.so --cpu x86-64-v3
# => run irc build b.ir -o b.so --cpu x86-64-v3
# => run irc diff a.so a.so
equal
# => run irc diff a.so b.so --stat
major
interface: 1 renamed
fused_maximum_sum operators: 1 changed
[exit 1]
# => run irc diff a.ir a.so
equal (one program is lowered to loops and the other is not: only interfaces are compared)
# => run irc diff b.so a.ir
major: input `image` renamed
interface
  ~ input `image` → `x`  (of `main`)  major
note: one program is lowered to loops and the other is not: only interfaces are compared
[exit 1]

# --- as_json
# => file a.ir
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    y = R.nn.relu(x)
    return y
# => file b.ir
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    y = R.nn.softmax(R.exp(x), axis=0)
    return y
# => run irc diff a.ir b.ir --format json
{
  "a": "a.ir",
  "b": "b.ir",
  "equal": false,
  "functions": [
    {
      "changes": [
        {
          "details": [],
          "in": "y",
          "kind": "added",
          "name": "",
          "note": "R.exp(x)",
          "what": "R.exp"
        },
        {
          "details": [],
          "kind": "added",
          "name": "y",
          "note": "R.nn.softmax(R.exp(x), axis=0)",
          "what": "R.nn.softmax"
        },
        {
          "details": [],
          "kind": "removed",
          "name": "y",
          "note": "R.nn.relu(x)",
          "what": "R.nn.relu"
        },
        {
          "details": [
            {
              "aspect": "operand",
              "from": "`y`",
              "to": "`y` (new)",
              "what": "result"
            }
          ],
          "kind": "changed",
          "name": "",
          "what": "return"
        }
      ],
      "follows": [],
      "name": "main"
    }
  ],
  "interface": [],
  "notes": [],
  "reason": "",
  "v": 1,
  "verdict": "patch",
  "weights": []
}
[exit 1]

# --- as_a_page
# => file a.ir
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    y = R.nn.softmax(x, axis=0)
    return y
# => file b.ir
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    y = R.nn.softmax(x, axis=-1)
    return y
# => run irc diff a.ir b.ir --format html -o page.html
[exit 1]
# => is page.html
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>irc diff</title>
<style>
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --dim: #57606a; --line: #d0d7de;
  --add: #116329; --del: #a40e26; --mod: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6edf3; --bg: #0d1117; --dim: #9198a1;
  --line: #3d444d; --add: #3fb950; --del: #ff7b72; --mod: #79c0ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 1.5rem 0 .3rem; }
code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid var(--line); padding: .3rem .5rem; vertical-align: top; }
td:first-child { width: 5.5rem; font-weight: 600; }
.added { color: var(--add); } .removed { color: var(--del); } .changed, .renamed { color: var(--mod); }
.dim { color: var(--dim); } ul { margin: .2rem 0; padding-left: 1.1rem; }
</style>
</head>
<body>
<h1><code>a.ir</code> → <code>b.ir</code></h1>
<p><strong>patch</strong></p>
<h2>main <span class="dim">1 changed</span></h2>
<table>
<tr><td class="changed">changed</td><td><code>R.nn.softmax `y`</code><ul><li><code>axis: 0 → -1</code></li></ul></td></tr>
</table>
</body>
</html>

# --- what_cannot_be_compared
# => file bad.ir
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    y = R.nn.softmax(x, axis=
    return y
# => run irc diff bad.ir bad.ir
[unclosed-bracket] Error: `(` is never closed
   ╭─[ bad.ir:3:21 ]
   │
 3 │     y = R.nn.softmax(x, axis=
   │                     ┬
   │                     ╰── opened here
 4 │     return y
   │     │
   │     ╰─ the statement ends before this
───╯
[exit 1]
# => run irc diff bad.ir
error: two files are compared: `irc diff A B`
[exit 2]
# => run irc diff bad.ir none.ir
[unclosed-bracket] Error: `(` is never closed
   ╭─[ bad.ir:3:21 ]
   │
 3 │     y = R.nn.softmax(x, axis=
   │                     ┬
   │                     ╰── opened here
 4 │     return y
   │     │
   │     ╰─ the statement ends before this
───╯
[exit 1]
# => run irc diff bad.ir bad.ir --ignore lines
error: invalid value 'lines' for '--ignore <WHAT>'
  [possible values: names, order, weights, attrs]

For more information, try '--help'.
[exit 2]

# --- what_git_would_be_told
# => run irc diff --git net.onnx
* unmerged net.onnx
# => run irc diff --git net.onnx none.onnx 0 100644 none.onnx 0 100644
irc diff a/net.onnx b/net.onnx
cannot compare: `none.onnx` cannot be read: No such file or directory (os error 2)
