//! What code is made for.

/// The largest static buffer of a prim_func that is kept on the stack, in bytes.
pub const MAX_STACK_BUFFER: i64 = 16 * 1024;

/// The attribute of modules that are built for profiles: a hook is called before and after every kernel.
pub const PROFILE: &str = "irc.profile";

/// The annotation of a parallel loop that says what a round of it is worth, in hundredths of a nanosecond.
pub const WORK: &str = "irc.work";

/// The annotation of a parallel loop that runs backwards every other time, so that it meets first what it used last.
pub const TURNS: &str = "irc.turns";

/// The instruction set that code is made for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cpu {
    /// The baseline of the architecture.
    Portable,
    /// SSE4.2.
    V2,
    /// AVX2 and FMA.
    V3,
    /// AVX-512 F, BW, CD, DQ, VL.
    V4,
}

/// What an object is made for.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The machine and system.
    pub triple: target_lexicon::Triple,
    /// The instruction set.
    pub cpu: Cpu,
    /// The instruction set of a second copy of each kernel, taken where the machine has it.
    pub wider: Option<Cpu>,
    /// Whether AVX-512 VNNI may be used.
    pub vnni: bool,
    /// Whether the object's listings are filled.
    pub listing: bool,
    /// Whether every sum is taken term by term in the order of the text.
    pub exact: bool,
}

impl Cpu {
    /// The number of the level in the x86-64 psABI.
    pub fn level(self) -> i64 {
        match self {
            Self::Portable => 1,
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }

    /// What `--cpu` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 => "x86-64-v4",
        }
    }
}

impl Target {
    /// 64-bit ARM with Linux, its baseline.
    pub fn aarch64() -> Self {
        use target_lexicon::{
            Aarch64Architecture, Architecture, BinaryFormat, Environment, OperatingSystem, Triple,
            Vendor,
        };
        Self {
            triple: Triple {
                architecture: Architecture::Aarch64(Aarch64Architecture::Aarch64),
                vendor: Vendor::Unknown,
                operating_system: OperatingSystem::Linux,
                environment: Environment::Gnu,
                binary_format: BinaryFormat::Elf,
            },
            cpu: Cpu::Portable,
            wider: None,
            vnni: false,
            listing: false,
            exact: false,
        }
    }

    /// Whether the code is for x86-64.
    pub fn is_x86(&self) -> bool {
        self.triple.architecture == target_lexicon::Architecture::X86_64
    }

    /// What `--cpu` calls the instruction sets.
    pub fn cpu_name(&self) -> String {
        if !self.is_x86() {
            return self.triple.architecture.to_string();
        }
        match self.wider {
            None => self.cpu.name().to_owned(),
            Some(wider) => format!("{}+v{}", self.cpu.name(), wider.level()),
        }
    }

    /// The machine irc runs on.
    pub fn native() -> Self {
        let (cpu, vnni) = host_cpu();
        Self {
            triple: target_lexicon::Triple::host(),
            cpu,
            wider: None,
            vnni,
            listing: false,
            exact: false,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn host_cpu() -> (Cpu, bool) {
    let v2 = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt");
    let v3 = v2
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2");
    let v4 = v3
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (v2, v3, v4) {
        (_, _, true) => (Cpu::V4, is_x86_feature_detected!("avx512vnni")),
        (_, true, false) => (Cpu::V3, false),
        (true, false, false) => (Cpu::V2, false),
        (false, false, false) => (Cpu::Portable, false),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn host_cpu() -> (Cpu, bool) {
    (Cpu::Portable, false)
}
