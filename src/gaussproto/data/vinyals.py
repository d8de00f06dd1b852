"""The split of Omniglot that most papers use (Vinyals et al. 2016): 1,200 training characters and 423 test characters.

It joins the authors' two parts and trains on the first 1,200 characters, that is, on all of the first part and on the
first alphabets of the second. Gurmukhi is on both sides: 41 of its characters are for training and 4 for testing.
"""

import torch

from gaussproto.data.images import LabelledImages

NAME = "omniglot-vinyals"
TRAINING = 1200  # characters


def split_like_vinyals(first: LabelledImages, second: LabelledImages) -> tuple[LabelledImages, LabelledImages]:
    """Return the training and the test characters, given the authors' two parts."""
    both = joined(first, second)
    return both.select(range(TRAINING)), both.select(range(TRAINING, both.way))


def joined(first: LabelledImages, second: LabelledImages) -> LabelledImages:
    """Return the classes of both."""
    variants = [part.variants for part in (first, second) if part.variants is not None]
    return LabelledImages(
        torch.cat([first.images, second.images]),
        torch.cat([first.counts, second.counts]),
        first.classes + second.classes,
        first.alphabets + second.alphabets,
        first.characters + second.characters,
        variants=torch.cat(variants) if len(variants) == 2 else None,
    )
