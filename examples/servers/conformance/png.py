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


def damaged(kind, data):
    """A chunk with another checksum."""
    whole = chunk(kind, data)
    return whole[:-1] + bytes([whole[-1] ^ 1])


ROWS = packed([200] * 60, 8) * 20
PLACES = packed([200] * 20, 8) * 20
COLOURED, PLACED = head(20, 20, 8, COLOUR), head(20, 20, 8, PALETTE)
COLOURS = chunk(b"PLTE", bytes(768))
PACKED = zlib.compress(ROWS)
PIXELS, PIXELS_OF_PALETTE = chunk(b"IDAT", PACKED), chunk(b"IDAT", zlib.compress(PLACES))


def headed(*fields):
    """An image with any head: its sides, depth, colour, compression, filter and interlacing."""
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", *fields)) + PIXELS + END


def no_images():
    """What is no PNG image, or not all of one."""
    whole = COLOURED + PIXELS + END
    data = whole.index(b"IDAT")
    return {
        "nothing": b"",
        "text": b"no image",
        "only the signature": SIGNATURE,
        "no pixels": picture(20, 20, 8, COLOUR, b""),
        "too few rows": picture(20, 20, 8, COLOUR, ROWS[:-61]),
        "too few rows, interlaced": picture(20, 20, 8, COLOUR, ROWS, interlaced=True),
        "pixels that break off": COLOURED + chunk(b"IDAT", PACKED[:len(PACKED) // 2]) + END,
        "pixels that are not packed": COLOURED + chunk(b"IDAT", ROWS) + END,
        "pixels of another method": COLOURED + chunk(b"IDAT", b"\x79\x9c" + PACKED[2:]) + END,
        "pixels with a dictionary": COLOURED + chunk(b"IDAT", b"\x78\x20" + PACKED[2:]) + END,
        "pixels with a window of 64 KiB": COLOURED + chunk(b"IDAT", b"\x88\x1c" + PACKED[2:]) + END,
        "the first half": whole[:data + 12],
        "no end": whole[:-len(END)],
        "a length beyond the file": COLOURED + PIXELS + struct.pack(">I", 1 << 31) + b"abCd" + END,
        "a wrong check sum": whole[:data + 8] + bytes([whole[data + 8] ^ 1]) + whole[data + 9:],
        "a wrong check sum of the palette": PLACED + damaged(b"PLTE", bytes(768)) + PIXELS_OF_PALETTE + END,
        "a wrong check sum of the end": COLOURED + PIXELS + damaged(b"IEND", b""),
        "no width": headed(0, 20, 8, COLOUR, 0, 0, 0),
        "no height": headed(20, 0, 8, COLOUR, 0, 0, 0),
        "a width of 2^31": headed(1 << 31, 1, 1, GREY, 0, 0, 0),
        "a depth of 3 bits": headed(20, 20, 3, GREY, 0, 0, 0),
        "4 bits of colour": headed(20, 20, 4, COLOUR, 0, 0, 0),
        "colours of kind 1": headed(20, 20, 8, 1, 0, 0, 0),
        "another compression": headed(20, 20, 8, COLOUR, 1, 0, 0),
        "another method of filters": headed(20, 20, 8, COLOUR, 0, 1, 0),
        "another interlacing": headed(20, 20, 8, COLOUR, 0, 0, 2),
        "a filter that does not exist": picture(20, 20, 8, COLOUR, (b"\7" + bytes(60)) * 20),
        "a head of 14 bytes": SIGNATURE + chunk(b"IHDR", COLOURED[16:29] + b"\0") + PIXELS + END,
        "two heads": COLOURED + COLOURED[8:] + PIXELS + END,
        "text before the head": SIGNATURE + chunk(b"tEXt", b"a\0b") + COLOURED[8:] + PIXELS + END,
        "text between the pixels": COLOURED + chunk(b"IDAT", PACKED[:9]) + chunk(b"tEXt", b"a\0b")
                                   + chunk(b"IDAT", PACKED[9:]) + END,
        "a chunk that has to be known": COLOURED + chunk(b"ABCD", b"x") + PIXELS + END,
        "one behind the pixels": COLOURED + PIXELS + chunk(b"ABCD", b"x") + END,
        "a palette image without palette": PLACED + PIXELS_OF_PALETTE + END,
        "a palette behind the pixels": COLOURED + PIXELS + COLOURS + END,
        "two palettes": PLACED + COLOURS * 2 + PIXELS_OF_PALETTE + END,
        **{f"a palette of {size} bytes": PLACED + chunk(b"PLTE", bytes(size)) + PIXELS_OF_PALETTE + END
           for size in (0, 7, 771)},
    }


def oddities():
    """What is wrong with these says nothing of their pixels: each is an image."""
    return {
        **{f"pixels with {name}": COLOURED + chunk(b"IDAT", data) + END for name, data in {
            "a byte more": zlib.compress(ROWS + b"x"), "rows more": zlib.compress(ROWS * 4000),
            "a wrong sum": PACKED[:-1] + bytes([PACKED[-1] ^ 1]), "no sum": PACKED[:-4],
            "something behind": PACKED + b"something"}.items()},
        "pixels with another part behind": COLOURED + PIXELS + chunk(b"IDAT", b"something") + END,
        "pixels with empty parts": COLOURED + chunk(b"IDAT", b"") + PIXELS + chunk(b"IDAT", b"") + END,
        "numbers beyond the palette": PLACED + chunk(b"PLTE", bytes(6)) + PIXELS_OF_PALETTE + END,
        "more colours than numbers": head(20, 20, 1, PALETTE) + COLOURS + chunk(b"IDAT", zlib.compress(bytes(80))) + END,
        "a palette of a grey image": head(20, 20, 8, GREY) + COLOURS + PIXELS_OF_PALETTE + END,
        "more opacities than colours": PLACED + chunk(b"PLTE", bytes(6)) + chunk(b"tRNS", bytes(200))
                                       + PIXELS_OF_PALETTE + END,
        "opacities before the palette": PLACED + chunk(b"tRNS", b"a") + COLOURS + PIXELS_OF_PALETTE + END,
        "opacities behind the pixels": COLOURED + PIXELS + chunk(b"tRNS", bytes(6)) + END,
        "opacities of an image that has them": picture(20, 20, 8, COLOUR_ALPHA, packed([200] * 80, 8) * 20,
                                                       chunk(b"tRNS", bytes(6))),
        "a text with a wrong check sum": COLOURED + damaged(b"tEXt", b"a\0b") + PIXELS + END,
        "a profile that unfolds": COLOURED + chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(1 << 26))) + PIXELS + END,
        "9 MiB that nobody knows": COLOURED + chunk(b"abCd", bytes(9 << 20)) + PIXELS + END,
        **{f"{kind.decode()} that is broken": COLOURED + chunk(kind, b"abcd") * 2 + PIXELS + END
           for kind in (b"gAMA", b"sRGB", b"cHRM", b"pHYs", b"sBIT", b"bKGD", b"iCCP", b"cICP", b"zTXt", b"iTXt", b"eXIf",
                        b"tRNS", b"acTL", b"fcTL", b"fdAT")},
        "a frame beyond the image": COLOURED + chunk(b"acTL", struct.pack(">II", 1, 0))
                                    + chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 90, 90, 0, 0, 1, 1, 0, 0)) + PIXELS + END,
        "an end with something in it": COLOURED + PIXELS + chunk(b"IEND", b"x"),
        "more behind the end": COLOURED + PIXELS + END + b"more",
    }


def too_large():
    """Images that say that they have more pixels than are taken; none of them is there."""
    return {f"{width} x {height}": picture(width, height, depth, colour, b"")
            for width, height, depth, colour in (
                (20000, 20000, 8, COLOUR), ((1 << 24) + 1, 1, 1, GREY), (1 << 16, 1 << 16, 16, COLOUR_ALPHA))}
