"""The plain implementation and ours are the same function with the same gradients."""

import pytest
import torch

from benchmarks import plain
from gaussproto.config import NetworkConfig, TrainingConfig
from gaussproto.data.strokes import strokes
from gaussproto.model.embed import embed_all
from gaussproto.model.encoder import ENOUGH_IMAGES
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.step import episode_loss, make_optimizer, step

WAY, SHOT, QUERY, D = 8, 2, 3, 16


def pair(filters, dtype):
    """Both networks with the same weights."""
    torch.manual_seed(0)
    ours = GaussianPrototypicalNetwork(NetworkConfig(filters=filters, embedding_dim=D, covariance="radius")).to(dtype)
    textbook = plain.PlainNetwork(filters, D).to(dtype)
    same = dict(zip(textbook.state_dict(), ours.state_dict().values(), strict=True))
    textbook.load_state_dict(same)
    return ours, textbook


def our_loss(network, batch):
    return episode_loss(network, network.embed(batch).unflatten((WAY, -1)), SHOT)[0]


def loss_and_gradients(dtype, filters):
    ours, textbook = pair(filters, dtype)
    batch = torch.rand(WAY * (SHOT + QUERY), 1, 28, 28, dtype=dtype)
    assert len(batch) >= ENOUGH_IMAGES  # what trains, not the reference, is compared
    for network, loss in (
        (ours, our_loss(ours, batch)),
        (textbook, plain.plain_loss(textbook, batch, WAY, SHOT)),
    ):
        loss.backward()
        yield loss.detach(), [parameter.grad for parameter in network.parameters()]


def test_loss_and_gradients_in_double_precision():
    (ours, our_gradients), (theirs, their_gradients) = loss_and_gradients(torch.float64, (8, 8, 8))
    torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=0)
    for mine, other in zip(our_gradients, their_gradients, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-8, rtol=0)


@pytest.mark.parametrize("filters", [(64, 64, 64), (128, 256, 512)], ids=["small", "big"])
def test_loss_and_gradients_in_single_precision(filters):
    """To 1e-4 in the loss and, in Euclidean length, 1 % in the gradient of every parameter."""
    (ours, our_gradients), (theirs, their_gradients) = loss_and_gradients(torch.float32, filters)
    assert abs(ours - theirs) < 1e-4 * theirs
    for mine, other in zip(our_gradients, their_gradients, strict=True):
        assert (mine - other).norm() < 1e-2 * other.norm()


def test_steps_leave_the_same_weights_and_statistics():
    ours, textbook = pair((8, 8, 8), torch.float64)
    optimizer = make_optimizer(ours, TrainingConfig(learning_rate=1e-2))
    adam = torch.optim.Adam(textbook.parameters(), lr=1e-2)
    for _ in range(3):
        batch = torch.rand(WAY * (SHOT + QUERY), 1, 28, 28, dtype=torch.float64)
        ((loss, *_),) = step(ours, optimizer, [(0, batch, [SHOT])], WAY)
        (plain_loss,) = plain.plain_step(textbook, adam, batch, WAY, SHOT)
        assert loss == pytest.approx(plain_loss, abs=1e-6)
    for mine, other in zip(ours.state_dict().values(), textbook.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


def test_embeddings_are_the_same():
    ours, textbook = pair((16, 16, 16), torch.float32)
    images = torch.randint(256, (300, 1, 28, 28), dtype=torch.uint8)
    with torch.no_grad():
        ours.embed(images)  # fills the running statistics
    textbook.load_state_dict(dict(zip(textbook.state_dict(), ours.state_dict().values(), strict=True)))
    for mine, other in zip(embed_all(ours, images), plain.plain_embed(textbook, images, 128), strict=True):
        assert (mine - other).abs().max() < 1e-3 * other.std()


def test_episodes_from_png_files(tmp_path):
    images = strokes(alphabets=1, drawings=4)
    plain.write_png(images, tmp_path)
    torch.manual_seed(0)
    episode = next(plain.plain_episodes(tmp_path, way=5, drawings=3, workers=0))
    assert episode.shape == (15, 1, 28, 28)
    written = {image.tobytes() for image in images.images.numpy()}
    drawn = [(255 * image).round().byte().numpy().tobytes() for image in episode]
    assert len(set(drawn)) == 15
    assert set(drawn) <= written
