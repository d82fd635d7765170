"""Makes augment.txt and augment-*.png beside it with torchvision: `python3 make_augment.py`. The tests only read them.

A line of augment.txt is: image, transform, operation, bin, signed magnitude. The results of one image are in augment-IMAGE.png,
one below the other in the order of the lines, the image itself first. A line with "-" for its image is a magnitude alone,
one with "+" a step of AutoAugment's policy, with its probability last.
"""
import pathlib

import numpy
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, autoaugment
from torchvision.transforms import functional

FOLDER = pathlib.Path(__file__).parent
TRANSFORMS = {
    "trivial": lambda height, width: autoaugment.TrivialAugmentWide()._augmentation_space(31),
    "rand": lambda height, width: autoaugment.RandAugment()._augmentation_space(31, (height, width)),
    "auto": lambda height, width: autoaugment.AutoAugment()._augmentation_space(10, (height, width)),
}
BINS = {"trivial": [0, 7, 15, 20, 30], "rand": [9], "auto": [2, 8]}


def images():
    """Colour, colour of a narrow range with a flat channel, grey of odd size, and the size of CIFAR; for what has no magnitude."""
    photo = torch.from_numpy(numpy.asarray(Image.open(FOLDER / "photo.jpg").convert("RGB")).copy()).permute(2, 0, 1)
    colour = functional.resize(photo[:, 10:100, 20:128], [20, 24], antialias=True)
    narrow = (functional.resize(photo[:, :60, :60], [16, 16], antialias=True) // 3 + 90).to(torch.uint8)
    narrow[1] = 77
    grey = functional.rgb_to_grayscale(functional.resize(photo[:, 30:95, 60:135], [13, 15], antialias=True))
    return {"colour": colour, "narrow": narrow, "grey": grey, "square": photo[:, 50:82, 60:92].contiguous()}


def magnitudes(name, space, bins):
    """(operation, bin, signed magnitude)"""
    for operation, (values, signed) in space.items():
        if name == "auto" and operation not in ("Posterize", "Rotate", "Contrast", "TranslateY", "Invert", "Solarize"):
            continue
        if not bins and values.ndim > 0:
            continue
        for bin in bins if values.ndim > 0 else [0]:
            value = float(values[bin].item()) if values.ndim > 0 else 0.0
            for sign in (1.0, -1.0) if signed and value != 0 else (1.0,):
                yield operation, bin, sign * value


lines = []
for transform, space in TRANSFORMS.items():
    for operation, (values, signed) in space(32, 32).items():
        for bin in range(len(values) if values.ndim > 0 else 0):
            lines.append(f"- {transform} {operation} {bin} {float(values[bin].item())!r}")
for pair in autoaugment.AutoAugment(autoaugment.AutoAugmentPolicy.CIFAR10).policies:
    for operation, probability, bin in pair:
        lines.append(f"+ auto {operation} {bin or 0} {probability!r}")
for name, image in images().items():
    results = [image]
    for transform, space in TRANSFORMS.items():
        if name == "narrow" and transform != "trivial":
            continue
        bins = BINS[transform] if name != "square" else []
        for operation, bin, magnitude in magnitudes(transform, space(*image.shape[1:]), bins):
            results.append(autoaugment._apply_op(image, operation, magnitude, InterpolationMode.NEAREST, None))
            lines.append(f"{name} {transform} {operation} {bin} {magnitude!r}")
    column = torch.cat(results, dim=1).permute(1, 2, 0).numpy()
    Image.fromarray(column.squeeze()).save(FOLDER / f"augment-{name}.png", optimize=True)
(FOLDER / "augment.txt").write_text("\n".join(lines) + "\n")
