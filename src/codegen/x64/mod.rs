//! x86-64: vector IR to bytes.
