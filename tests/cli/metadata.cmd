# Texts of Apache TVM with their metadata

# --- tensors_of_metadata_are_constants
# => file add.ir
metadata = tvm.ir.load_json("""{\"root_index\": 4, \"nodes\": [{\"type\": \"ffi.String\", \"data\": \"ir.GenericConst\"}, {\"type\": \"ffi.Tensor\", \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQACAAAAAAAAAAgAAAAAAAAAAADAPwAAAMA=\"}, {\"type\": \"ir.GenericConst\", \"data\": {\"span\": 0, \"ty\": 0, \"value\": 1}}, {\"type\": \"ffi.Array\", \"data\": [2]}, {\"type\": \"ffi.Map\", \"data\": [0, 3]}]}""")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        y = R.add(x, metadata["ir.GenericConst"][0])
        return y
# => run irc opt -p normalize add.ir
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        y = R.add(x, R.const([1.5, -2.0], "float32"))
        return y
note: `normalize` changed nothing
# => run irc run add.ir --input x=[1,1]
out: float32[2] 2.5 -1

# --- an_entry_that_is_not_there
# => file add.ir
metadata = tvm.ir.load_json("""{\"root_index\": 4, \"nodes\": [{\"type\": \"ffi.String\", \"data\": \"ir.GenericConst\"}, {\"type\": \"ffi.Tensor\", \"data\": \"P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQACAAAAAAAAAAgAAAAAAAAAAADAPwAAAMA=\"}, {\"type\": \"ir.GenericConst\", \"data\": {\"span\": 0, \"ty\": 0, \"value\": 1}}, {\"type\": \"ffi.Array\", \"data\": [2]}, {\"type\": \"ffi.Map\", \"data\": [0, 3]}]}""")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        y = R.add(x, metadata["ir.GenericConst"][1])
        return y
# => run irc build add.ir -o add.so
[metadata] Error: the metadata has no tensor `ir.GenericConst` 1 that can be read
   ╭─[ add.ir:7:22 ]
   │
 7 │         y = R.add(x, metadata["ir.GenericConst"][1])
   │                      ───────────────┬──────────────
   │                                     ╰──────────────── here
───╯
[exit 1]

# --- metadata_that_is_no_json
# => file add.ir
metadata = tvm.ir.load_json("""{""")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")):
        y = R.add(x, metadata["ir.GenericConst"][0])
        return y
# => run irc build add.ir -o add.so
[metadata] Error: the metadata is no JSON: EOF while parsing an object at line 1 column 1
   ╭─[ add.ir:1:1 ]
   │
 1 │ metadata = tvm.ir.load_json("""{""")
   │ ──────────────────┬─────────────────
   │                   ╰─────────────────── here
───╯
[exit 1]
