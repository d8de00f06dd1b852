"""How networks are trained: the paper's recipe and ours. `docs/training.md` tells how ours was chosen."""

from typing import Any

from gaussproto.config import DataConfig, EpisodeConfig, NetworkConfig, RunConfig, Stage, TrainingConfig

Stages = tuple[Stage, ...]
Settings = dict[str, Any]

OMNIGLOT = DataConfig(data="omniglot")

# The paper's recipe.
EPOCH = 64  # episodes: 77,120 training images in episodes of 60 x 20 images
PAPER_EPISODE = EpisodeConfig(way=60, shot=1, query=19)
PAPER_FIVE_SHOT = EpisodeConfig(way=60, shot=5, query=15)
# The paper gives the length of its best run only, 220 + 130 epochs; for a fair comparison every row gets the same.
ONE_STAGE = (Stage(episodes=350 * EPOCH),)
THEN_LEARNED = (Stage(episodes=220 * EPOCH), Stage(episodes=130 * EPOCH, transform="learned_softplus"))
THEN_DAMAGED = (
    Stage(episodes=220 * EPOCH),
    Stage(episodes=100 * EPOCH, transform="learned_softplus", damage=((24, 0.015), (20, 0.010), (16, 0.005))),
    Stage(episodes=20 * EPOCH, transform="learned_softplus", damage=((23, 0.015), (17, 0.010))),
    Stage(episodes=10 * EPOCH, transform="learned_softplus", damage=((23, 0.010),)),
)

# Ours. Encoding is what costs: an episode has many classes of few images, and splits each encoding several times.
EPISODE = EpisodeConfig(way=120, shot=1, query=2, splits=3)
FIVE_SHOT = EpisodeConfig(way=60, shot=5, query=1, splits=6)  # 360 images, as above
# A precision that weighs supports needs two of them; it is of one image, so to weigh two is to weigh five.
ONE_OR_TWO = EpisodeConfig(way=120, shot=1, max_shot=2, query=1, splits=3)
LEARNING_RATE = 4e-3  # Adam's, by a cosine to zero; the best for this episode, level with 0.008
EPISODES = {"small": 5400, "big": 3600}  # by encoder: on one core 25 and 99 minutes
# The precision only weighs the supports, and the distance is the plain one: it stays alive and tells good from bad.
WEIGHTED: Settings = {"covariance": "radius", "transform": "exp", "precision_relu": False, "weighting": "prototype"}
DAMAGE = ((10, 0.003), (7, 0.003))  # enough to learn what a bad support is; more costs accuracy with one support
# For a long training: new variants of the images, so that a network does not learn them by heart.
LONG: Settings = {"episodes": 7200, "distort": 0.5, "mirror": True}

# Fine-tuning to a small folder: gentle enough to keep what the weights know.
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
    """A network on Omniglot by our recipe; the stages keep their proportions."""
    training = TrainingConfig(stages=stages, learning_rate=LEARNING_RATE, checkpoint_every=100, snapshots=10)
    run = RunConfig(name=name, about=about, data=OMNIGLOT, network=network, episode=episode, training=training)
    return run.override(episodes=EPISODES[network.encoder])
