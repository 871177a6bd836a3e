"""Imports, exports and imports again each model of a folder, and compares the two texts.

    python tests/export/fixed_point.py --irc target/release/irc target/models [--filter REGEX]

A model passes where `irc diff` finds the second text equal to the first: same interface, operators, attributes and weights;
names of values and the places of constants may differ. It is said of each whether the texts are the same to the byte. The last line is
"N passed, M failed, K to the byte"; exit code 1 where a model failed. Needs Python only.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def run(irc, *args):
    """What a command prints; raises where it fails otherwise than by a difference."""
    found = subprocess.run([irc, *map(str, args)], capture_output=True, text=True)
    if found.returncode > 1 or found.returncode == 1 and args[0] != "diff":
        raise RuntimeError(f"irc {args[0]}: {found.stderr.strip()}")
    return found


def judge(irc, model, folder):
    """Whether the texts are the same to the byte, and what differs otherwise."""
    texts = [folder / name / "net.ir" for name in ("first", "second")]
    for text in texts:
        text.parent.mkdir()
    exported = folder / "net.onnx"
    run(irc, "import", model, "-o", texts[0])
    run(irc, "export", texts[0], "-o", exported, "--external-data")
    run(irc, "import", exported, "-o", texts[1])
    if texts[0].read_bytes() == texts[1].read_bytes():
        return True, ""
    found = run(irc, "diff", *texts)
    return False, found.stdout.strip() if found.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--irc", required=True)
    parser.add_argument("--filter", default="")
    args = parser.parse_args()
    found = sorted(args.models.rglob("*.onnx"))
    found = [model for model in found if re.search(args.filter, str(model))]
    passed, failed, same = 0, 0, 0
    for model in found:
        name = model.relative_to(args.models)
        with tempfile.TemporaryDirectory() as folder:
            try:
                is_same, fault = judge(args.irc, model, Path(folder))
            except RuntimeError as error:
                is_same, fault = False, str(error)
        if fault:
            failed += 1
            print(f"{name}: {fault}", flush=True)
            continue
        passed += 1
        same += is_same
        print(f"{name}: {'the same' if is_same else 'equal'}", flush=True)
    print(f"{passed} passed, {failed} failed, {same} to the byte")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
