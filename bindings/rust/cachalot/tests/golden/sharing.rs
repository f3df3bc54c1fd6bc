// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of memory between processes; both ends are this process.
//!
//! The descriptors of `sim` are the system's, so their numbers are not those of the file: each of the file
//! stands for one of the library's.

use std::collections::HashMap;
use std::fmt::Write;

use cachalot::{OpenedMemory, SharedHandle, SimCalls};

use crate::operations::{DEVICE, Words, order};
use crate::script::Script;

pub const SHARE_LINE: &str = "# share ";
const NOT_SUPPORTED: i32 = 801;

/// What a script has open, and whether shared memory can be opened.
#[derive(Default)]
pub struct Sharing {
    opened: HashMap<i64, OpenedMemory>,
    works: bool,
}

pub fn run(script: &mut Script, word: &str, mut words: Words<'_>) {
    match word {
        "sharing" => script.sharing.works = words.word() != "0",
        "share" => {
            if let Some(shared) = share(script, words.number()) {
                let digits = shared.bytes.iter().fold(String::new(), |mut digits, byte| {
                    write!(digits, "{byte:02x}").expect("a string has room");
                    digits
                });
                script.answer(format_args!("share {} {digits}", shared.offset));
            }
        }
        "import" => {
            let id = words.number();
            if let Some(shared) = share(script, id) {
                open(script, id, shared.bytes);
            }
        }
        "open" => open(script, words.number(), bytes_of(words.rest())),
        _ => {
            script.sharing.opened.remove(&words.number());
        }
    }
}

fn share(script: &Script, id: i64) -> Option<SharedHandle> {
    let address = script.shared().live.get(&id).map(|block| block.address())?;
    script.worked(script.allocator().share(address))
}

/// Of an id that has one open already the new one comes first, as in the oracle.
fn open(script: &mut Script, id: i64, mut bytes: Vec<u8>) {
    if !script.sharing.works {
        refuse(script, &mut bytes);
    }
    let opened = script.allocator().open_shared(DEVICE, &SharedHandle { bytes, offset: 0 });
    order(script, SimCalls::IMPORT, 0, 0, 0);
    let Some(opened) = script.worked(opened) else { return };
    let address = opened.memory();
    drop(script.sharing.opened.insert(id, opened));
    script.answer(format_args!("imported {address:x}"));
}

/// The script's device knows no segments and has no descriptors: here they cannot be opened either.
fn refuse(script: &mut Script, bytes: &mut [u8]) {
    match handles_of(bytes) {
        Handles::Segment => order(script, SimCalls::IMPORT, NOT_SUPPORTED, 0, 1),
        Handles::Fabric => {}
        Handles::Descriptors { begin } => {
            for descriptor in bytes[begin..].chunks_exact_mut(4) {
                descriptor.copy_from_slice(&i32::MAX.to_le_bytes());
            }
        }
    }
}

// ---- PyTorch's bytes ----------------------------------------------------------------------------

enum Handles {
    Segment,
    Fabric,
    Descriptors { begin: usize },
}

/// A version, a kind, the process, padding, the bytes of a page, the number of pages, and from version 3
/// on the kind of their handles and padding.
fn handles_of(bytes: &[u8]) -> Handles {
    const HEADER: usize = 26;
    const WITH_KIND: usize = 34;
    let number = |begin: usize, size: usize| {
        let mut number = [0; 8];
        number[..size].copy_from_slice(&bytes[begin..begin + size]);
        u64::from_le_bytes(number)
    };
    if bytes.len() < HEADER || bytes.len() == 64 || bytes[1] != b'e' {
        return Handles::Segment;
    }
    let (begin, is_posix) = if bytes[0] >= 3 && bytes.len() >= WITH_KIND {
        (WITH_KIND, number(HEADER, 4) == 1)
    } else {
        (HEADER, (bytes.len() - HEADER) as u64 == 4 * number(HEADER - 8, 8))
    };
    if is_posix { Handles::Descriptors { begin } } else { Handles::Fabric }
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// Cuts a line at what differs from run to run: the process, padding that PyTorch leaves as it finds it,
/// and descriptors, which come apart.
fn cut(line: &str) -> (String, Vec<i32>) {
    let (offset, digits) = line[SHARE_LINE.len()..].split_once(' ').unwrap();
    let mut bytes = bytes_of(digits);
    let mut descriptors = Vec::new();
    let handles = handles_of(&bytes);
    if !matches!(handles, Handles::Segment) {
        bytes[2..10].fill(0);
        if bytes[0] >= 3 {
            bytes[30..34].fill(0);
        }
    }
    if let Handles::Descriptors { begin } = handles {
        let number = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().unwrap());
        descriptors.extend(bytes[begin..].chunks_exact(4).map(number));
        bytes.truncate(begin);
    }
    (format!("{offset} {bytes:?}"), descriptors)
}

/// Whether two lines of `share` are the same, and their descriptors those that stood for each other before.
pub fn equal(expected: &str, actual: &str, known: &mut HashMap<i32, i32>) -> bool {
    if !actual.starts_with(SHARE_LINE) {
        return false;
    }
    let ((wanted, theirs), (found, ours)) = (cut(expected), cut(actual));
    wanted == found
        && theirs.len() == ours.len()
        && theirs.iter().zip(&ours).enumerate().all(|(index, (theirs, ours_now))| {
            *known.entry(*theirs).or_insert(*ours_now) == *ours_now
                && !ours[..index].contains(ours_now)
        })
}
