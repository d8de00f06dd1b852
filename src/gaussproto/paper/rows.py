"""The rows of the tables: the paper's, and those of our own comparisons."""

from dataclasses import replace
from typing import Any

from gaussproto import recipes
from gaussproto.paper.row import (
    PHOTO_SEEDS,
    SEEDS,
    PaperScore,
    Row,
    Task,
    our_row,
    paper_row,
    photo_row,
    repeated,
    sized_row,
    unique,
    vinyals_row,
)


def _paper(one: float, one_std: float, five: float, five_std: float, way: int = 20) -> dict[Task, PaperScore]:
    return {(way, 1): (one, one_std), (way, 5): (five, five_std)}


SMALL: dict[str, Any] = {"encoder": "small", "embedding_dim": 64}
BIG: dict[str, Any] = {"encoder": "big", "embedding_dim": 512}

# fmt: off
SMALL_NONE_5SHOT = paper_row(
    "small-none-5shot", "vanilla, trained with 5 supports", "verification table: vanilla, trained with 5 supports",
    _paper(94.28, 0.26, 98.61, 0.18), **SMALL, covariance="none", episodes=(recipes.PAPER_FIVE_SHOT, recipes.FIVE_SHOT),
)
SMALL_NONE = paper_row(
    "small-none", "vanilla", "verification table: vanilla",
    _paper(95.64, 0.22, 98.87, 0.11), **SMALL, covariance="none",
)
SMALL_RADIUS = paper_row(
    "small-radius", "Gaussian, radius (a)", "verification table: Gaussian, radius covariance",
    _paper(95.99, 0.28, 98.81, 0.16), **SMALL, covariance="radius",
)
BIG_NONE = paper_row(
    "big-none", "vanilla, D = 512", "results table: vanilla, D = 512",
    _paper(96.97, 0.04, 99.13, 0.03), **BIG, covariance="none",
)
BIG_DIAGONAL = paper_row(
    "big-diagonal", "Gaussian, diagonal (a), D = 256", "results table: Gaussian, diagonal covariance, D = 256",
    _paper(96.88, 0.08, 99.10, 0.04), encoder="big", embedding_dim=256, covariance="diagonal",
)
BIG_RADIUS_SIGMOID = paper_row(
    "big-radius-sigmoid", "Gaussian, radius (b), D = 512", "results table: Gaussian, radius covariance, sigmoid",
    _paper(97.03, 0.03, 99.17, 0.05), **BIG, covariance="radius", transform="sigmoid",
)
BIG_RADIUS_WIDE_SIGMOID = paper_row(
    "big-radius-wide-sigmoid", "Gaussian, radius (c), D = 512",
    "results table: Gaussian, radius covariance, wide sigmoid",
    _paper(96.98, 0.03, 99.15, 0.05), **BIG, covariance="radius", transform="wide_sigmoid",
)
BIG_RADIUS_LEARNED = paper_row(
    "big-radius-learned", "Gaussian, radius (d), D = 512",
    "results table: Gaussian, radius covariance, softplus, then learned softplus",
    _paper(97.02, 0.04, 99.16, 0.05) | _paper(99.02, 0.05, 99.66, 0.02, way=5),
    **BIG, covariance="radius", stages=recipes.THEN_LEARNED,
)
BIG_RADIUS_LEARNED_DAMAGE = paper_row(
    "big-radius-learned-damage", "Gaussian, radius (d), D = 512, damage",
    "results table: like big-radius-learned, but with damaged images, in four stages",
    _paper(96.94, 0.14, 99.29, 0.04) | _paper(99.07, 0.03, 99.73, 0.02, way=5),
    **BIG, covariance="radius", stages=recipes.THEN_DAMAGED,
)
SMALL_DIAGONAL = paper_row(
    "small-diagonal", "Gaussian, diagonal (a), D = 32", "diagonal covariance, as many parameters as small-none",
    encoder="small", embedding_dim=32, covariance="diagonal",
)
SMALL_COSINE = paper_row(
    "small-cosine", "cosine", "distances table: vanilla, cosine distance",
    **SMALL, covariance="none", distance="cosine",
)
SMALL_SQRT = paper_row(
    "small-sqrt", "square root of Euclidean", "distances table: vanilla, square root of the Euclidean distance",
    **SMALL, covariance="none", distance="sqrt_euclidean",
)
SMALL_SQUARED = paper_row(
    "small-squared", "squared Euclidean", "distances table: vanilla, squared Euclidean distance",
    **SMALL, covariance="none", distance="squared_euclidean",
)
SMALL_SEVERAL = our_row(
    "small-several", "small, vanilla, 1 or 2 supports, damage", "ours: vanilla, trained with 1 or 2 supports",
    **SMALL, covariance="none",
)
SMALL_WEIGHTED = our_row(
    "small-weighted", "small, radius that weighs 1 or 2 supports, damage",
    "ours: radius covariance that only weighs the supports",
    **SMALL, **recipes.WEIGHTED,
)
BIG_SEVERAL = our_row(
    "big-several", "big, vanilla, 1 or 2 supports, damage", "ours: vanilla, trained with 1 or 2 supports",
    **BIG, covariance="none",
)
BIG_WEIGHTED = our_row(
    "big-weighted", "big, radius that weighs 1 or 2 supports, damage",
    "ours: radius covariance that only weighs the supports",
    **BIG, **recipes.WEIGHTED,
)

