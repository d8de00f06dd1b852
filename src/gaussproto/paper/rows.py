"""The rows of the paper's tables: the accuracy that the paper reports, in %, and our run for each row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from gaussproto import recipes
from gaussproto.config import EpisodeConfig, NetworkConfig, RunConfig, Stage

Budget = Literal["quick", "standard", "paper"]
Task = tuple[int, int]  # way, shot
PaperScore = tuple[float, float]  # an accuracy of the paper in %: mean and standard deviation over five checkpoints

QUICK_EPISODES = {"small": 200, "big": 40}  # by encoder; a minute or two, as a test
# Comparing seeds needs several runs of each network, so they are short: four minutes on one core.
SEEDS = 5
SEED_EPISODES, QUICK_SEED_EPISODES = 1000, 40


@dataclass(frozen=True)
class Row:
    """A row of a table, with the settings of its run at each budget."""

    name: str  # of the run's folder
    label: str
    configs: Mapping[Budget, RunConfig]
    paper: Mapping[Task, PaperScore] = field(default_factory=dict)
    repeats: str = ""  # the row of which this is a short run with another seed

    def config(self, budget: Budget) -> RunConfig:
        """Return the settings at a budget. Rows that are not in the paper use our recipe at the budget `paper`."""
        return self.configs.get(budget, self.configs["standard"])


def _row(
    name: str, label: str, about: str, paper: Mapping[Task, PaperScore] | None = None, *,
    stages: tuple[Stage, ...] = recipes.ONE_STAGE,
    episodes: tuple[EpisodeConfig, EpisodeConfig] = (recipes.PAPER_EPISODE, recipes.EPISODE), **network: Any,
) -> Row:  # fmt: skip
    """Return a row of the paper. `episodes` are those of the paper's recipe and of ours."""
    standard = recipes.our_run(f"standard-{name}", about, NetworkConfig(**network), stages, episodes[1])
    configs: dict[Budget, RunConfig] = {
        "quick": _quick(name, standard),
        "standard": standard,
        "paper": recipes.paper_run(f"paper-{name}", about, standard.network, stages, episodes[0]),
    }
    return Row(name, label, configs, paper or {})


def _our_row(name: str, label: str, about: str, **network: Any) -> Row:
    """Return a row of our own: episodes with one or two supports, some of them damaged."""
    run = recipes.our_run(f"standard-{name}", about, NetworkConfig(**network), episode=recipes.ONE_OR_TWO)
    standard = run.variant(run.name, about, damage=recipes.DAMAGE)
    return Row(name, label, {"quick": _quick(name, standard), "standard": standard})


