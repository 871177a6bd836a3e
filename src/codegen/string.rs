//! Strings in registers and in data: an element is a pointer and a length, together an i128.
//!
//! The low half is the pointer, which is what comes first in memory. The bytes belong to whoever made them: the caller,
//! the object's own data, or the memory of the call.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_module::{DataDescription, DataId, Linkage};
use irc_syntax::Diagnostic;

use super::arith::Compare;
use super::lower::{Lower, Res};
use super::object::Assembler;

impl Assembler {
    /// The elements of a string tensor as data: pairs of an address and a length. Equal tensors are placed once.
    ///
    /// # Errors
    /// The object cannot take them.
    pub fn string_table(&mut self, strings: &[String]) -> Result<DataId, Diagnostic> {
        // The lengths tell apart tensors whose bytes run together alike.
        let lengths = strings.iter().flat_map(|text| text.len().to_le_bytes());
        let bytes: Vec<u8> = strings.concat().into_bytes();
        let key: Vec<u8> = lengths.chain(bytes.iter().copied()).collect();
        let (table, is_new) = self.keyed_data("irc.strings", &key)?;
        if !is_new {
            return Ok(table);
        }
        let mut data = DataDescription::new();
        let mut words = Vec::with_capacity(16 * strings.len());
        for text in strings {
            words.extend_from_slice(&[0; 8]);
            words.extend_from_slice(&(text.len() as u64).to_le_bytes());
        }
        if words.is_empty() {
            words.resize(16, 0);
        }
        data.define(words.into_boxed_slice());
        data.set_align(16);
        // An empty string has an address too.
        let pool = self.constant(&[&bytes[..], &[0]].concat())?;
        let pool = self.data_in_data(pool, &mut data);
        let mut at = 0;
        for (position, text) in strings.iter().enumerate() {
            data.write_data_addr(16 * position as u32, pool, at);
            at += text.len() as i64;
        }
        self.define_data(table, &data)?;
        Ok(table)
    }
}

impl Lower<'_, '_> {
    /// The address of the elements of a string tensor.
    pub fn string_table(&mut self, strings: &[String]) -> Res<Value> {
        let id = self.asm.string_table(strings)?;
        let data = self.asm.data_ref(id, self.b.func);
        Ok(self.b.ins().symbol_value(I64, data))
    }

    /// A written string.
    pub fn string(&mut self, text: &str) -> Res<Value> {
        let id = self.asm.constant(&[text.as_bytes(), &[0]].concat())?;
        let data = self.asm.data_ref(id, self.b.func);
        let pointer = self.b.ins().symbol_value(I64, data);
        let length = self.i64(text.len() as i64);
        Ok(self.b.ins().iconcat(pointer, length))
    }

    /// Compares two strings by their bytes, which for UTF-8 is the order of code points.
    pub fn compare_strings(&mut self, op: Compare, lhs: Value, rhs: Value) -> Res<Value> {
        let (left, left_len) = self.b.ins().isplit(lhs);
        let (right, right_len) = self.b.ins().isplit(rhs);
        let shorter = self.b.ins().smin(left_len, right_len);
        if matches!(op, Compare::Eq | Compare::Ne) {
            // Strings of two lengths differ, whatever their bytes are.
            let same_len = self.b.ins().icmp(IntCC::Equal, left_len, right_len);
            let zero = self.i64(0);
            let len = self.b.ins().select(same_len, shorter, zero);
            let order = self.memcmp(left, right, len)?;
            let same_bytes = self.b.ins().icmp_imm_s(IntCC::Equal, order, 0);
            let equal = self.b.ins().band(same_len, same_bytes);
            return Ok(match op {
                Compare::Ne => self.b.ins().bxor_imm_u(equal, 1),
                _ => equal,
            });
        }
        let order = self.memcmp(left, right, shorter)?;
        let order = self.b.ins().sextend(I64, order);
        let by_len = self.b.ins().isub(left_len, right_len);
        let sign = self.b.ins().select(order, order, by_len);
        let cc = match op {
            Compare::Lt => IntCC::SignedLessThan,
            Compare::Le => IntCC::SignedLessThanOrEqual,
            Compare::Gt => IntCC::SignedGreaterThan,
            _ => IntCC::SignedGreaterThanOrEqual,
        };
        Ok(self.b.ins().icmp_imm_s(cc, sign, 0))
    }

    fn memcmp(&mut self, left: Value, right: Value, len: Value) -> Res<Value> {
        let params = [I64, I64, I64];
        let id = self
            .asm
            .declare("memcmp", Linkage::Import, &params, &[I32])?;
        Ok(self.call(id, &[left, right, len]))
    }
}
