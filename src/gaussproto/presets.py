"""The named runs: the paper's rows by its recipe (`paper-*`) or ours (`standard-*`); short ones (`fast-*`, `demo`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gaussproto import recipes
from gaussproto.config import DataConfig, NetworkConfig, RunConfig, Stage, TrainingConfig, read_config
from gaussproto.errors import InputError, did_you_mean
from gaussproto.paper.rows import BIG_WEIGHTED, ROWS, Budget

FULL_DIM = 32  # with a full covariance: its D (D + 1) / 2 raw outputs are 528 already


def _training(episodes: int, learning_rate: float = recipes.LEARNING_RATE, **settings: Any) -> TrainingConfig:
    return TrainingConfig(stages=(Stage(episodes=episodes),), learning_rate=learning_rate, **settings)


def _fast() -> Iterator[RunConfig]:
    for encoder, length, episodes, dim in (("small", "minutes", 1000, 64), ("big", "half an hour", 900, 256)):
        for kind in ("none", "radius", "diagonal", "full", "weighted"):
            weighted = kind == "weighted"
            settings = recipes.WEIGHTED if weighted else {"covariance": kind}
            about = "radius that only weighs the supports" if weighted else f"{kind} covariance"
            yield RunConfig(
                name=f"fast-{encoder}-{kind}",
                about=f"{encoder} encoder, {about}, {length}",
                data=recipes.OMNIGLOT,
                network=NetworkConfig(encoder=encoder, embedding_dim=FULL_DIM if kind == "full" else dim, **settings),
                episode=recipes.ONE_OR_TWO if weighted else recipes.EPISODE,
                training=_training(episodes),
            )


LONGER = BIG_WEIGHTED.config("standard").override(**recipes.LONG)
ABOUT_LONGER = "ours: big, radius that only weighs, twice as long, distorted and mirrored"
OMNIGLOT_BIG = LONGER.model_copy(update={"name": "omniglot-big", "about": ABOUT_LONGER})
DEMO = RunConfig(
    name="demo",
    about="the embedded strokes, small encoder, radius that only weighs the supports, a minute",
    data=DataConfig(data="strokes"),
    network=NetworkConfig(**recipes.WEIGHTED),
    episode=recipes.ONE_OR_TWO,
    training=_training(300, checkpoint_every=30),
)
FINETUNE = RunConfig(
    name="finetune",
    about="a folder of your own, starting from other weights, in episodes as small as the folder",
    data=DataConfig(data="my_images"),
    network=NetworkConfig(**recipes.WEIGHTED),
    episode=recipes.FINETUNE_EPISODE,
    training=_training(100, recipes.FINETUNE_RATE, distort=0.5, checkpoint_every=20, init="omniglot-small"),
)
BUDGETS: tuple[Budget, ...] = ("paper", "standard")
ROW_RUNS = [row.configs.get(budget) for budget in BUDGETS for row in ROWS.values() if not row.repeats]
PRESETS = {run.name: run for run in (*ROW_RUNS, OMNIGLOT_BIG, *_fast(), DEMO, FINETUNE) if run}


def preset(name: str, **settings: Any) -> RunConfig:
    """A named run, or the one in a `config.json` or a run folder, with some settings changed.

    With `init` the network's settings and the size, channels and ink of the images are those of the weights, except
    for what is given here.

    >>> preset("fast-small-radius", way=60, seed=3).episode.way
    60
    """
    config = PRESETS[name] if name in PRESETS else _read(name)
    if config.training.init_digest is None:
        settings = {"init": config.training.init} | settings
    if settings.get("init") is not None:
        from gaussproto.runs.weights import starting_from  # imports NumPy

        config = starting_from(str(settings.pop("init")), config)
    return config.override(**settings)


def _read(name: str) -> RunConfig:
    for path in (Path(name), Path(name, "config.json")):
        if path.is_file():
            return read_config(path)
    hint = did_you_mean(name, PRESETS, "`gaussproto presets` lists them.")
    raise InputError(f"there is no preset, configuration file or run folder {name!r}: {hint}")
