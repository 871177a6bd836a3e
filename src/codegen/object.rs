//! The assembler of one object: names in, functions and data in any order, ELF bytes out.
//!
//! [`Assembler::declare`] answers the same id for the same name, so whoever calls a function need not know who
//! defines it. [`Assembler::define`] takes Cranelift IR and only stores it: all functions are compiled by
//! [`Assembler::finish`], on as many threads as the machine has, and defined in the order they came, so the bytes
//! do not depend on timing. Raw machine code and data are placed at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, AbiParam, Function, Signature, UserFuncName};
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::isa::{self, CallConv, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CompiledCode, Context, FinalizedMachReloc};
use cranelift_module::{
    DataDescription, DataId, FuncId, Linkage, Module, ModuleReloc, default_libcall_names,
};
use cranelift_object::{ObjectBuilder, ObjectModule};
use irc_syntax::{Diagnostic, Name};

use super::debug::{self, Frame, Lines, Piece};
use super::kernel::Kernel;
use super::loops::PrimSig;
use super::{Cpu, Target};

/// Machine code of one function.
struct Compiled {
    align: u64,
    bytes: Vec<u8>,
    relocs: Vec<ModuleReloc>,
    rows: Vec<(u32, u32)>,
    frame: Option<Frame>,
    clif: String,
    asm: String,
}

/// The object under construction.
pub struct Assembler {
    module: ObjectModule,
    isa: Arc<dyn TargetIsa>,
    pending: Vec<(FuncId, Function)>,
    texts: BTreeMap<(&'static str, Vec<u8>), DataId>,
    fresh: usize,
    listing: bool,
    /// What code is made for.
    pub cpu: Cpu,
    /// What a second copy of each kernel is made for.
    pub wider: Option<Cpu>,
    /// The marked regions that have been met, in order.
    pub regions: Vec<Region>,
    /// The prim_funcs declared so far, which others may call.
    pub prims: BTreeMap<Name, (FuncId, Rc<PrimSig>)>,
    /// The lines of the program's text.
    pub lines: Arc<Lines>,
    /// The line that a function starts at.
    first_lines: BTreeMap<FuncId, u32>,
    /// What debuggers are told of raw functions.
    raw: Vec<Piece>,
}

/// A region marked for the kernel emitter, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The function and the block: `matmul:tile`.
    pub place: String,
    /// Why it went through Cranelift instead; `None` when the kernel emitter took it.
    pub refusal: Option<String>,
}

/// What [`Assembler::finish`] hands out.
#[derive(Clone, Debug, Default)]
pub struct Assembled {
    /// The relocatable object.
    pub bytes: Vec<u8>,
    /// Cranelift IR, where a listing was asked for.
    pub clif: String,
    /// Assembly, where a listing was asked for.
    pub asm: String,
}

fn internal(what: &str, fault: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error("codegen-fault", format!("{what}: {fault}"))
}

/// The Cranelift target of a machine and instruction set.
fn make_isa(target: &Target) -> Result<OwnedTargetIsa, Diagnostic> {
    let fault = |fault: &dyn std::fmt::Display| {
        Diagnostic::error(
            "unsupported-target",
            format!("no code generator for `{}`: {fault}", target.triple),
        )
    };
    let mut flags = settings::builder();
    let mut set = |key: &str, value: &str| {
        flags
            .set(key, value)
            .map_err(|err| internal("setting a code generator flag", err))
    };
    set("is_pic", "true")?;
    set("opt_level", "speed")?;
    set(
        "enable_verifier",
        if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        },
    )?;
    set("enable_probestack", "false")?;
    set("unwind_info", "true")?;
    let mut builder = isa::lookup(target.triple.clone()).map_err(|err| fault(&err))?;
    if matches!(
        target.triple.architecture,
        target_lexicon::Architecture::X86_64
    ) {
        for flag in x86_features(target.cpu) {
            builder.enable(flag).map_err(|err| fault(&err))?;
        }
    }
    builder
        .finish(settings::Flags::new(flags))
        .map_err(|err| fault(&err))
}

