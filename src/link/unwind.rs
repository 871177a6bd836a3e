//! `.eh_frame_hdr`: where the frame of each function is described, sorted, for unwinders that look it up at run time.
//!
//! Header: version 1, the encodings of what follows (an offset from here, a count, pairs of offsets from the
//! header), the address of `.eh_frame`, the number of entries, then start of a function and place of its entry.

use super::LinkError;
use super::plan::Plan;

/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`, the form of addresses in the frames that are understood.
const PC_RELATIVE: u8 = 0x1b;

/// Bytes before the table.
const HEADER: usize = 12;

/// Bytes of a header for the frames of a section; `None` where their form is not known.
pub fn header_size(frames: &[u8]) -> Option<usize> {
    Some(HEADER + 8 * entries(frames)?.len())
}

/// Fills the header once addresses are known and frames patched.
pub fn fill(plan: &mut Plan) -> Result<(), LinkError> {
    let Some((frames, header)) = plan.unwind else {
        return Ok(());
    };
    let (start, here) = (plan.sections[frames].addr, plan.sections[header].addr);
    let data = &plan.sections[frames].data;
    let far = || LinkError::Object("a frame is too far from its function".to_owned());
    let offset = |addr: u64| i32::try_from(addr.wrapping_sub(here) as i64).map_err(|_| far());
    let mut table = Vec::new();
    for at in entries(data).unwrap_or_default() {
        let place = start + at as u64;
        let distance = word(data, at + 8).ok_or_else(far)? as i32;
        let func = (place + 8).wrapping_add_signed(i64::from(distance));
        table.push((offset(func)?, offset(place)?));
    }
    table.sort_unstable();
    let mut res = vec![1, PC_RELATIVE, 0x03, 0x3b];
    let to_frames = start.wrapping_sub(here + 4) as i64;
    res.extend(i32::try_from(to_frames).map_err(|_| far())?.to_le_bytes());
    res.extend((table.len() as u32).to_le_bytes());
    for (func, place) in table {
        res.extend(func.to_le_bytes());
        res.extend(place.to_le_bytes());
    }
    plan.sections[header].data = res;
    Ok(())
}

/// The offsets of the entries for functions; `None` where one is in a form that is not known.
fn entries(frames: &[u8]) -> Option<Vec<usize>> {
    let mut res = Vec::new();
    let mut at = 0;
    while at < frames.len() {
        let size = word(frames, at)? as usize;
        if size == 0 {
            break;
        }
        match word(frames, at + 4)? as usize {
            0 => is_understood(frames.get(at + 8..at + 4 + size)?).then_some(())?,
            _ => res.push(at),
        }
        at += 4 + size;
    }
    Some(res)
}

/// Whether common information says that addresses are relative in 32 bits and nothing else follows them.
fn is_understood(info: &[u8]) -> bool {
    // Version, "zR", code and data alignment, return register, one byte of augmentation.
    let [1, b'z', b'R', 0, rest @ ..] = info else {
        return false;
    };
    let mut rest = rest.iter().copied();
    for _ in 0..2 {
        // A number in groups of seven bits.
        while rest.next().is_some_and(|byte| byte & 0x80 != 0) {}
    }
    let (_register, size, form) = (rest.next(), rest.next(), rest.next());
    (size, form) == (Some(1), Some(PC_RELATIVE))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
