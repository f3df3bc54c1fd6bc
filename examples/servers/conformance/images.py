#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws the images of the conformance test: text of Pillow's own font, the same wherever it is drawn. What
they say is in FOLDER/words.json, each word of it. FOLDER/kinds has one more in each kind of PNG, and in
FOLDER/kinds.json for each the name of another that shows the same.

    images.py FOLDER
"""

import json
import pathlib
import random
import sys

from PIL import Image, ImageDraw, ImageFont

import png

WORDS = ("allocator block cache segment stream tenant memory trim report request driver server model "
         "session image text number limit guarantee pressure peak reserved idle release").split()
COLOURS = [((255, 255, 255), (0, 0, 0)), ((250, 244, 220), (60, 20, 20)), ((30, 40, 70), (240, 240, 240)),
           ((220, 235, 220), (10, 60, 10))]
SPACE = " " * 7  # wide enough that each word is found by itself
# Width and height in pixels, height of the letters, lines.
SIZES = [(320, 64, 26, 1), (480, 160, 24, 3), (640, 480, 28, 4), (200, 600, 22, 6), (1024, 256, 30, 3),
         (720, 96, 40, 1), (1600, 1200, 44, 5), (97, 61, 20, 1), (800, 333, 26, 4), (1280, 720, 32, 4)]


def line(chance, width, font):
    """Words and numbers as long as they fit; one at least."""
    text = ""
    while True:
        word = chance.choice(WORDS) if chance.random() < 0.75 else str(chance.randrange(10, 100000))
        longer = f"{text}{SPACE}{word}" if text else word.capitalize()
        if text and font.getlength(longer) > width:
            return text
        text = longer


def draw(chance, width, height, size, lines):
    background, colour = chance.choice(COLOURS)
    image = Image.new("RGB", (width, height), background)
    font = ImageFont.load_default(size)
    pen = ImageDraw.Draw(image)
    step = height / lines
    words = []
    for number in range(lines):
        room = chance.randint(int(width * 0.5), int(width * 0.92))
        text = line(chance, room, font)
        pen.text((int(width * 0.04), int(step * number + (step - size) / 2)), text, fill=colour, font=font)
        words += text.split()
    return image, words


def draw_kinds(folder):
    """One word, in two greys without any between them."""
    image = Image.new("1", (120, 48), 1)
    pen = ImageDraw.Draw(image)
    pen.text((18, 10), "Memory", fill=0, font=ImageFont.load_default(24))
    pixels = image.load()
    folder.mkdir(exist_ok=True)
    alike = {}
    for name, (data, like) in png.kinds(*image.size, lambda x, y: not pixels[x, y]).items():
        (folder / f"{name}.png").write_bytes(data)
        alike[name] = like
    (folder.parent / "kinds.json").write_text(json.dumps(alike))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(29351)
    words = {}
    for number, size in enumerate(SIZES):
        name = f"{number:02}_{size[0]}x{size[1]}.png"
        image, words[name] = draw(chance, *size)
        image.save(folder / name)
    (folder / "words.json").write_text(json.dumps(words))
    draw_kinds(folder / "kinds")


if __name__ == "__main__":
    main()