/// The Cranelift names of what an x86-64 level has. AVX-512 is left to the kernel emitter.
fn x86_features(cpu: Cpu) -> &'static [&'static str] {
    const V2: &[&str] = &[
        "has_cmpxchg16b",
        "has_sse3",
        "has_ssse3",
        "has_sse41",
        "has_sse42",
        "has_popcnt",
    ];
    const V3: &[&str] = &[
        "has_cmpxchg16b",
        "has_sse3",
        "has_ssse3",
        "has_sse41",
        "has_sse42",
        "has_popcnt",
        "has_avx",
        "has_avx2",
        "has_fma",
        "has_bmi1",
        "has_bmi2",
        "has_lzcnt",
    ];
    match cpu {
        // Rounding without SSE4.1 would call libm, which the object does not import.
        Cpu::Portable | Cpu::V2 => V2,
        Cpu::V3 | Cpu::V4 => V3,
    }
}

impl Assembler {
    /// An empty object for a target.
    ///
    /// # Errors
    /// The target is not one that code can be made for.
    pub fn new(target: &Target) -> Result<Self, Diagnostic> {
        let isa = make_isa(target)?;
        let shared: Arc<dyn TargetIsa> = make_isa(target)?;
        let builder = ObjectBuilder::new(isa, "irc", default_libcall_names())
            .map_err(|err| internal("starting the object", err))?;
        Ok(Self {
            module: ObjectModule::new(builder),
            isa: shared,
            pending: Vec::new(),
            texts: BTreeMap::new(),
            fresh: 0,
            listing: target.listing,
            cpu: target.cpu,
            wider: target.wider,
            regions: Vec::new(),
            prims: BTreeMap::new(),
            lines: Arc::default(),
            first_lines: BTreeMap::new(),
            raw: Vec::new(),
        })
    }

    /// The C calling convention of the target.
    pub fn call_conv(&self) -> CallConv {
        self.isa.default_call_conv()
    }

    /// Whether the target is x86-64.
    pub fn is_x86(&self) -> bool {
        matches!(
            self.isa.triple().architecture,
            target_lexicon::Architecture::X86_64
        )
    }

    /// What the function builder must know of the target.
    pub fn frontend_config(&self) -> isa::TargetFrontendConfig {
        self.isa.frontend_config()
    }

    /// A signature of the C calling convention.
    pub fn signature(&self, params: &[ir::Type], returns: &[ir::Type]) -> Signature {
        let mut sig = Signature::new(self.call_conv());
        sig.params
            .extend(params.iter().map(|&ty| AbiParam::new(ty)));
        sig.returns
            .extend(returns.iter().map(|&ty| AbiParam::new(ty)));
        sig
    }

    /// The function of a name. `Linkage::Local` and `Export` are defined by someone before `finish`,
    /// `Linkage::Import` comes from elsewhere, `Linkage::Preemptible` never defined is a weak import.
    ///
    /// # Errors
    /// The name is declared with another signature or as data.
    pub fn declare(
        &mut self,
        name: &str,
        linkage: Linkage,
        params: &[ir::Type],
        returns: &[ir::Type],
    ) -> Result<FuncId, Diagnostic> {
        let sig = self.signature(params, returns);
        self.module
            .declare_function(name, linkage, &sig)
            .map_err(|err| internal(&format!("declaring `{name}`"), err))
    }

    /// A local function whose name starts with `base` and is used by no other.
    ///
    /// # Errors
    /// As [`Self::declare`].
    pub fn declare_fresh(
        &mut self,
        base: &str,
        params: &[ir::Type],
        returns: &[ir::Type],
    ) -> Result<FuncId, Diagnostic> {
        self.fresh += 1;
        let name = format!("{base}.{}", self.fresh);
        self.declare(&name, Linkage::Local, params, returns)
    }

    /// An empty function body for a declared function.
    pub fn begin(&self, id: FuncId) -> Function {
        let sig = self
            .module
            .declarations()
            .get_function_decl(id)
            .signature
            .clone();
        Function::with_name_signature(UserFuncName::user(0, id.as_u32()), sig)
    }

    /// A declared function as callee inside a function body.
    pub fn func_ref(&mut self, id: FuncId, func: &mut Function) -> ir::FuncRef {
        self.module.declare_func_in_func(id, func)
    }

    /// Data as an address inside a function body.
    pub fn data_ref(&mut self, id: DataId, func: &mut Function) -> ir::GlobalValue {
        self.module.declare_data_in_func(id, func)
    }

