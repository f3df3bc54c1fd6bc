// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the library's lines are those of PyTorch.

use std::collections::HashMap;

use cachalot::Error;

use crate::{pinned, sharing};

/// A line of the library; a failure keeps its kind apart from its text.
#[derive(Debug)]
pub enum Line {
    Text(String),
    Failure { error: Error, at_init: bool },
}

/// How texts of errors are compared in one operation.
#[derive(Clone, Copy, Default)]
pub struct ErrorRules {
    /// The file has all lines of an error text, with \n between them; else the first only.
    pub whole_text: bool,
    /// PyTorch's text cannot be had here.
    pub kind_only: bool,
}

/// Contexts are numbers of script lines: the files count the lines of the script, the library those
/// of the file's operations. What is left out stands at the top, so the two differ by a constant,
/// which the first pair that is seen tells.
#[derive(Default)]
pub struct Comparison {
    left_out: Option<u64>,
    /// The library's descriptors of those of the file.
    descriptors: HashMap<i32, i32>,
}

impl Comparison {
    /// The first line that differs, is missing or is one too many.
    pub fn first_difference(
        &mut self,
        expected: &[&str],
        actual: &[Line],
        rules: ErrorRules,
    ) -> Option<usize> {
        for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
            let of_pinned = pinned::as_sim_prints(expected);
            if !self.equal(of_pinned.as_deref().unwrap_or(expected), actual, rules) {
                return Some(index);
            }
        }
        (expected.len() != actual.len()).then(|| expected.len().min(actual.len()))
    }

    fn equal(&mut self, expected: &str, actual: &Line, rules: ErrorRules) -> bool {
        match actual {
            Line::Failure { error, at_init } => {
                expected.starts_with("E ") && equal_errors(expected, error, *at_init, rules)
            }
            Line::Text(actual) if expected.starts_with(sharing::SHARE_LINE) => {
                sharing::equal(expected, actual, &mut self.descriptors)
            }
            Line::Text(actual) if expected.starts_with('#') => self.equal_reports(expected, actual),
            Line::Text(actual) => expected == actual,
        }
    }

    fn equal_reports(&mut self, expected: &str, actual: &str) -> bool {
        match (cut_at_context(expected), cut_at_context(actual)) {
            (None, None) => expected == actual,
            (Some(expected), Some(actual)) => {
                if (expected.0, expected.2) != (actual.0, actual.2) {
                    return false;
                }
                let left_out = expected.1.checked_sub(actual.1);
                left_out.is_some()
                    && *self.left_out.get_or_insert(left_out.unwrap()) == left_out.unwrap()
            }
            _ => false,
        }
    }
}

/// What stands before and behind the number of a context.
fn cut_at_context(line: &str) -> Option<(&str, u64, &str)> {
    if !["# trace ", "# seg ", "# blk ", "# context "].iter().any(|start| line.starts_with(start)) {
        return None;
    }
    let start = line.find(" line ")?;
    let tail = &line[start + " line ".len()..];
    let digits = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((&line[..start], tail[..digits].parse().ok()?, &tail[digits..]))
}

const DRIVER_ERROR: &str = "CUDA driver error";
const OWN_LINE: &str = "\ncachalot: ";

fn accepts(kind: &str, text: &str, error: &Error) -> bool {
    let is_argument = matches!(error, Error::InvalidArgument(_));
    match kind {
        "oom" => matches!(error, Error::OutOfMemory(_)),
        "accelerator" => matches!(error, Error::Driver(_)),
        "not_implemented" => matches!(error, Error::NotSupported(_)),
        "value" | "index" | "type" | "invalid_argument" | "out_of_range" => is_argument,
        "error" if text.starts_with(DRIVER_ERROR) => matches!(error, Error::Driver(_)),
        "error"
            if text.contains("does not yet support") || text.starts_with("Calling snapshot") =>
        {
            matches!(error, Error::NotSupported(_))
        }
        "error" => is_argument || matches!(error, Error::InvalidState(_)),
        _ => false,
    }
}

fn equal_errors(expected: &str, error: &Error, at_init: bool, rules: ErrorRules) -> bool {
    let expected = &expected["E ".len()..];
    let (expected_at_init, expected) = match expected.strip_prefix("init ") {
        Some(rest) => (true, rest),
        None => (false, expected),
    };
    let (kind, text) = expected.split_once(' ').unwrap_or((expected, ""));
    if at_init != expected_at_init || !accepts(kind, text, error) {
        return false;
    }
    if rules.kind_only || text.contains("INTERNAL ASSERT FAILED") {
        return true;
    }
    let message = error.to_string();
    let mut message = message.as_str();
    // Behind PyTorch's text the library puts a line of its own.
    if text.starts_with("CUDA out of memory. ")
        && text != "CUDA out of memory. Tried to allocate more than 1EB memory."
    {
        let Some((reference, own)) = message.rsplit_once(OWN_LINE) else { return false };
        if own.is_empty() || own.contains('\n') {
            return false;
        }
        message = reference;
    }
    let first_line = |text: &str| text.split("\\n").next().unwrap_or("").to_owned();
    let message = if rules.whole_text {
        message.replace('\n', "\\n")
    } else {
        message.split('\n').next().unwrap_or("").to_owned()
    };
    if kind == "accelerator" {
        // `sim` knows the driver's texts of three codes that the runtime of the files has none for.
        let message = message.replace("operation not permitted", "error");
        let message = message.replace("operation not supported", "error");
        let message = message.replace("invalid resource handle", "error");
        return first_line(&message) == first_line(text);
    }
    if text.starts_with(DRIVER_ERROR) {
        return first_line(&message) == first_line(text);
    }
    message == text
}
