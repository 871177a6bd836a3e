# irc list

# --- cpus_and_dtypes
# => run irc list cpus
native
x86-64-v2
x86-64-v3
x86-64-v4
x86-64-v3+v4
portable
aarch64
# => run irc list dtypes
bool
int2
int4
int8
int16
int32
int64
uint2
uint4
uint8
uint16
uint32
uint64
float4_e2m1fn
float8_e4m3fn
float8_e4m3fnuz
float8_e5m2
float8_e5m2fnuz
float8_e8m0fnu
float16
bfloat16
float32
float64
complex64
complex128
string

# --- nothing
# => run irc list
error: the following required arguments were not provided:
  <WHAT>

Usage: irc list <WHAT>

For more information, try '--help'.
[exit 2]
# => run irc list things
error: invalid value 'things' for '<WHAT>'
  [possible values: passes, ops, cpus, dtypes]

For more information, try '--help'.
[exit 2]