    /// Stores the body of a function for [`Self::finish`] to compile.
    pub fn define(&mut self, id: FuncId, func: Function) {
        self.pending.push((id, func));
    }

    /// Says at which line a function starts.
    pub fn start_at(&mut self, id: FuncId, line: Option<u32>) {
        self.first_lines.extend(line.map(|line| (id, line)));
    }

    /// Places a kernel as a function.
    ///
    /// # Errors
    /// It is defined already.
    pub fn define_raw(&mut self, id: FuncId, kernel: &Kernel) -> Result<(), Diagnostic> {
        self.raw.push(Piece {
            id,
            name: self.name(id),
            size: kernel.code.len() as u32,
            line: self.first_lines.get(&id).copied(),
            rows: kernel.rows.clone(),
            frame: Some(Frame::Steps(kernel.frame.clone())),
        });
        self.module
            .define_function_bytes(id, 64, &kernel.code, &[])
            .map_err(|err| internal("placing a kernel", err))
    }

    fn name(&self, id: FuncId) -> String {
        let decl = self.module.declarations().get_function_decl(id);
        decl.linkage_name(id).into_owned()
    }

    /// The data of a name, declared.
    ///
    /// # Errors
    /// The name is declared as a function.
    pub fn declare_data(
        &mut self,
        name: &str,
        linkage: Linkage,
        writable: bool,
    ) -> Result<DataId, Diagnostic> {
        self.module
            .declare_data(name, linkage, writable, false)
            .map_err(|err| internal(&format!("declaring `{name}`"), err))
    }

    /// Gives declared data its content.
    ///
    /// # Errors
    /// It is defined already.
    pub fn define_data(&mut self, id: DataId, data: &DataDescription) -> Result<(), Diagnostic> {
        self.module
            .define_data(id, data)
            .map_err(|err| internal("placing data", err))
    }

    /// The address of a function inside data.
    pub fn func_in_data(&mut self, id: FuncId, data: &mut DataDescription) -> ir::FuncRef {
        self.module.declare_func_in_data(id, data)
    }

    /// The address of data inside data.
    pub fn data_in_data(&mut self, id: DataId, data: &mut DataDescription) -> ir::GlobalValue {
        self.module.declare_data_in_data(id, data)
    }

    /// Read-only bytes, 64-aligned; equal bytes are placed once.
    ///
    /// # Errors
    /// The object cannot take them.
    pub fn constant(&mut self, bytes: &[u8]) -> Result<DataId, Diagnostic> {
        let (id, is_new) = self.keyed_data("irc.const", bytes)?;
        if is_new {
            let mut data = DataDescription::new();
            data.define(bytes.to_vec().into_boxed_slice());
            data.set_align(if bytes.len() < 64 { 16 } else { 64 });
            self.define_data(id, &data)?;
        }
        Ok(id)
    }

    /// The data of a content, and whether it is new: then it is only declared.
    ///
    /// # Errors
    /// It cannot be declared.
    pub fn keyed_data(
        &mut self,
        base: &'static str,
        key: &[u8],
    ) -> Result<(DataId, bool), Diagnostic> {
        let place = (base, key.to_vec());
        if let Some(&id) = self.texts.get(&place) {
            return Ok((id, false));
        }
        let name = format!("{base}.{}", self.texts.len());
        let id = self.declare_data(&name, Linkage::Local, false)?;
        self.texts.insert(place, id);
        Ok((id, true))
    }

    /// Text with a zero byte behind it.
    ///
    /// # Errors
    /// The object cannot take it.
    pub fn c_text(&mut self, text: &str) -> Result<DataId, Diagnostic> {
        let mut bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
        bytes.push(0);
        self.constant(&bytes)
    }

