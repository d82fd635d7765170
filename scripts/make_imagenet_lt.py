#!/usr/bin/env python3
"""A tree with the layout and the class sizes of ImageNet-LT, of small generated JPEGs: make_imagenet_lt.py FOLDER.

Lists and images lie as the published ones do, so that the code that reads those is what runs. Needs Pillow.
"""
import argparse
import math
import pathlib
import random

from PIL import Image, ImageDraw

LARGEST, SMALLEST, TOTAL, CLASSES = 1280, 5, 115_846, 1000  # as published


def sizes(classes):
    """Falls from LARGEST to SMALLEST; the bend is chosen so that a thousand classes hold TOTAL images."""
    def profile(bend, count):
        return [round(LARGEST * (SMALLEST / LARGEST) ** ((c / (count - 1)) ** bend)) for c in range(count)]
    low, high = 0.1, 1.0
    while high - low > 1e-6:
        bend = (low + high) / 2
        low, high = (bend, high) if sum(profile(bend, CLASSES)) < TOTAL else (low, bend)
    return profile(low, classes)


def picture(label, number, width, height):
    """A disc whose colour and place tell the class, on a ground that tells the image."""
    draw = random.Random(label * 100_003 + number)
    hue = label * 0.61803398875 % 1 * 2 * math.pi
    image = Image.new("RGB", (width, height), tuple(draw.randrange(40, 216) for _ in range(3)))
    pen = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = draw.randrange(width), draw.randrange(height)
        pen.line((x, y, draw.randrange(width), draw.randrange(height)), tuple(draw.randrange(256) for _ in range(3)), 2)
    x, y, r = width * (0.3 + 0.4 * (label % 7) / 6), height * (0.3 + 0.4 * (label % 5) / 4), height / 5
    pen.ellipse((x - r, y - r, x + r, y + r), tuple(int(128 + 127 * math.cos(hue + turn)) for turn in (0, 2.1, 4.2)))
    return image


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--classes", type=int, default=CLASSES)
    parser.add_argument("--test", type=int, default=5, help="test images of each class (published: 50)")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--height", type=int, default=72)
    flags = parser.parse_args()

    lists = {"train": [], "test": []}
    for label, count in enumerate(sizes(flags.classes)):
        wnid = f"n{label:08d}"
        named = [("train", f"train/{wnid}/{wnid}_{i}.JPEG", i) for i in range(count)]
        named += [("test", f"val/ILSVRC2012_val_{label * flags.test + i:08d}.JPEG", -1 - i) for i in range(flags.test)]
        for part, name, number in named:
            (flags.folder / name).parent.mkdir(parents=True, exist_ok=True)
            picture(label, number, flags.width, flags.height).save(flags.folder / name, "JPEG", quality=80)
            lists[part].append(f"{name} {label}\n")
    for part, lines in lists.items():
        (flags.folder / f"ImageNet_LT_{part}.txt").write_text("".join(lines))


main()