# Vanilla and Gaussian networks that differ in nothing else, in the paper's form and in ours, and their runs by seed.
PAIRS = ((SMALL_NONE, SMALL_RADIUS), (SMALL_SEVERAL, SMALL_WEIGHTED))
REPEATED = {row.name: tuple(repeated(row, seed) for seed in range(SEEDS)) for pair in PAIRS for row in pair}
# The networks of the study of bad examples. All but the diagonal one share their runs with `seeds`.
NOISE_SEEDS = 3
NOISE = {
    row.name: tuple(repeated(row, seed) for seed in range(NOISE_SEEDS))
    for row in (SMALL_NONE, SMALL_RADIUS, SMALL_DIAGONAL, SMALL_SEVERAL, SMALL_WEIGHTED)
}

# Where should an extra parameter go? By encoder and covariance, from small to large embeddings. The sizes of a full
# covariance are those for which the encoder has as many outputs as another one of the comparison.
SIZES: dict[tuple[str, str], tuple[Row, ...]] = {
    (encoder, covariance): tuple(sized_row(encoder, covariance, dim) for dim in sizes)
    for encoder, dims, full in (("small", (32, 64, 128), (10, 15)), ("big", (128, 256, 512), (31,)))
    for covariance, sizes in (("none", dims), ("radius", dims), ("diagonal", dims), ("full", full))
}

# Do photos prefer a richer covariance? The same number of parameters, and the same episodes.
PHOTOS = {
    "none": "vanilla", "radius": "radius", "diagonal": "diagonal", "full": "full", "weighted": "ours",
}
PHOTO_ROWS = {
    kind: tuple(photo_row(kind, label, seed) for seed in range(PHOTO_SEEDS)) for kind, label in PHOTOS.items()
}

TABLES: dict[str, tuple[Row, ...]] = {
    "verification": (SMALL_NONE_5SHOT, SMALL_NONE, SMALL_RADIUS),
    "results": (
        BIG_NONE, BIG_DIAGONAL, BIG_RADIUS_SIGMOID, BIG_RADIUS_WIDE_SIGMOID, BIG_RADIUS_LEARNED,
        BIG_RADIUS_LEARNED_DAMAGE,
    ),
    "distances": (SMALL_COSINE, SMALL_SQRT, replace(SMALL_NONE, label="Euclidean"), SMALL_SQUARED),
    "ours": (SMALL_SEVERAL, SMALL_WEIGHTED, BIG_SEVERAL, BIG_WEIGHTED),
    "seeds": tuple(row for rows in zip(*REPEATED.values(), strict=True) for row in rows),
    "noise": tuple(row for rows in zip(*NOISE.values(), strict=True) for row in rows),
    "dimensions": tuple(row for rows in SIZES.values() for row in rows),
    "vinyals": tuple(vinyals_row(encoder, deeper) for deeper in (False, True) for encoder in ("small", "big")),
    "photos": tuple(row for rows in zip(*PHOTO_ROWS.values(), strict=True) for row in rows),
    "comparison": (
        replace(BIG_RADIUS_LEARNED, label="radius"), replace(BIG_RADIUS_LEARNED_DAMAGE, label="radius with damage"),
    ),
}
# fmt: on
ROWS = unique(row for rows in TABLES.values() for row in rows)
TARGETS = (*TABLES, "figures", "all")  # of `reproduce`

# Accuracy in % as the paper quotes it, with 95 % intervals. All were measured on another split than the paper's.
LITERATURE_TASKS: tuple[Task, ...] = ((20, 1), (20, 5), (5, 1), (5, 5))
LITERATURE_SPLIT, PAPER_SPLIT = "1,200 / 423", "964 / 659"  # characters to train and to test on
LITERATURE: dict[str, tuple[str, str, str, str]] = {
    "Matching networks": ("93.8", "98.5", "98.1", "98.9"),
    "Matching networks, fine-tuned": ("93.5", "98.7", "97.9", "98.7"),
    "Neural statistician": ("93.2", "98.1", "98.1", "99.5"),
    "Prototypical networks": ("96.0", "98.9", "98.8", "99.7"),
    "TCML": ("", "", "98.8 ± 0.22", "99.2 ± 0.17"),
    "Finn et al. (MAML)": ("", "", "98.7 ± 0.4", "99.9 ± 0.3"),
    "Munkhdalai and Yu": ("", "", "98.9", ""),
}
