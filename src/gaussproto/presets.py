"""The named runs: the paper's rows with its recipe (`paper-*`) or ours (`standard-*`), and shorter ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gaussproto import recipes
from gaussproto.config import CIFAR_FS, DataConfig, NetworkConfig, RunConfig, Stage, TrainingConfig, read_config
from gaussproto.errors import InputError, did_you_mean
from gaussproto.paper.row import Budget
from gaussproto.paper.rows import BIG_WEIGHTED, ROWS


def _training(episodes: int, learning_rate: float = recipes.LEARNING_RATE, **settings: Any) -> TrainingConfig:
    return TrainingConfig(stages=(Stage(episodes=episodes),), learning_rate=learning_rate, **settings)


def _fast() -> Iterator[RunConfig]:
    for encoder, time, episodes, dim in (("small", "in minutes", 1000, 64), ("big", "in half an hour", 900, 256)):
        for kind in ("none", "radius", "diagonal", "full", "weighted"):
            weighted = kind == "weighted"
            settings = recipes.WEIGHTED if weighted else {"covariance": kind}
            about = "radius covariance that only weighs the supports" if weighted else f"{kind} covariance"
            about = "vanilla" if kind == "none" else about
            size = recipes.FULL_DIM if kind == "full" else dim
            yield RunConfig(
                name=f"fast-{encoder}-{kind}",
                about=f"{encoder} encoder, {about}, {time}",
                data=recipes.OMNIGLOT,
                network=NetworkConfig(encoder=encoder, embedding_dim=size, **settings),
                episode=recipes.ONE_OR_TWO if weighted else recipes.EPISODE,
                training=_training(episodes),
            )


ABOUT_FAST = "small encoder, deeper than the paper's, vanilla, prepared drawings, in a minute"

ABOUT_LONGER = "ours: like standard-big-weighted, but twice as long, on distorted and mirrored images"
OMNIGLOT_BIG = BIG_WEIGHTED.config("standard").variant("omniglot-big", ABOUT_LONGER, **recipes.LONG)


ABOUT_POLISH = "train weights for drawings further (--init WEIGHTS): fewer variants, harder episodes"
ABOUT_PHOTO_GRID = "colour photos (CIFAR-FS), four blocks of 64 with an embedding of 256 numbers, vanilla, longer"
FAST = {run.name: run for run in _fast()}
FAST_DRAWINGS = FAST["fast-small-none"].variant("fast-drawings-none", ABOUT_FAST, **recipes.FAST_DRAWINGS)
DRAWINGS = [recipes.drawings_run(encoder, f"drawings-{encoder}") for encoder in ("small", "big")]
POLISH = DRAWINGS[-1].variant("drawings-polish", ABOUT_POLISH, init="drawings-big", **recipes.POLISH)
PHOTOS = [recipes.photo_run(kind) for kind in recipes.PHOTO_DIMS]
PHOTO_GRID = PHOTOS[0].variant("cifar-fs-grid", ABOUT_PHOTO_GRID, **recipes.PHOTO_GRID)

DEMO = RunConfig(
    name="demo",
    about="first training on invented alphabets (strokes): no download, about a minute",
    data=DataConfig(data="strokes"),
    network=NetworkConfig(**recipes.WEIGHTED),
    episode=recipes.ONE_OR_TWO,
    training=_training(300, checkpoint_every=30),
)
FINETUNE = RunConfig(
    name="finetune",
    about="fine-tune trained weights on a folder of your images (--data DIR)",
    data=DataConfig(data="my_images"),
    network=NetworkConfig(**recipes.WEIGHTED),
    episode=recipes.FINETUNE_EPISODE,
    training=_training(100, recipes.FINETUNE_RATE, distort=0.5, checkpoint_every=20, init="drawings-small"),
)
BUDGETS: tuple[Budget, ...] = ("standard", "paper")
ROW_RUNS = [row.configs.get(budget) for budget in BUDGETS for row in ROWS.values() if not row.brief]
NAMED = (DEMO, FINETUNE, *FAST.values(), FAST_DRAWINGS, *DRAWINGS, *PHOTOS, PHOTO_GRID, POLISH, OMNIGLOT_BIG, *ROW_RUNS)
PRESETS = {run.name: run for run in NAMED if run}


def preset(name: str, **settings: Any) -> RunConfig:
    """Return the configuration of a named run, of a `config.json` or of a run folder.

    Args:
        name: a preset (`gaussproto presets` lists them), or the path of a `config.json` or a run folder.
        **settings: settings to change, for example `way=20, seed=1`. If you pass `init`, the network settings and the
            size, channels and ink of the images come from these weights, except for those that you pass too.

    Returns:
        The configuration, which you can pass to `train`.

    Examples:
        >>> import gaussproto as gp
        >>> config = gp.preset("fast-small-radius", way=20, seed=3)
        >>> config.network.summary
        'small encoder, D = 64, radius covariance (softplus)'
        >>> config.about
        'fast-small-radius with way 20; seed 3'
    """
    config = PRESETS[name] if name in PRESETS else _read(name)
    if config.training.init_digest is None:
        settings = {"init": config.training.init} | settings
    if settings.get("init") is not None:
        from gaussproto.runs.weights import starting_from  # imports NumPy

        init = str(settings.pop("init"))
        if settings.get("channels") == 3 or settings.get("data") == CIFAR_FS:
            settings = {"prepare": "none"} | settings  # weights of drawings may prepare images, which must be grey
        changes = {"init": init} if name in PRESETS and init != config.training.init else {}
        config = starting_from(init, config).with_changes(**changes)
    return config.override(**settings)


def _read(name: str) -> RunConfig:
    for path in (Path(name), Path(name, "config.json")):
        if path.is_file():
            return read_config(path)
    hint = did_you_mean(name, PRESETS, "`gaussproto presets` lists the presets")
    raise InputError(f"unknown preset, configuration file or run folder {name!r}: {hint}")
