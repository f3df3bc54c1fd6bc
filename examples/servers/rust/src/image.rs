// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pixels: decoding, resizing, and the planes that the models take. All arithmetic is of integers, so that
//! every language gets the same.

use std::io::Cursor;

use crate::chunks::only_pixels;

/// The most pixels that are taken.
pub const MAX_PIXELS: usize = 16 << 20;

/// 8 bits for each of red, green and blue, row by row.
pub struct Image {
    pub width: usize,
    pub height: usize,
    pixels: Vec<u8>,
}

/// A rectangle: the first column and row, and those behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    pub left: usize,
    pub top: usize,
    pub right: usize,
    pub bottom: usize,
}

impl Rect {
    pub fn width(&self) -> usize {
        self.right - self.left
    }

    pub fn height(&self) -> usize {
        self.bottom - self.top
    }
}

pub enum DecodeError {
    TooLarge(String),
    Malformed(String),
}

impl From<png::DecodingError> for DecodeError {
    fn from(error: png::DecodingError) -> Self {
        malformed(error)
    }
}

pub fn malformed(why: impl std::fmt::Display) -> DecodeError {
    DecodeError::Malformed(format!("not a PNG image: {why}"))
}

impl Image {
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = png::Decoder::new(Cursor::new(only_pixels(bytes)?));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let size = reader.output_buffer_size().ok_or_else(|| malformed("it is too large"))?;
        let mut raw = vec![0; size];
        let frame = reader.next_frame(&mut raw)?;
        raw.truncate(frame.buffer_size());
        let pixels = match frame.color_type.samples() {
            3 => raw,
            samples => raw.chunks_exact(samples).flat_map(rgb).collect(),
        };
        Ok(Self { width: frame.width as usize, height: frame.height as usize, pixels })
    }

    /// A part of the image in another size, bilinear: each new pixel's middle lies between four old ones,
    /// at a 256th of a pixel.
    pub fn resize(&self, part: Rect, width: usize, height: usize) -> Image {
        let columns: Vec<Between> =
            (0..width).map(|x| Between::new(x, part.width(), width, part.left)).collect();
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            let row = Between::new(y, part.height(), height, part.top);
            for column in &columns {
                for channel in 0..3 {
                    let at = |x: usize, y: usize| {
                        u32::from(self.pixels[(y * self.width + x) * 3 + channel])
                    };
                    let upper =
                        column.mix(at(column.first, row.first), at(column.second, row.first));
                    let lower =
                        column.mix(at(column.first, row.second), at(column.second, row.second));
                    pixels.push(((row.mix(upper, lower) + 32768) >> 16) as u8);
                }
            }
        }
        Image { width, height, pixels }
    }

    pub fn all(&self) -> Rect {
        Rect { left: 0, top: 0, right: self.width, bottom: self.height }
    }

    /// Blue, green, red, one plane after the other, each value from -1 to 1.
    pub fn planes(&self) -> Vec<f32> {
        let table: Vec<f32> = (0..=255u8).map(|v| (f32::from(v) / 255.0 - 0.5) / 0.5).collect();
        let plane = |channel: usize| {
            self.pixels.iter().skip(channel).step_by(3).map(|v| table[usize::from(*v)])
        };
        plane(2).chain(plane(1)).chain(plane(0)).collect()
    }
}

/// Grey is repeated; alpha, the last of two or four samples, is dropped.
fn rgb(pixel: &[u8]) -> [u8; 3] {
    match pixel {
        [red, green, blue, _] => [*red, *green, *blue],
        _ => [pixel[0]; 3],
    }
}

/// Two neighbours, and how far the second one counts, in 256ths.
struct Between {
    first: usize,
    second: usize,
    share: u32,
}

impl Between {
    /// Where place `to` of `new` lies in `old` places that begin at `start`.
    fn new(to: usize, old: usize, new: usize, start: usize) -> Self {
        let middle = (2 * to + 1) * old * 256 / (2 * new);
        let place = middle.saturating_sub(128).min((old - 1) * 256);
        let first = place / 256;
        Self {
            first: start + first,
            second: start + (first + 1).min(old - 1),
            share: (place % 256) as u32,
        }
    }

    fn mix(&self, first: u32, second: u32) -> u32 {
        first * (256 - self.share) + second * self.share
    }
}
