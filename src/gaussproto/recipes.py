"""The paper's training recipe and ours. `docs/training.md` explains how we chose ours."""

from typing import Any

from gaussproto.config import DataConfig, EpisodeConfig, NetworkConfig, RunConfig, Stage, TrainingConfig

Stages = tuple[Stage, ...]
Settings = dict[str, Any]

OMNIGLOT = DataConfig(data="omniglot")
CIFAR = DataConfig(data="cifar-fs")

# The paper's recipe.
EPOCH = 64  # episodes: 77,120 training images, 60 x 20 images per episode
PAPER_EPISODE = EpisodeConfig(way=60, shot=1, query=19)
PAPER_FIVE_SHOT = EpisodeConfig(way=60, shot=5, query=15)
# The paper states only the length of its best run, 220 + 130 epochs. For a fair comparison, every row uses this length.
ONE_STAGE = (Stage(episodes=350 * EPOCH),)
THEN_LEARNED = (Stage(episodes=220 * EPOCH), Stage(episodes=130 * EPOCH, transform="learned_softplus"))
THEN_DAMAGED = (
    Stage(episodes=220 * EPOCH),
    Stage(episodes=100 * EPOCH, transform="learned_softplus", damage=((24, 0.015), (20, 0.010), (16, 0.005))),
    Stage(episodes=20 * EPOCH, transform="learned_softplus", damage=((23, 0.015), (17, 0.010))),
    Stage(episodes=10 * EPOCH, transform="learned_softplus", damage=((23, 0.010),)),
)

# Our recipe. Encoding costs most of the time, so an episode has many classes with few images, each split several times.
EPISODE = EpisodeConfig(way=120, shot=1, query=2, splits=3)
FIVE_SHOT = EpisodeConfig(way=60, shot=5, query=1, splits=6)  # 360 images, as above
# A precision that weighs the supports needs at least two of them. It belongs to one image, so training with two is
# enough to weigh five.
ONE_OR_TWO = EpisodeConfig(way=120, shot=1, max_shot=2, query=1, splits=3)
LEARNING_RATE = 4e-3  # of Adam, with a cosine schedule; the best for this episode, together with 0.008
EPISODES = {"small": 5400, "big": 3600}  # by encoder: 25 and 99 minutes on one core
# The precision only weighs the supports; the distance ignores it. It does not collapse, and it is lower for bad images.
WEIGHTED: Settings = {"covariance": "radius", "transform": "exp", "precision_relu": False, "weighting": "prototype"}
DAMAGE = ((10, 0.003), (7, 0.003))  # enough to learn what a bad support is; more lowers the 1-shot accuracy
# For long trainings: new variants of the images against overfitting.
LONG: Settings = {"episodes": 7200, "distort": 0.5, "mirror": True}

FULL_DIM = 32  # for a full covariance, which needs D (D + 1) / 2 = 528 raw outputs

# Deeper than the paper's encoders, and with an embedding that keeps where the strokes are.
DEEP: Settings = {"residual": (0, 0, 1, 1), "grid": 2}
DEEPER: dict[str, Settings] = {
    "small": {"embedding_dim": 256, **DEEP},
    "big": {"filters": (96, 192, 256), "embedding_dim": 1024, **DEEP},
}
# The shortest way to a high accuracy (docs/training.md).
FAST_DRAWINGS: Settings = {"prepare": "ink", "mirror": True, "episodes": 500, **DEEPER["small"]}
# The paper's encoders, with the sizes of embedding that we use.
OF_PAPER: dict[str, Settings] = {"small": {"embedding_dim": 64}, "big": {"embedding_dim": 512}}

# For people's own drawings: prepared, with other pens, slants, light and blur.
DRAWINGS: Settings = {"prepare": "ink", "variants": 8, "mirror": True}
DRAWINGS_EPISODES = {"small": 5400, "big": 5000}
# After that: fewer variants, and classes that are harder to tell apart.
POLISH: Settings = {"episodes": 2000, "learning_rate": 1e-3, "varied": 0.3, "within_alphabet": 0.5}

