"""A row of a table: the accuracy that the paper reports, in %, and the settings of our run at each budget."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
SIZED_EPISODES = {"small": SEED_EPISODES, "big": 600}  # there are ten networks of each encoder
PHOTO_SEEDS = 3
PHOTO_EPISODES, QUICK_PHOTO_EPISODES = 1000, 10


@dataclass(frozen=True)
class Row:
    """A row of a table, with the settings of its run at each budget."""

    name: str  # of the run's folder
    label: str
    configs: Mapping[Budget, RunConfig]
    paper: Mapping[Task, PaperScore] = field(default_factory=dict)
    repeats: str = ""  # the row of which this is a short run with another seed
    brief: bool = False  # a run of a comparison: no preset, and only the last checkpoint is scored

    def config(self, budget: Budget) -> RunConfig:
        """Return the settings at a budget. Rows that are not in the paper use our recipe at the budget `paper`."""
        return self.configs.get(budget, self.configs["standard"])


def paper_row(
    name: str, label: str, about: str, paper: Mapping[Task, PaperScore] | None = None, *,
    stages: tuple[Stage, ...] = recipes.ONE_STAGE,
    episodes: tuple[EpisodeConfig, EpisodeConfig] = (recipes.PAPER_EPISODE, recipes.EPISODE), **network: Any,
) -> Row:  # fmt: skip
    """Return a row of the paper. `episodes` are those of the paper's recipe and of ours."""
    standard = recipes.our_run(f"standard-{name}", about, NetworkConfig(**network), stages, episodes[1])
    configs: dict[Budget, RunConfig] = {
        "quick": quick(name, standard),
        "standard": standard,
        "paper": recipes.paper_run(f"paper-{name}", about, standard.network, stages, episodes[0]),
    }
    return Row(name, label, configs, paper or {})


def our_row(name: str, label: str, about: str, **network: Any) -> Row:
    """Return a row of our own: episodes with one or two supports, some of them damaged."""
    run = recipes.our_run(f"standard-{name}", about, NetworkConfig(**network), episode=recipes.ONE_OR_TWO)
    standard = run.variant(run.name, about, damage=recipes.DAMAGE)
    return Row(name, label, {"quick": quick(name, standard), "standard": standard})


def quick(name: str, standard: RunConfig) -> RunConfig:
    episodes = QUICK_EPISODES[standard.network.encoder]
    every = max(1, episodes // 10)
    return standard.variant(f"quick-{name}", standard.about, episodes=episodes, checkpoint_every=every, snapshots=4)


def repeated(row: Row, seed: int) -> Row:
    name = f"{row.name}-seed-{seed}"
    full = row.config("standard")
    short = partial(full.variant, about=full.about, snapshots=0, seed=seed)
    configs: dict[Budget, RunConfig] = {
        "quick": short(f"quick-{name}", episodes=QUICK_SEED_EPISODES),
        "standard": short(name, episodes=SEED_EPISODES),
    }
    return Row(name, f"{row.label}, seed {seed}", configs, repeats=row.name, brief=True)


def sized_row(encoder: str, covariance: str, dim: int) -> Row:
    """Return a row that compares embedding sizes: our recipe, but shorter."""
    name = f"{encoder}-{covariance}-{dim}"
    about = f"embedding sizes: {encoder} encoder, {covariance} covariance, D = {dim}"
    network = NetworkConfig(encoder=encoder, embedding_dim=dim, covariance=covariance)
    standard = recipes.our_run(name, about, network).variant(name, about, episodes=SIZED_EPISODES[encoder], snapshots=0)
    return Row(name, f"D = {dim}", {"quick": quick(name, standard), "standard": standard}, brief=True)


def vinyals_row(encoder: str, deeper: bool) -> Row:
    """Return a row on the split of most papers: our recipe for drawings, with the paper's encoder or a deeper one."""
    name = f"vinyals-{encoder}" + "-deeper" * deeper
    kind = f"{encoder} encoder" + ", deeper and with a grid" * deeper
    about = f"{kind}, prepared drawings, trained on the 1,200 characters of the Vinyals split"
    standard = recipes.drawings_run(encoder, name, deeper).variant(name, about, data="omniglot-vinyals")
    label = f"{encoder}{', deeper' * deeper}, prepared drawings"
    return Row(name, label, {"quick": quick(name, standard), "standard": standard}, brief=True)


def photo_row(kind: str, label: str, seed: int) -> Row:
    """Return a row on photos: the recipe of `cifar-fs-KIND`, but shorter."""
    run = recipes.photo_run(kind)
    name = f"{run.name}-seed-{seed}"
    standard = run.variant(name, run.about, episodes=PHOTO_EPISODES, seed=seed)
    short = run.variant(f"quick-{name}", run.about, episodes=QUICK_PHOTO_EPISODES, checkpoint_every=5, seed=seed)
    configs: dict[Budget, RunConfig] = {"quick": short, "standard": standard}
    return Row(name, f"{label}, seed {seed}", configs, repeats=run.name, brief=True)


def unique(rows: Iterable[Row]) -> dict[str, Row]:
    by_name: dict[str, Row] = {}
    for row in rows:
        by_name.setdefault(row.name, row)
    return by_name
