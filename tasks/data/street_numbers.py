"""Street-number crops in the manner of SVHN: a digit between its neighbours, from the fonts that matplotlib ships."""

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from tasks.data.composite import Composites, Look
from tasks.task import TaskError, random_generator

DIGITS = 10
STRIPS = 1024
HEIGHT, WIDTH = 40, 72  # of a strip: room for rotated and shrunk views of 32 x 32, and for both neighbours
DIGIT_HEIGHT = 22  # pixels; SVHN's crops are about as tight
# Fonts with plain digits, among those that matplotlib ships.
FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    *("cmr10", "cmb10", "cmss10", "cmti10", "cmtt10"),
)
# Chosen by looking at contact sheets beside SVHN: low contrast of either sign, colour casts, blur, shading.
LOOK = Look(
    size=32,
    scale=(0.8, 1.25),
    stretch=0.2,
    angle=0.2,
    shear=0.25,
    shift=0.12,
    flip=False,
    grey=(0.2, 0.8),
    tint=0.3,
    contrast=(0.15, 0.55),
    light=0.15,
    texture=(0.0, 0.06),
    noise=(0.0, 0.06),
)


def strips() -> tuple[Tensor, Tensor]:
    """Digits with their neighbours, (STRIPS, HEIGHT, WIDTH) in [0, 1], and the digits in the middle, (STRIPS,).

    Raises:
        TaskError: if a font is missing.
    """
    import matplotlib
    import numpy as np
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = []
    for name in FONTS:
        try:
            font = ImageFont.truetype(folder / f"{name}.ttf", 100)
            _, top, _, bottom = font.getbbox("0")
            fonts.append(ImageFont.truetype(folder / f"{name}.ttf", 100 * DIGIT_HEIGHT / (bottom - top)))
        except OSError as error:
            raise TaskError(f"The font {folder / name}.ttf cannot be read ({error}): reinstall matplotlib.") from error
    draws = torch.rand(STRIPS, 8, generator=random_generator("street numbers", "strips")).tolist()
    images = []
    labels = [index % DIGITS for index in range(STRIPS)]
    for label, u in zip(labels, draws, strict=True):
        font = fonts[int(u[0] * len(fonts))]
        weight = int(u[1] * 3) / 2  # 0 to 1 pixel of extra stroke
        image = Image.new("L", (WIDTH, HEIGHT))
        pen = ImageDraw.Draw(image)
        # On a common baseline, with 0 in the middle: fonts differ in where they say that a line's middle is.
        _, top, _, bottom = font.getbbox("0", anchor="ms")
        middle, baseline = WIDTH / 2, HEIGHT / 2 - (top + bottom) / 2
        pen.text((middle, baseline), str(label), 255, font, anchor="ms", stroke_width=weight)
        # A digit and the gap beside it; mean of this digit's width and its neighbour's.
        for side, present, digit in ((-1, u[2], u[3]), (1, u[4], u[5])):
            neighbour = str(int(digit * DIGITS))
            if present < 0.55:
                advance = (font.getlength(str(label)) + font.getlength(neighbour)) / 2 + 1 + 2 * u[6]
                where = (middle + side * advance, baseline)
                pen.text(where, neighbour, 255, font, anchor="ms", stroke_width=weight)
        image = image.filter(ImageFilter.GaussianBlur(0.3 + 1.2 * u[7]))
        images.append(np.asarray(image))
    shapes = torch.from_numpy(np.stack(images)).float() / 255
    shapes[:, [0, -1]] = 0
    shapes[:, :, [0, -1]] = 0
    return shapes, torch.tensor(labels)


@lru_cache(maxsize=1)
def street_numbers() -> Composites:
    """Built once a process, in about a second."""
    return Composites("street numbers", *strips(), LOOK)


if __name__ == "__main__":
    from tasks.data.contact_sheet import sheet_from_command_line

    sheet_from_command_line(street_numbers(), "street_numbers")