def _quick(name: str, standard: RunConfig) -> RunConfig:
    episodes = QUICK_EPISODES[standard.network.encoder]
    every = max(1, episodes // 10)
    return standard.variant(f"quick-{name}", standard.about, episodes=episodes, checkpoint_every=every, snapshots=4)


def _repeated(row: Row, seed: int) -> Row:
    name = f"{row.name}-seed-{seed}"
    full = row.config("standard")
    short = partial(full.variant, about=full.about, snapshots=0, seed=seed)
    configs: dict[Budget, RunConfig] = {
        "quick": short(f"quick-{name}", episodes=QUICK_SEED_EPISODES),
        "standard": short(name, episodes=SEED_EPISODES),
    }
    return Row(name, f"{row.label}, seed {seed}", configs, repeats=row.name)


def unique(rows: Iterable[Row]) -> dict[str, Row]:
    by_name: dict[str, Row] = {}
    for row in rows:
        by_name.setdefault(row.name, row)
    return by_name


def _paper(one: float, one_std: float, five: float, five_std: float, way: int = 20) -> dict[Task, PaperScore]:
    return {(way, 1): (one, one_std), (way, 5): (five, five_std)}


SMALL: dict[str, Any] = {"encoder": "small", "embedding_dim": 64}
BIG: dict[str, Any] = {"encoder": "big", "embedding_dim": 512}

# fmt: off
SMALL_NONE_5SHOT = _row(
    "small-none-5shot", "vanilla, trained with 5 supports", "verification table: vanilla, trained with 5 supports",
    _paper(94.28, 0.26, 98.61, 0.18), **SMALL, covariance="none", episodes=(recipes.PAPER_FIVE_SHOT, recipes.FIVE_SHOT),
)
SMALL_NONE = _row(
    "small-none", "vanilla", "verification table: vanilla",
    _paper(95.64, 0.22, 98.87, 0.11), **SMALL, covariance="none",
)
SMALL_RADIUS = _row(
    "small-radius", "Gaussian, radius (a)", "verification table: Gaussian, radius covariance",
    _paper(95.99, 0.28, 98.81, 0.16), **SMALL, covariance="radius",
)
BIG_NONE = _row(
    "big-none", "vanilla, D = 512", "results table: vanilla, D = 512",
    _paper(96.97, 0.04, 99.13, 0.03), **BIG, covariance="none",
)
BIG_DIAGONAL = _row(
    "big-diagonal", "Gaussian, diagonal (a), D = 256", "results table: Gaussian, diagonal covariance, D = 256",
    _paper(96.88, 0.08, 99.10, 0.04), encoder="big", embedding_dim=256, covariance="diagonal",
)
BIG_RADIUS_SIGMOID = _row(
    "big-radius-sigmoid", "Gaussian, radius (b), D = 512", "results table: Gaussian, radius covariance, sigmoid",
    _paper(97.03, 0.03, 99.17, 0.05), **BIG, covariance="radius", transform="sigmoid",
)
BIG_RADIUS_WIDE_SIGMOID = _row(
    "big-radius-wide-sigmoid", "Gaussian, radius (c), D = 512",
    "results table: Gaussian, radius covariance, wide sigmoid",
    _paper(96.98, 0.03, 99.15, 0.05), **BIG, covariance="radius", transform="wide_sigmoid",
)
BIG_RADIUS_LEARNED = _row(
    "big-radius-learned", "Gaussian, radius (d), D = 512",
    "results table: Gaussian, radius covariance, softplus, then learned softplus",
    _paper(97.02, 0.04, 99.16, 0.05) | _paper(99.02, 0.05, 99.66, 0.02, way=5),
    **BIG, covariance="radius", stages=recipes.THEN_LEARNED,
)
BIG_RADIUS_LEARNED_DAMAGE = _row(
    "big-radius-learned-damage", "Gaussian, radius (d), D = 512, damage",
    "results table: like big-radius-learned, but with damaged images, in four stages",
    _paper(96.94, 0.14, 99.29, 0.04) | _paper(99.07, 0.03, 99.73, 0.02, way=5),
    **BIG, covariance="radius", stages=recipes.THEN_DAMAGED,
)
SMALL_DIAGONAL = _row(
    "small-diagonal", "Gaussian, diagonal (a), D = 32", "diagonal covariance, as many parameters as small-none",
    encoder="small", embedding_dim=32, covariance="diagonal",
)
SMALL_COSINE = _row(
    "small-cosine", "cosine", "distances table: vanilla, cosine distance",
    **SMALL, covariance="none", distance="cosine",
)
SMALL_SQRT = _row(
    "small-sqrt", "square root of Euclidean", "distances table: vanilla, square root of the Euclidean distance",
    **SMALL, covariance="none", distance="sqrt_euclidean",
)
SMALL_SQUARED = _row(
    "small-squared", "squared Euclidean", "distances table: vanilla, squared Euclidean distance",
    **SMALL, covariance="none", distance="squared_euclidean",
)
SMALL_SEVERAL = _our_row(
    "small-several", "small, vanilla, 1 or 2 supports, damage", "ours: vanilla, trained with 1 or 2 supports",
    **SMALL, covariance="none",
)
SMALL_WEIGHTED = _our_row(
    "small-weighted", "small, radius that weighs 1 or 2 supports, damage",
    "ours: radius covariance that only weighs the supports",
    **SMALL, **recipes.WEIGHTED,
)
BIG_SEVERAL = _our_row(
    "big-several", "big, vanilla, 1 or 2 supports, damage", "ours: vanilla, trained with 1 or 2 supports",
    **BIG, covariance="none",
)
BIG_WEIGHTED = _our_row(
    "big-weighted", "big, radius that weighs 1 or 2 supports, damage",
    "ours: radius covariance that only weighs the supports",
    **BIG, **recipes.WEIGHTED,
)

# Vanilla and Gaussian networks that differ in nothing else, in the paper's form and in ours, and their runs by seed.
PAIRS = ((SMALL_NONE, SMALL_RADIUS), (SMALL_SEVERAL, SMALL_WEIGHTED))
REPEATED = {row.name: tuple(_repeated(row, seed) for seed in range(SEEDS)) for pair in PAIRS for row in pair}
# The networks of the study of bad examples. All but the diagonal one share their runs with `seeds`.
NOISE_SEEDS = 3
NOISE = {
    row.name: tuple(_repeated(row, seed) for seed in range(NOISE_SEEDS))
    for row in (SMALL_NONE, SMALL_RADIUS, SMALL_DIAGONAL, SMALL_SEVERAL, SMALL_WEIGHTED)
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
