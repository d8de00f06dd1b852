"""The beginning of a training: rank 0 makes or loads the network, and shares it with the other ranks."""

from collections.abc import Callable

import torch

from gaussproto.config import RunConfig
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.runs.checkpoint import (
    check_resumable,
    load_checkpoint,
    restore_generator,
    restore_optimizer,
    training_tensors,
)  # fmt: skip
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.weights import TRAINING, Position
from gaussproto.training.learn import Learner
from gaussproto.training.ranks import Ranks
from gaussproto.training.warm_start import take_weights


def begin(
    config: RunConfig,
    images: LabelledImages,
    run: RunFolder,
    network: GaussianPrototypicalNetwork | None,
    device: str,
    say: Callable[[str], None],
) -> tuple[Learner, Position]:
    """Start a run, or continue it from its last checkpoint."""
    generator = torch.Generator().manual_seed(config.training.seed)
    if not run.last.exists():
        with torch.random.fork_rng(devices=[]):  # initial weights come from the global generator
            torch.default_generator.manual_seed(config.training.seed)
            network = network or GaussianPrototypicalNetwork(config.network)
            if config.training.init:
                say(take_weights(network, config))
        position = Position(transform=config.network.transform, images=images.fingerprint())
        return Learner(config, images.to(device), on_device(network, device), generator), position
    checkpoint = load_checkpoint(run.last)
    run.check_checkpoint(checkpoint, config)
    check_resumable(checkpoint)
    position = checkpoint.position
    if not images.has_fingerprint(position.images):
        problem = f"the training images have changed since the run in {run.path} started"
        raise InputError(f"{problem}: restore them, or start a new run with --out")
    if config.training.episodes > checkpoint.config.training.episodes:
        position.lengthened.append(position.episode)
        say(f"the run is lengthened to {config.training.episodes:,} episodes")
    loaded = checkpoint.network()
    if network is not None:
        network.set_transform(position.transform)
        network.load_state_dict(loaded.state_dict())
    restore_generator(generator, checkpoint)
    learner = Learner(config, images.to(device), on_device(network or loaded, device), generator)
    restore_optimizer(learner.optimizer, learner.network, checkpoint.tensors)
    return learner, position


def share(
    ranks: Ranks,
    led: tuple[Learner, Position] | None,
    images: LabelledImages,
    network: GaussianPrototypicalNetwork | None,
    device: str,
) -> tuple[Learner, Position]:
    """Return what `begin` returned on rank 0, `led`, on every rank."""
    with ranks.sharing_errors():
        if len({*ranks.of_all(images.fingerprint())}) > 1:
            raise InputError("the ranks have different training images: copy the same images to every machine")
    state = ranks.of_first(lambda: led and (led[0].config, led[1], training_tensors(led[0].network, led[0].optimizer)))
    if led is not None:
        led[0].ranks = ranks
        return led
    assert state is not None
    config, position, tensors = state
    network = network or GaussianPrototypicalNetwork(config.network)
    network.set_transform(position.transform)
    network.load_state_dict({name: t for name, t in tensors.items() if not name.startswith(TRAINING)})
    learner = Learner(config, images.to(device), on_device(network, device), torch.Generator(), ranks)
    restore_optimizer(learner.optimizer, learner.network, tensors)
    return learner, position


def on_device(network: GaussianPrototypicalNetwork, device: str) -> GaussianPrototypicalNetwork:
    network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network
