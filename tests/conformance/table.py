#!/usr/bin/env python3
"""What irc makes of each ONNX operator at each of its versions, as a table in Markdown.

usage: table.py IRC SUITE_DIR RESULTS.json > README.md        needs: pip install "onnx==1.23.2"

SUITE_DIR holds the cases of ONNX's backend suite, a folder with model.onnx each; RESULTS.json is what its runner
wrote: the outcome of each case by name. A case counts for every operator that its graph names itself, at the
version that the model's operator sets choose.
"""
import collections
import json
import pathlib
import subprocess
import sys

import onnx
from onnx import defs

HEAD = """# Conformance

Written by `BLESS=1 tests/run` from ONNX's backend suite (`tests/conformance/table.py`); not edited by hand. One row an
operator and version that changed it. *meaning*: the version of the function in `std/` that serves it, `importer` for what
import itself translates, `-` where the operator is refused. *passed*: cases of the suite that name the operator at that version, and how
many of them pass. *by*: one that passes. *falls short*: those that do not, with their outcome.
"""
BY_IMPORT = {"Constant", "If", "Loop", "Scan", "SequenceMap"}


def meanings(irc):
    """Operator path -> versions of its functions, newest first."""
    listed = subprocess.run([irc, "list", "ops"], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listed.splitlines():
        path, _, versions = line.partition(" since ")
        found[path] = sorted((int(v) for v in versions.split(",") if v.strip().isdigit()), reverse=True)
    return found


def path_of(domain, name):
    domain = domain.removeprefix("ai.onnx.").removeprefix("com.")
    return f"onnx.{domain}.{name}" if domain else f"onnx.{name}"


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from nodes(inner)


def operators_of(model):
    """(domain, operator, version that defines it) of each node."""
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    found = set()
    for node in nodes(model.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
        except defs.SchemaError:
            continue
        found.add((domain, node.op_type, schema.since_version))
    return found


def shortfall(cases, results):
    bad = sorted(name for name in cases if results[name][0] != "pass")
    shown = [f"`{name}` {results[name][0]}" for name in bad[:3]]
    return ", ".join(shown) + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")


def main():
    irc, suite, results = sys.argv[1], pathlib.Path(sys.argv[2]), json.load(open(sys.argv[3]))
    known = meanings(irc)
    cases = collections.defaultdict(list)
    for path in sorted(suite.rglob("model.onnx")):
        if path.parent.name in results:
            for key in operators_of(onnx.load(str(path), load_external_data=False)):
                cases[key].append(path.parent.name)
    outcomes = collections.Counter(outcome for outcome, _ in results.values())
    print(HEAD)
    print(f"{outcomes['pass']} of {len(results)} cases pass.\n")
    print("| operator | version | meaning | passed | by | falls short |\n|---|---|---|---|---|---|")
    schemas = sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version))
    for schema in schemas:
        key = (schema.domain, schema.name, schema.since_version)
        versions = known.get(path_of(schema.domain, schema.name), [])
        meaning = next((str(v) for v in versions if v <= schema.since_version), "-")
        if meaning == "-" and not schema.domain and schema.name in BY_IMPORT:
            meaning = "importer"
        good = [name for name in cases[key] if results[name][0] == "pass"]
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        passed = f"{len(good)}/{len(cases[key])}" if cases[key] else ""
        by = f"`{min(good, key=len)}`" if good else ""
        cells = [name, str(schema.since_version), meaning, passed, by, shortfall(cases[key], results)]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
