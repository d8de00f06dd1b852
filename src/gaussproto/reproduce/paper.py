"""What the paper reports, in %, and which run answers each row. Nothing here is measured by us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gaussproto.config import RunConfig
from gaussproto.errors import InputError
from gaussproto.presets import PRESETS

Budget = Literal["quick", "standard", "paper"]
Task = tuple[int, int]  # way, shot

QUICK_EPISODES = {"small": 200, "big": 40}  # a minute or two each, to see it work
# What another seed changes takes several runs of each network, so they are short: four minutes on one core.
SEEDS = 5
SEED_EPISODES, QUICK_SEED_EPISODES = 1000, 40


@dataclass(frozen=True)
class Row:
    """A line of a table and the run that answers it."""

    run: str  # its folder; without a seed of its own, also the preset without its family
    label: str
    paper: Mapping[Task, tuple[float, float]] = field(default_factory=dict)  # mean and standard deviation
    of: str = ""  # the run that this one repeats in short, with a seed of its own
    seed: int = 0

    def config(self, budget: Budget) -> RunConfig:
        """The run at a budget; rows that are ours alone have no recipe of the paper, so they keep ours."""
        standard = PRESETS[f"standard-{self.of or self.run}"]
        if self.of:
            episodes = QUICK_SEED_EPISODES if budget == "quick" else SEED_EPISODES
            short = standard.override(episodes=episodes, snapshots=0, seed=self.seed)
            return short.model_copy(update={"name": f"quick-{self.run}" if budget == "quick" else self.run})
        if budget == "paper":
            return PRESETS.get(f"paper-{self.run}", standard)
        if budget == "quick":
            episodes = QUICK_EPISODES[standard.network.encoder]
            quick = standard.override(episodes=episodes, checkpoint_every=max(1, episodes // 10), snapshots=4)
            return quick.model_copy(update={"name": f"quick-{self.run}"})
        return standard


def _paper(one: float, one_std: float, five: float, five_std: float, way: int = 20) -> dict[Task, tuple[float, float]]:
    return {(way, 1): (one, one_std), (way, 5): (five, five_std)}


def seed_run(run: str, seed: int) -> str:
    """The name of a short run of a row with a seed of its own."""
    return f"{run}-seed-{seed}"


TABLES: dict[str, tuple[Row, ...]] = {
    "verification": (
        Row("small-none-5shot", "vanilla, trained with 5 supports", _paper(94.28, 0.26, 98.61, 0.18)),
        Row("small-none", "vanilla", _paper(95.64, 0.22, 98.87, 0.11)),
        Row("small-radius", "Gaussian, radius (a)", _paper(95.99, 0.28, 98.81, 0.16)),
    ),
    "results": (
        Row("big-none", "vanilla, D = 512", _paper(96.97, 0.04, 99.13, 0.03)),
        Row("big-diagonal", "Gaussian, diagonal (a), D = 256", _paper(96.88, 0.08, 99.10, 0.04)),
        Row("big-radius-sigmoid", "Gaussian, radius (b), D = 512", _paper(97.03, 0.03, 99.17, 0.05)),
        Row("big-radius-wide-sigmoid", "Gaussian, radius (c), D = 512", _paper(96.98, 0.03, 99.15, 0.05)),
        Row(
            "big-radius-learned",
            "Gaussian, radius (d), D = 512",
            _paper(97.02, 0.04, 99.16, 0.05) | _paper(99.02, 0.05, 99.66, 0.02, way=5),
        ),
        Row(
            "big-radius-learned-damage",
            "Gaussian, radius (d), D = 512, damage",
            _paper(96.94, 0.14, 99.29, 0.04) | _paper(99.07, 0.03, 99.73, 0.02, way=5),
        ),
    ),
    "distances": (
        Row("small-cosine", "cosine"),
        Row("small-sqrt", "square root of Euclidean"),
        Row("small-none", "Euclidean"),
        Row("small-squared", "squared Euclidean"),
    ),
    "ours": (
        Row("small-several", "small, vanilla, 1 or 2 supports, damage"),
        Row("small-weighted", "small, radius that weighs 1 or 2 supports, damage"),
        Row("big-several", "big, vanilla, 1 or 2 supports, damage"),
        Row("big-weighted", "big, radius that weighs 1 or 2 supports, damage"),
    ),
}
# The vanilla network and the Gaussian one that differs from it in nothing else, in the paper's form and in ours.
PAIRS = (("small-none", "small-radius"), ("small-several", "small-weighted"))
LABELS = {row.run: row.label for name in ("verification", "ours") for row in TABLES[name]}
TABLES["seeds"] = tuple(
    Row(seed_run(run, seed), f"{LABELS[run]}, seed {seed}", of=run, seed=seed)
    for seed in range(SEEDS)
    for pair in PAIRS
    for run in pair
)

# Accuracy in % as the paper quotes it: 20-way 1- and 5-shot, 5-way 1- and 5-shot.
LITERATURE: dict[str, tuple[str, str, str, str]] = {
    "Matching networks": ("93.8", "98.5", "98.1", "98.9"),
    "Matching networks, fine-tuned": ("93.5", "98.7", "97.9", "98.7"),
    "Neural statistician": ("93.2", "98.1", "98.1", "99.5"),
    "Prototypical networks": ("96.0", "98.9", "98.8", "99.7"),
    "TCML": ("", "", "98.8 ± 0.22", "99.2 ± 0.17"),
    "Finn et al. (MAML)": ("", "", "98.7 ± 0.4", "99.9 ± 0.3"),
    "Munkhdalai and Yu": ("", "", "98.9", ""),
}
COMPARED = {"big-radius-learned": "radius", "big-radius-learned-damage": "radius with damage"}

# The runs of each figure, by their labels in its legend; the label of a single run is not shown.
FIGURE_RUNS: dict[int, dict[str, str]] = {
    1: {"network": "big-diagonal"},
    2: {"network": "big-diagonal"},
    3: {"network": "small-none"},
    4: {"vanilla": "big-none", "radius": "big-radius-learned", "diagonal": "big-diagonal"},
    5: {"without damage": "big-radius-learned", "with damage": "big-radius-learned-damage"},
    6: {"network": "big-radius-learned-damage"},
    7: {"network": "big-radius-learned"},
    8: {"small": "small-radius", "big": "big-radius-learned"},
    9: {"network": "big-radius-learned-damage"},
    10: {"network": "small-weighted"},
    11: {"network": "small-weighted"},
}
WHAT = (*TABLES, "comparison", "figures", "all")


def rows_of(what: str, only: str | None = None) -> list[Row]:
    """The rows whose runs a table or the figures need, each once; or only those of them that are named.

    Where a run is repeated with several seeds, its name stands for all of them.
    """
    every = {row.run: row for rows in TABLES.values() for row in rows}
    if what in TABLES:
        names = [row.run for row in TABLES[what]]
    elif what == "comparison":
        names = list(COMPARED)
    elif what == "figures":
        names = list(dict.fromkeys(run for runs in FIGURE_RUNS.values() for run in runs.values()))
    elif what == "all":
        names = list(every)
    else:
        raise InputError(f"there is nothing to reproduce called {what!r}: it is one of {', '.join(WHAT)}")
    wanted = [name.strip() for name in only.split(",")] if only else names
    found: dict[str, Row] = {}
    for name in wanted:
        named = [name] if name in names else [run for run in names if every[run].of == name]
        if not named:
            known = ", ".join(dict.fromkeys(every[run].of or run for run in names))
            raise InputError(f"--only names rows of {what}, which are {known} (found {name!r})")
        found |= {run: every[run] for run in named}
    return list(found.values())
