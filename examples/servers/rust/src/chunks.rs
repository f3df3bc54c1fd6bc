// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a PNG file says of its pixels. All else in it is passed over unread, so that a mistake there is
//! none of the image, whatever a decoder thinks of it.

use std::io::Read;

use flate2::read::DeflateDecoder;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use crate::image::{DecodeError, MAX_PIXELS, malformed};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const MAX_PALETTE: usize = 3 * 256;
const PALETTE: u8 = 3;
/// Of the kind's first letter: whoever does not know the chunk can do without.
const LOWER_CASE: u8 = 0x20;
/// Passes over an interlaced image: the first column and row of each, and the steps to the next.
const PASSES: [[usize; 4]; 7] = [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
];

/// The first chunk: what the pixels are.
struct Header {
    width: usize,
    height: usize,
    depth: u8,
    colour: u8,
    is_interlaced: bool,
}

impl Header {
    fn read(data: &[u8; 13]) -> Result<Self, DecodeError> {
        let side =
            |at: usize| i32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        let [depth, colour, compression, filter, interlace] = [8, 9, 10, 11, 12].map(|at| data[at]);
        let is_kind = match colour {
            0 => matches!(depth, 1 | 2 | 4 | 8 | 16),
            PALETTE => matches!(depth, 1 | 2 | 4 | 8),
            2 | 4 | 6 => matches!(depth, 8 | 16),
            _ => false,
        };
        let (width, height) = (side(0), side(4));
        if width <= 0 || height <= 0 || !is_kind || compression != 0 || filter != 0 || interlace > 1
        {
            return Err(malformed("its head is of no kind of image"));
        }
        let (width, height) = (width as usize, height as usize);
        if width * height > MAX_PIXELS {
            let text =
                format!("the image has {width} x {height} pixels, at most {MAX_PIXELS} are taken");
            return Err(DecodeError::TooLarge(text));
        }
        Ok(Self { width, height, depth, colour, is_interlaced: interlace == 1 })
    }

    /// How many bytes all rows have, unpacked, each with the number of its filter.
    fn row_bytes(&self) -> usize {
        let samples = [1, 0, 3, 1, 2, 0, 4][usize::from(self.colour)];
        let passes = if self.is_interlaced { &PASSES[..] } else { &[[0, 0, 1, 1]] };
        let sizes = passes.iter().map(|[left, top, right, down]| {
            let columns = self.width.saturating_sub(*left).div_ceil(*right);
            let rows = self.height.saturating_sub(*top).div_ceil(*down);
            let row = 1 + (columns * samples * usize::from(self.depth)).div_ceil(8);
            if columns > 0 { rows * row } else { 0 }
        });
        sizes.sum()
    }
}

#[derive(Default)]
struct Chunks<'a> {
    header: Option<(&'a [u8], Header)>,
    palette: Option<&'a [u8]>,
    /// The compressed rows.
    data: Option<Vec<u8>>,
}

/// The same image as a file with nothing but its pixels: every decoder takes it alike. Its size is looked
/// at before anything is unpacked.
pub fn only_pixels(file: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut rest =
        file.strip_prefix(SIGNATURE).ok_or_else(|| malformed("it does not begin as one"))?;
    let mut chunks = Chunks::default();
    let mut previous: &[u8] = b"";
    while previous != b"IEND" {
        let (kind, named, sum) = split(&mut rest).ok_or_else(|| malformed("it ends too early"))?;
        if kind[0] & LOWER_CASE == 0 || previous.is_empty() {
            chunks.add(previous, kind, named, sum)?;
        }
        previous = kind;
    }
    chunks.rewrite()
}

/// Takes a chunk: its kind, the kind with the data, and the checksum.
fn split<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8], u32)> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    let (named, behind) = behind.split_at_checked(length.checked_add(4)?)?;
    let (sum, behind) = behind.split_first_chunk::<4>()?;
    *rest = behind;
    Some((&named[..4], named, u32::from_be_bytes(*sum)))
}

fn sum_of(named: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(named);
    sum.sum()
}

impl<'a> Chunks<'a> {
    /// Takes a chunk behind one of the kind `previous`.
    fn add(
        &mut self,
        previous: &[u8],
        kind: &[u8],
        named: &'a [u8],
        sum: u32,
    ) -> Result<(), DecodeError> {
        let (name, data) = (kind.escape_ascii(), &named[4..]);
        if sum_of(named) != sum {
            return Err(malformed(format!("a chunk {name} has another checksum")));
        }
        let is_in_place = match kind {
            b"IHDR" => data.len() == 13,
            b"PLTE" => {
                let is_whole = (1..=MAX_PALETTE).contains(&data.len()) && data.len() % 3 == 0;
                is_whole && self.palette.is_none() && self.data.is_none()
            }
            b"IDAT" => self.data.is_none() || previous == kind,
            b"IEND" => self.data.is_some(),
            _ => false,
        };
        if !is_in_place || previous.is_empty() != (kind == b"IHDR") {
            let bytes = data.len();
            return Err(malformed(format!("a chunk {name} of {bytes} bytes is out of place")));
        }
        match kind {
            b"IHDR" => {
                let head = data.first_chunk().ok_or_else(|| malformed("it has no head"))?;
                self.header = Some((data, Header::read(head)?));
            }
            b"PLTE" => self.palette = Some(data),
            b"IDAT" => self.data.get_or_insert_default().extend_from_slice(data),
            _ => {}
        }
        Ok(())
    }

    fn rewrite(self) -> Result<Vec<u8>, DecodeError> {
        let (Some((head, header)), Some(data)) = (self.header, self.data) else {
            return Err(malformed("it has no pixels"));
        };
        let mut file = SIGNATURE.to_vec();
        write(&mut file, b"IHDR", head);
        if header.colour == PALETTE {
            let palette = self.palette.ok_or_else(|| malformed("it has no palette"))?;
            let mut whole = palette.to_vec();
            whole.resize(3 << header.depth, 0); // what the palette does not have is black
            write(&mut file, b"PLTE", &whole);
        }
        write(&mut file, b"IDAT", &repack(&data, header.row_bytes() as u64)?);
        write(&mut file, b"IEND", b"");
        Ok(file)
    }
}

/// So many bytes of the compressed rows. Bytes behind these, their checksum too, are ignored.
fn repack(data: &[u8], count: u64) -> Result<Vec<u8>, DecodeError> {
    let of_pixels = |error: std::io::Error| malformed(format!("its pixels: {error}"));
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut rows = DeflateDecoder::new(behind_head(data)?).take(count);
    let copied = std::io::copy(&mut rows, &mut packer).map_err(of_pixels)?;
    if copied < count {
        return Err(malformed("its pixels are not all there"));
    }
    packer.finish().map_err(of_pixels)
}

/// What is behind the head of the zlib format, which says: deflate, a window of 32 KiB at most, no
/// dictionary, and its own checksum.
fn behind_head(data: &[u8]) -> Result<&[u8], DecodeError> {
    match data {
        [method, flags, rows @ ..]
            if method & 0x8F == 8
                && flags & 0x20 == 0
                && u16::from_be_bytes([*method, *flags]).is_multiple_of(31) =>
        {
            Ok(rows)
        }
        _ => Err(malformed("its pixels do not begin as zlib's")),
    }
}

fn write(file: &mut Vec<u8>, kind: &[u8], data: &[u8]) {
    let named = [kind, data].concat();
    file.extend_from_slice(&(data.len() as u32).to_be_bytes());
    file.extend_from_slice(&named);
    file.extend_from_slice(&sum_of(&named).to_be_bytes());
}
