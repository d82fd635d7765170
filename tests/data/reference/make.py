"""Makes the images beside it with Pillow, whose functions torchvision calls: `python3 make.py`. The tests only read them."""
import pathlib
import random

from PIL import Image, ImageDraw, ImageFilter

FOLDER = pathlib.Path(__file__).parent


def scene(width, height):
    """Something with edges, gradients and texture."""
    draw = random.Random(7)
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            image.putpixel((x, y), (255 * x // width, 255 * y // height, (x * y) % 97 + 80))
    pen = ImageDraw.Draw(image)
    for _ in range(25):
        x, y, r = draw.randrange(width), draw.randrange(height), draw.randrange(3, 18)
        pen.ellipse((x - r, y - r, x + r, y + r), fill=tuple(draw.randrange(256) for _ in range(3)))
    return image.filter(ImageFilter.GaussianBlur(0.7))


def resize(image, side):
    """torchvision.transforms.Resize(side)."""
    width, height = image.size
    shorter = min(width, height)
    return image.resize((side * width // shorter, side * height // shorter), Image.BILINEAR)


def centre_crop(image, side):
    """torchvision.transforms.CenterCrop(side)."""
    left, top = (round((length - side) / 2.0) for length in image.size)
    return image.crop((left, top, left + side, top + side))


def resized_crop(image, top, left, height, width, side):
    """torchvision.transforms.functional.resized_crop."""
    return image.crop((left, top, left + width, top + height)).resize((side, side), Image.BILINEAR)


scene(165, 120).save(FOLDER / "photo.jpg", quality=90)
square = centre_crop(resize(Image.open(FOLDER / "photo.jpg"), 64), 64)
square.save(FOLDER / "square.png")
centre_crop(square, 56).save(FOLDER / "tested.png")
resized_crop(square, 9, 5, 31, 40, 56).save(FOLDER / "enlarged.png")
resized_crop(square, 0, 3, 60, 61, 24).save(FOLDER / "shrunk.png")
scene(48, 40).convert("CMYK").save(FOLDER / "cmyk.jpg", quality=95)
Image.open(FOLDER / "cmyk.jpg").convert("RGB").save(FOLDER / "cmyk.png")
