// SPDX-License-Identifier: MIT OR Apache-2.0
//! What text says: the recognition model's characters for a rectangle of the image.

use crate::image::{Image, Rect};
use crate::pool::{Failure, Pool};

/// The height of what the model sees, and the unit and bounds of its width.
const HEIGHT: usize = 48;
const UNIT: usize = 8;
const WIDEST: usize = 2048;
/// Text of less is none, in hundredths.
const LEAST_SCORE: u32 = 50;

pub struct Text {
    pub text: String,
    /// How sure the model is, in hundredths.
    pub score: u32,
}

/// The model's characters: number 0 is none, the last one a space.
pub struct Alphabet(Vec<String>);

impl Alphabet {
    /// One character a line, as the model's metadata `character` has them.
    pub fn new(lines: &str) -> Self {
        let characters = lines.split('\n').map(String::from);
        Self(std::iter::once(String::new()).chain(characters).chain([" ".into()]).collect())
    }

    /// A character for each place of the line, of which equal neighbours are one.
    fn decode(&self, places: usize, probabilities: &[f32]) -> Text {
        let count = self.0.len();
        let mut text = String::new();
        let (mut sum, mut kept, mut last) = (0.0f64, 0, 0);
        for row in probabilities.chunks_exact(count).take(places) {
            let best = first_highest(row);
            if best != 0 && best != last {
                text.push_str(&self.0[best]);
                sum += f64::from(row[best]);
                kept += 1;
            }
            last = best;
        }
        let score = if kept == 0 { 0 } else { (sum / f64::from(kept) * 100.0 + 0.5) as u32 };
        Text { text, score }
    }
}

fn first_highest(row: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = index;
        }
    }
    best
}

/// The text in a rectangle, if there is any.
pub fn read_text(
    pool: &Pool,
    alphabet: &Alphabet,
    image: &Image,
    rect: Rect,
) -> Result<Option<Text>, Failure> {
    let wide = (rect.width() * HEIGHT).div_ceil(rect.height());
    let width = wide.div_ceil(UNIT).clamp(2, WIDEST / UNIT) * UNIT;
    let planes = image.resize(rect, width, HEIGHT).planes();
    let count = alphabet.0.len();
    let text = pool.run(&[1, 3, HEIGHT, width], &planes, |shape, probabilities| match shape {
        [1, places, characters] if *characters == count as i64 => {
            Ok(alphabet.decode(*places as usize, probabilities))
        }
        _ => Err(Failure::Other(format!(
            "the recognition model gave {shape:?}, not {count} characters"
        ))),
    })?;
    Ok((text.score >= LEAST_SCORE && !text.text.trim().is_empty()).then_some(text))
}