    /// Compiles what is stored and writes the object.
    ///
    /// # Errors
    /// Cranelift refuses a function, one diagnostic each.
    pub fn finish(mut self) -> Result<Assembled, Vec<Diagnostic>> {
        let mut res = Assembled::default();
        let mut faults = Vec::new();
        let mut pieces = std::mem::take(&mut self.raw);
        let pending = std::mem::take(&mut self.pending);
        let ids: Vec<FuncId> = pending.iter().map(|(id, _)| *id).collect();
        for (id, outcome) in ids
            .into_iter()
            .zip(compile_all(pending, &*self.isa, self.listing))
        {
            let name = self.name(id);
            let defined = outcome.and_then(|code| {
                pieces.push(Piece {
                    id,
                    name: name.clone(),
                    size: code.bytes.len() as u32,
                    line: self.first_lines.get(&id).copied(),
                    rows: code.rows,
                    frame: code.frame,
                });
                if self.listing {
                    let _ = write!(res.clif, "; {name}\n{}\n", code.clif);
                    let _ = write!(res.asm, "{name}:\n{}\n", code.asm);
                }
                self.module
                    .define_function_bytes(id, code.align, &code.bytes, &code.relocs)
                    .map_err(|err| err.to_string())
            });
            if let Err(fault) = defined {
                faults.push(internal(&format!("compiling `{name}`"), fault));
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut product = self.module.finish();
        debug::write(&mut product, &pieces, &*self.isa)
            .map_err(|err| vec![internal("writing the line tables", err)])?;
        res.bytes = product
            .emit()
            .map_err(|err| vec![internal("writing the object", err)])?;
        Ok(res)
    }
}

/// Compiles functions on all cores; results are in the order of the functions.
fn compile_all(
    pending: Vec<(FuncId, Function)>,
    isa: &dyn TargetIsa,
    listing: bool,
) -> Vec<Result<Compiled, String>> {
    let slots: Vec<Mutex<Option<(FuncId, Function)>>> = pending
        .into_iter()
        .map(|item| Mutex::new(Some(item)))
        .collect();
    let results: Vec<Mutex<Result<Compiled, String>>> = slots
        .iter()
        .map(|_| Mutex::new(Err("not compiled".to_owned())))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut cx = Context::new();
        loop {
            let idx = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(idx) else { return };
            let Some((id, func)) = slot.lock().ok().and_then(|mut slot| slot.take()) else {
                continue;
            };
            cx.clear();
            cx.func = func;
            let outcome = compile_one(id, &mut cx, isa, listing);
            if let Ok(mut result) = results[idx].lock() {
                *result = outcome;
            }
        }
    };
    let n_threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(slots.len());
    std::thread::scope(|scope| {
        for _ in 1..n_threads {
            scope.spawn(work);
        }
        work();
    });
    results
        .into_iter()
        .map(|result| {
            result
                .into_inner()
                .unwrap_or_else(|_| Err("a compile thread failed".to_owned()))
        })
        .collect()
}

fn compile_one(
    id: FuncId,
    cx: &mut Context,
    isa: &dyn TargetIsa,
    listing: bool,
) -> Result<Compiled, String> {
    let clif = if listing {
        cx.func.display().to_string()
    } else {
        String::new()
    };
    cx.set_disasm(listing);
    if let Err(err) = cx.compile(isa, &mut ControlPlane::default()) {
        return Err(cranelift_codegen::print_errors::pretty_error(
            err.func, err.inner,
        ));
    }
    let code = cx.compiled_code().ok_or("no code")?;
    let relocs: Vec<FinalizedMachReloc> = code.buffer.relocs().to_vec();
    let unwind = code
        .create_unwind_info(isa)
        .map_err(|err| err.to_string())?;
    Ok(Compiled {
        rows: rows(code),
        frame: match unwind {
            Some(UnwindInfo::SystemV(info)) => Some(Frame::Known(info)),
            _ => None,
        },
        align: u64::from(code.buffer.alignment).max(32),
        bytes: code.buffer.data().to_vec(),
        relocs: relocs
            .iter()
            .map(|reloc| ModuleReloc::from_mach_reloc(reloc, &cx.func, id))
            .collect(),
        clif,
        asm: code.vcode.clone().unwrap_or_default(),
    })
}

/// The lines that code comes from. What has none belongs to the line before.
fn rows(code: &CompiledCode) -> Vec<(u32, u32)> {
    let mut rows: Vec<(u32, u32)> = Vec::new();
    for place in code.buffer.get_srclocs_sorted() {
        if place.loc.is_default() || rows.last().is_some_and(|row| row.1 == place.loc.bits()) {
            continue;
        }
        rows.push((place.start, place.loc.bits()));
    }
    rows
}
