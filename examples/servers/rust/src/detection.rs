// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where text is: the detection model's map, and rectangles of what is connected in it.

use crate::image::{Image, Rect};
use crate::pool::{Failure, Pool};

/// The longer side of what the model sees, at most.
const LONGEST: usize = 960;
/// The model halves each side five times.
const UNIT: usize = 32;
/// From 0 to 255: from where on a place of the map is text, and what a rectangle's text needs on average.
const IS_TEXT: u8 = 77;
const IS_TEXT_ON_AVERAGE: usize = 128;
/// Smaller rectangles of the map are dirt.
const LEAST_SIDE: usize = 3;

/// Rectangles of the image, from top to bottom, of one height from left to right.
pub fn find_text(pool: &Pool, image: &Image) -> Result<Vec<Rect>, Failure> {
    let (width, height) = seen_size(image.width, image.height);
    let planes = image.resize(image.all(), width, height).planes();
    let map = pool.run(&[1, 3, height, width], &planes, |shape, probabilities| {
        if shape != [1, 1, height as i64, width as i64] {
            return Err(Failure::Other(format!("the detection model gave a map of {shape:?}")));
        }
        Ok(probabilities.iter().map(|p| (p * 255.0 + 0.5) as u8).collect::<Vec<u8>>())
    })?;
    let mut found: Vec<Rect> = Components::new(map, width, height)
        .map(|rect| to_image(grow(rect, width, height), (width, height), image))
        .collect();
    found.sort_by_key(|rect| (rect.top, rect.left, rect.bottom, rect.right));
    Ok(found)
}

/// Sides in multiples of 32, the longer one at most 960.
fn seen_size(width: usize, height: usize) -> (usize, usize) {
    let longest = width.max(height);
    let shrink = |side: usize| {
        if longest <= LONGEST { side } else { (side * LONGEST + longest / 2) / longest }
    };
    let round = |side: usize| ((side + UNIT / 2) / UNIT * UNIT).max(UNIT);
    (round(shrink(width)), round(shrink(height)))
}

/// The model marks the middle of a line: its rectangle grows by 1.6 times its area over its circumference.
fn grow(rect: Rect, width: usize, height: usize) -> Rect {
    let by = rect.width() * rect.height() * 4 / (5 * (rect.width() + rect.height()));
    Rect {
        left: rect.left.saturating_sub(by),
        top: rect.top.saturating_sub(by),
        right: (rect.right + by).min(width),
        bottom: (rect.bottom + by).min(height),
    }
}

/// From places of the map to those of the image; nothing of the rectangle is lost.
fn to_image(rect: Rect, (width, height): (usize, usize), image: &Image) -> Rect {
    Rect {
        left: rect.left * image.width / width,
        top: rect.top * image.height / height,
        right: (rect.right * image.width).div_ceil(width),
        bottom: (rect.bottom * image.height).div_ceil(height),
    }
}

/// The rectangles of places of the map that are connected at sides or corners, in the order of their first
/// places, row by row.
struct Components {
    map: Vec<u8>,
    width: usize,
    height: usize,
    next: usize,
}

impl Components {
    fn new(map: Vec<u8>, width: usize, height: usize) -> Self {
        Self { map, width, height, next: 0 }
    }

    /// Takes a component out of the map; its rectangle, its places, and the sum of them.
    fn take(&mut self, start: usize) -> (Rect, usize, usize) {
        let (x, y) = (start % self.width, start / self.width);
        let mut rect = Rect { left: x, top: y, right: x + 1, bottom: y + 1 };
        let (mut count, mut sum) = (0, 0);
        let mut open = vec![(x, y)];
        while let Some((x, y)) = open.pop() {
            let value = std::mem::take(&mut self.map[y * self.width + x]);
            if value < IS_TEXT {
                continue; // taken already
            }
            count += 1;
            sum += usize::from(value);
            rect.left = rect.left.min(x);
            rect.right = rect.right.max(x + 1);
            rect.bottom = rect.bottom.max(y + 1);
            for y in y.saturating_sub(1)..(y + 2).min(self.height) {
                for x in x.saturating_sub(1)..(x + 2).min(self.width) {
                    if self.map[y * self.width + x] >= IS_TEXT {
                        open.push((x, y));
                    }
                }
            }
        }
        (rect, count, sum)
    }
}

impl Iterator for Components {
    type Item = Rect;

    fn next(&mut self) -> Option<Rect> {
        while self.next < self.map.len() {
            let start = self.next;
            self.next += 1;
            if self.map[start] < IS_TEXT {
                continue;
            }
            let (rect, count, sum) = self.take(start);
            let is_large = rect.width() >= LEAST_SIDE && rect.height() >= LEAST_SIDE;
            if is_large && sum >= count * IS_TEXT_ON_AVERAGE {
                return Some(rect);
            }
        }
        None
    }
}