# Photos. An episode has all 64 training classes, and each of six images of a class is the query of one split. Crops of
# 24 pixels take half the time of whole images, and no two are alike.
PHOTO_EPISODE = EpisodeConfig(way=64, shot=5, query=1, splits=6)
PHOTO_EPISODES = 2000
PHOTOS: Settings = {"flip": True, "random_crop": 24}
# More accurate: the embedding keeps the last 2 x 2 pixels, larger crops, more queries, and five times as long.
PHOTO_GRID: Settings = {"grid": 2, "embedding_dim": 256, "random_crop": 28, "shot": 3, "query": 3, "episodes": 10_000}
# As many outputs of the encoder, so that the networks have as many parameters: 64 or 65.
PHOTO_DIMS = {"none": 64, "radius": 64, "diagonal": 32, "full": 10, "weighted": 64}

# Fine-tuning on a small folder: gentle enough to keep what the weights have learned.
FINETUNE_EPISODE = EpisodeConfig(way=20, shot=1, max_shot=5, query=2, splits=4, adapt=True)
FINETUNE_RATE = 5e-4


def paper_run(
    name: str, about: str, network: NetworkConfig, stages: Stages = ONE_STAGE, episode: EpisodeConfig = PAPER_EPISODE
) -> RunConfig:
    training = TrainingConfig(stages=stages, schedule="halving", checkpoint_every=EPOCH, snapshots=10)
    return RunConfig(name=name, about=about, data=OMNIGLOT, network=network, episode=episode, training=training)


def our_run(
    name: str, about: str, network: NetworkConfig, stages: Stages = ONE_STAGE, episode: EpisodeConfig = EPISODE
) -> RunConfig:
    """Return a run on Omniglot with our recipe. The stages keep their proportions."""
    training = TrainingConfig(stages=stages, learning_rate=LEARNING_RATE, checkpoint_every=100, snapshots=10)
    run = RunConfig(name=name, about=about, data=OMNIGLOT, network=network, episode=episode, training=training)
    return run.variant(name, about, episodes=EPISODES[network.encoder])


def drawings_run(encoder: str, name: str, deeper: bool = True) -> RunConfig:
    """Return a run for people's own drawings, by a deeper encoder or by the paper's."""
    distort = {"small": 0.0, "big": 0.3}[encoder]
    kind = f"{encoder} encoder" + ", deeper than the paper's," * deeper
    about = f"{kind} for people's own drawings: prepared images, with other pens, light and blur"
    network = NetworkConfig(encoder=encoder, **(DEEPER if deeper else OF_PAPER)[encoder], **WEIGHTED)
    stages = (Stage(episodes=(DRAWINGS_EPISODES if deeper else EPISODES)[encoder]),)
    training = TrainingConfig(stages=stages, learning_rate=LEARNING_RATE, distort=distort, checkpoint_every=100)
    run = RunConfig(name=name, about=about, data=OMNIGLOT, network=network, episode=ONE_OR_TWO, training=training)
    return run.variant(name, about, **DRAWINGS)


def photo_run(kind: str) -> RunConfig:
    """Return a run on photos, `cifar-fs-KIND`."""
    settings: Settings = WEIGHTED if kind == "weighted" else {"covariance": kind}
    covariance = "radius covariance that only weighs the supports" if kind == "weighted" else f"{kind} covariance"
    return RunConfig(
        name=f"cifar-fs-{kind}",
        about=f"colour photos (CIFAR-FS), four blocks of 64, {'vanilla' if kind == 'none' else covariance}",
        data=CIFAR,
        network=NetworkConfig(channels=3, embedding_dim=PHOTO_DIMS[kind], **settings),
        episode=PHOTO_EPISODE,
        training=TrainingConfig(
            stages=(Stage(episodes=PHOTO_EPISODES),), learning_rate=LEARNING_RATE, checkpoint_every=100, **PHOTOS
        ),
    )
