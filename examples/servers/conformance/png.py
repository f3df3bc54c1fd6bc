# SPDX-License-Identifier: MIT OR Apache-2.0
"""PNG as Pillow does not write it: each kind of pixels and interlacing, and what is no image."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6
SAMPLES = {GREY: 1, COLOUR: 3, PALETTE: 1, GREY_ALPHA: 2, COLOUR_ALPHA: 4}
# Of each pass over an interlaced image: the first column and row, and the steps to the next.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


END = chunk(b"IEND", b"")


def head(width, height, depth, colour, interlaced=False):
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))


def picture(width, height, depth, colour, rows, more=b"", interlaced=False):
    """An image of filtered rows; `more`: chunks before them."""
    return head(width, height, depth, colour, interlaced) + more + chunk(b"IDAT", zlib.compress(rows)) + END


def packed(samples, depth):
    """A row of samples, after the number of its filter: none."""
    bits = 0
    for sample in samples:
        bits = bits << depth | sample
    rest = -len(samples) * depth % 8
    return b"\0" + (bits << rest).to_bytes((len(samples) * depth + rest) // 8, "big")


def draw(width, height, depth, colour, pixel, more=b"", interlaced=False):
    """`pixel(x, y)` gives the samples of a place."""
    rows = b""
    for left, top, right, down in PASSES if interlaced else ((0, 0, 1, 1),):
        for y in range(top, height, down):
            samples = [sample for x in range(left, width, right) for sample in pixel(x, y)]
            rows += packed(samples, depth) if samples else b""
    return picture(width, height, depth, colour, rows, more, interlaced)


def kinds(width, height, is_ink):
    """The same picture in each kind: by name, and what it has to be like. Its two greys are those of two bits, so
    that each depth but one bit has them."""
    dark, light = 0x55, 0xAA

    def image(depth, colour, shades, opacity=(), **rest):
        repeated = 1 if colour in (GREY, PALETTE, GREY_ALPHA) else 3
        return draw(width, height, depth, colour,
                    lambda x, y: (shades[0 if is_ink(x, y) else 1],) * repeated + tuple(opacity), **rest)

    def palette(depth, **rest):
        colours = bytes([light] * 3 + [dark] * 3)
        return image(depth, PALETTE, (1, 0), more=chunk(b"PLTE", colours) + chunk(b"tRNS", b"\x00\x80"), **rest)

    greys = {
        "colour": image(8, COLOUR, (dark, light)),
        "colour of 16 bits": image(16, COLOUR, (dark << 8 | 0xFF, light << 8)),
        "colour and alpha": image(8, COLOUR_ALPHA, (dark, light), (0,)),
        "colour and alpha of 16 bits": image(16, COLOUR_ALPHA, (dark << 8, light << 8 | 0xFF), (0x1234,)),
        "colour, interlaced": image(8, COLOUR, (dark, light), interlaced=True),
        "colour with a gamma": image(8, COLOUR, (dark, light), more=chunk(b"gAMA", struct.pack(">I", 100000))),
        "grey of 2 bits": image(2, GREY, (1, 2)),
        "grey of 4 bits": image(4, GREY, (5, 10)),
        "grey": image(8, GREY, (dark, light)),
        "grey with a transparent one": image(8, GREY, (dark, light), more=chunk(b"tRNS", b"\x00\x55")),
        "grey of 16 bits": image(16, GREY, (dark << 8 | 0xFF, light << 8)),
        "grey of 16 bits, interlaced": image(16, GREY, (dark << 8 | 0xFF, light << 8), interlaced=True),
        "grey and alpha": image(8, GREY_ALPHA, (dark, light), (0,)),
        "grey and alpha of 16 bits": image(16, GREY_ALPHA, (dark << 8 | 0xFF, light << 8), (0,)),
        **{f"palette of {depth} bits": palette(depth) for depth in (1, 2, 4, 8)},
        "palette of 1 bit, interlaced": palette(1, interlaced=True),
    }
    blacks = {
        "black and white": image(8, COLOUR, (0, 255)),
        "grey of 1 bit": image(1, GREY, (0, 1)),
        "grey of 1 bit, interlaced": image(1, GREY, (0, 1), interlaced=True),
    }
    return {**{name: (data, "colour") for name, data in greys.items()},
            **{name: (data, "black and white") for name, data in blacks.items()}}


def no_images():
    """What is no PNG image, or not all of one."""
    rows = packed([200] * 60, 8) * 20
    whole = picture(20, 20, 8, COLOUR, rows)
    data = whole.index(b"IDAT")
    return {
        "nothing": b"",
        "text": b"no image",
        "only the signature": SIGNATURE,
        "no pixels": picture(20, 20, 8, COLOUR, b""),
        "too few rows": picture(20, 20, 8, COLOUR, rows[:-61]),
        "the first half": whole[:data + 12],
        "a wrong check sum": whole[:data + 8] + bytes([whole[data + 8] ^ 1]) + whole[data + 9:],
        "no width": picture(0, 20, 8, COLOUR, b""),
        "a depth of 3 bits": picture(20, 20, 3, GREY, bytes(9) * 20),
        "a filter that does not exist": picture(20, 20, 8, COLOUR, (b"\7" + bytes(60)) * 20),
        "a palette image without palette": picture(20, 20, 8, PALETTE, bytes(21) * 20),
    }


def oddities():
    """What some take for an image, and some do not."""
    rows, places = packed([200] * 60, 8) * 20, packed([200] * 20, 8) * 20
    whole = picture(20, 20, 8, COLOUR, rows)
    sums = zlib.compress(rows)
    return {
        "a palette of 7 bytes": picture(20, 20, 8, PALETTE, places, chunk(b"PLTE", bytes(7))),
        "numbers beyond the palette": picture(20, 20, 8, PALETTE, places, chunk(b"PLTE", bytes(6))),
        "more opacities than colours": picture(20, 20, 8, PALETTE, places,
                                               chunk(b"PLTE", bytes(6)) + chunk(b"tRNS", bytes(200))),
        "opacities before the palette": picture(20, 20, 8, PALETTE, places,
                                                chunk(b"tRNS", bytes(1)) + chunk(b"PLTE", bytes(6))),
        "a wrong sum of the pixels": head(20, 20, 8, COLOUR) + chunk(b"IDAT", sums[:-1] + bytes([sums[-1] ^ 1])) + END,
        "more rows than there are": picture(20, 20, 8, COLOUR, rows * 2),
        "a profile that unfolds": picture(20, 20, 8, COLOUR, rows,
                                          chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(1 << 26)))),
        "no end": whole[:-len(END)],
        "more behind the end": whole + b"more",
    }


def too_large():
    """Images that say that they have more pixels than are taken; none of them is there."""
    return {f"{width} x {height}": picture(width, height, depth, colour, b"")
            for width, height, depth, colour in (
                (20000, 20000, 8, COLOUR), ((1 << 24) + 1, 1, 1, GREY), (1 << 16, 1 << 16, 16, COLOUR_ALPHA))}
