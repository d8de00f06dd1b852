"""Draw a contact sheet of a data set."""

from PIL import Image, ImageDraw, ImageFont, ImageOps

from gaussproto.data.images import LabelledImages

PAPER, INK, LABEL = (250, 249, 246), (28, 30, 38), (90, 95, 110)  # RGB


def contact_sheet(
    images: LabelledImages, alphabets: int = 4, classes: int = 6, drawings: int = 8, scale: int = 2
) -> Image.Image:
    """Draw a few classes of a few alphabets, one class per row. Grey images appear as dark ink on paper."""
    names = list(dict.fromkeys(images.alphabets))
    names = names[:: max(1, len(names) // alphabets)][:alphabets]
    blocks = [_block(images, name, classes, drawings, scale) for name in names]
    columns = min(2, len(blocks))
    rows = -(-len(blocks) // columns)
    width, height = max(b.width for b in blocks), max(b.height for b in blocks)
    sheet = Image.new("RGB", (columns * width, rows * height), PAPER)
    for i, block in enumerate(blocks):
        sheet.paste(block, (i % columns * width, i // columns * height))
    return sheet


def _block(images: LabelledImages, alphabet: str, classes: int, drawings: int, scale: int) -> Image.Image:
    chosen = [c for c in range(images.way) if images.alphabets[c] == alphabet][:classes]
    cell = images.images.shape[-1] * scale
    gap, label = max(2, cell // 14), 22  # pixels
    block = Image.new("RGB", (drawings * (cell + gap) + 4 * gap, len(chosen) * (cell + gap) + label + 4 * gap), PAPER)
    draw = ImageDraw.Draw(block)
    draw.text((2 * gap, 2 * gap), alphabet.replace("_", " "), fill=LABEL, font=ImageFont.load_default(14))
    for row, c in enumerate(chosen):
        for column in range(min(drawings, int(images.counts[c]))):
            pixels = images.images[int(images.starts[c]) + column].numpy()
            picture = Image.fromarray(pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels[0])
            if picture.mode == "L":
                picture = ImageOps.colorize(picture, PAPER, INK)
            place = (2 * gap + column * (cell + gap), label + 2 * gap + row * (cell + gap))
            block.paste(picture.resize((cell, cell), Image.Resampling.BICUBIC), place)
    return block
