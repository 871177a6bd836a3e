"""Writes schemas.txt: what ONNX's operator sets from 18 on allow, as the `onnx` package has it.

    pip install onnx==1.23.2
    python src/onnx/schemas.py > src/onnx/schemas.txt

A line is one version of an operator: domain, name, version, how many inputs it takes, its attributes with their
types, and the element
types of each input and of each output (`*` for any). Of an operator's versions, the one that set 18 has is the first line.
"""

from onnx import defs

FIRST = {"": 18, "ai.onnx.ml": 4}
SHORT = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "string": "string",
    "bool": "bool",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
    "complex64": "complex64",
    "complex128": "complex128",
}


def types(schema, text):
    """The element types that a formal input may have; `*` where it is no plain tensor."""
    allowed = [text]
    for constraint in schema.type_constraints:
        if constraint.type_param_str == text:
            allowed = constraint.allowed_type_strs
    found = []
    for name in allowed:
        if not name.startswith("tensor("):
            return "*"
        inner = name[len("tensor(") : -1]
        found.append(SHORT.get(inner, inner))
    return ",".join(sorted(found))


def kind(attribute):
    """The type of an attribute, as its field of AttributeProto is called."""
    return str(attribute.type).rsplit(".", 1)[-1].lower()


def main():
    rows = []
    for schema in defs.get_all_schemas_with_history():
        if schema.domain not in FIRST:
            continue
        rows.append((schema.domain, schema.name, schema.since_version, schema))
    rows.sort(key=lambda row: row[:3])
    for domain, name, version, schema in rows:
        later = [r for r in rows if r[0] == domain and r[1] == name and version < r[2] <= FIRST[domain]]
        if later or schema.deprecated:
            continue
        attributes = ",".join(f"{key}={kind(value)}" for key, value in sorted(schema.attributes.items()))
        inputs = ";".join(types(schema, formal.type_str) for formal in schema.inputs)
        most = schema.max_input if schema.max_input < 1 << 30 else "*"
        outputs = ";".join(types(schema, formal.type_str) for formal in schema.outputs)
        print("|".join([domain or "ai.onnx", name, str(version), str(most), attributes, inputs, outputs]))


main()
