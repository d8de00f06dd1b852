import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.model.embed import batch_statistics, embed_all
from gaussproto.model.encoder import Encoder
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.presets import preset

COVARIANCES = ["none", "radius", "diagonal", "full"]


def network(**settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return GaussianPrototypicalNetwork(NetworkConfig(**{"embedding_dim": 8, "filters": (6, 6, 6)} | settings))


def episode(C=4, K=2, Q=3, size=28, channels=1):
    g = torch.Generator().manual_seed(1)
    support = torch.randint(0, 256, (C, K, channels, size, size), generator=g, dtype=torch.uint8)
    return support, torch.randint(0, 256, (C * Q, channels, size, size), generator=g, dtype=torch.uint8)


def answers(net, support, query):
    """The distances of query images to the classes of support images, encoded as one batch."""
    C, K = support.shape[:2]
    embedded = net.embed(torch.cat([support.flatten(0, 1), query]))
    return net.distances(embedded.x[C * K :], *net.prototypes(embedded[: C * K].unflatten((C, K))))


def test_encoder_is_the_papers_block_by_block():
    """Convolution, batch norm, ReLU, max pool in the paper's order, though ours pools before the ReLU."""
    encoder = Encoder((5, 6, 7), D=8, R=1).double()
    images = torch.randn(4, 1, 28, 28, dtype=torch.float64)
    y = images - images.mean((1, 2, 3), keepdim=True)
    for block in encoder.blocks:
        y = F.conv2d(y, block.conv.weight, padding=1)
        y = (y - y.mean((0, 2, 3), keepdim=True)) / (y.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5).sqrt()
        y = F.max_pool2d(F.relu(y), 2)
    assert y.shape == (4, 9, 1, 1)
    torch.testing.assert_close(encoder(images), y.flatten(1))


@pytest.mark.parametrize("size", [9, 28, 31, 40])
@pytest.mark.parametrize("grid", [2, 3])
def test_a_grid_keeps_every_area_by_itself(size, grid):
    """Against a loop over the areas; no pool drops a row, and residual convolutions add to their input."""
    torch.manual_seed(size)
    encoder = Encoder((5, 6), D=4 * grid**2, R=2, precision_relu=False, residual=(0, 2, 1), grid=grid).double()
    images = torch.rand(3, 1, size, size, dtype=torch.float64)
    y = images - images.mean((1, 2, 3), keepdim=True)

    def normed(layer, y):
        y = F.conv2d(y, layer.conv.weight, padding=1)
        y = (y - y.mean((0, 2, 3), keepdim=True)) / (y.var((0, 2, 3), unbiased=False, keepdim=True) + 1e-5).sqrt()
        return y * layer.norm.weight.view(1, -1, 1, 1)

    for block, extra in zip(encoder.blocks, (0, 2, 1), strict=True):
        assert len(block.residuals) == extra
        for layer in block.residuals:
            y = F.relu(y + normed(layer, y))
        y = normed(block, y)
        odd = y.shape[-1] % 2
        y = F.max_pool2d(F.pad(y, (0, odd, 0, odd), value=-torch.inf), 2)
        y = torch.cat([F.relu(y[:, :-2]), y[:, -2:]], dim=1) if block is encoder.blocks[2] else F.relu(y)
    side = y.shape[-1]
    assert side == -(-size // 8)
    edges = [(i * side // grid, -(-(i + 1) * side // grid)) for i in range(grid)]
    parts = [y[:, :4, a:b, c:d].mean((2, 3)) for a, b in edges for c, d in edges]
    x = torch.stack(parts, dim=2).flatten(1)
    torch.testing.assert_close(encoder(images), torch.cat([x, y[:, 4:].mean((2, 3))], dim=1))


def test_an_area_describes_its_part_of_the_image():
    """What changes in the lower right corner changes only the last of the four areas."""
    encoder = Encoder((8, 8), D=16, R=0, grid=2).eval()
    images = torch.rand(2, 1, 64, 64)
    images[1] = images[0]
    images[1, :, 50:60, 50:60] = images[0, :, 50:60, 50:60].flip(-1)  # the mean of the image stays
    areas = encoder(images).unflatten(1, (4, 2, 2)).flatten(2)
    torch.testing.assert_close(areas[0, :, :3], areas[1, :, :3])
    assert not torch.allclose(areas[0, :, 3], areas[1, :, 3])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": 2, "embedding_dim": 10}, r"embedding_dim must be a multiple of grid² = 4 \(found 10\): choose 12"),
        ({"residual": (0, 0, 0, 0, 1)}, r"each of the 4 blocks \(found 5\): pass --residual with 4 numbers or fewer"),
        ({"residual": (1,)}, r"residual must begin with 0 \(found 1\).*put a 0 first"),
        ({"encoder": "torch.nn:Flatten", "features": 3, "grid": 2}, "only for the built-in encoders"),
        ({"encoder": "torch.nn:Flatten", "features": 3, "residual": (0, 1)}, "only for the built-in encoders"),
        ({"grid": 0}, "greater than or equal to 1"),
    ],
)
def test_grids_and_residual_convolutions_that_do_not_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        NetworkConfig(**settings)


def test_a_grid_of_more_areas_than_pixels_is_refused():
    with pytest.raises(InputError, match=r"grid must be at most 2 \(found 3\), because 4 blocks leave 2 x 2 of 28"):
        preset("fast-small-none", grid=3, embedding_dim=9)
    with pytest.raises(InputError, match="leave 2 x 2 of 24 x 24 pixels"):
        preset("cifar-fs-none", grid=3, embedding_dim=9)
    assert preset("fast-small-none", grid=3, embedding_dim=9, image_size=33).network.grid == 3


def test_another_encoder_has_neither_the_grid_nor_the_filters_of_the_last_one():
    deep = preset("drawings-big")
    assert deep.network.grid == 2
    plain = deep.override(encoder="small").network
    assert (plain.filters, plain.residual, plain.grid) == (None, (), 1)
    own = deep.override(encoder="torch.nn:Flatten", features=784).network
    assert (own.residual, own.grid) == ((), 1)
    built = GaussianPrototypicalNetwork(deep.network, backbone=torch.nn.Flatten(), features=784)
    assert built.config.grid == 1


@pytest.mark.parametrize(
    ("given", "residual", "words"),
    [
        ("", (), "small encoder, D = 64,"),
        ("none", (), "small encoder, D = 64,"),
        ("0", (), "small encoder, D = 64,"),
        ("0,1", (0, 1), "small encoder with 1 residual convolution, D = 64,"),
        ((0, 1, 0, 0), (0, 1), "small encoder with 1 residual convolution, D = 64,"),
        ("0,0,1,2", (0, 0, 1, 2), "small encoder with 3 residual convolutions, D = 64,"),
    ],
)
def test_equal_networks_have_equal_residuals(given, residual, words):
    config = NetworkConfig(residual=given)
    assert config.residual == residual
    assert config.summary.startswith(words)
    assert "D = 64 on a 2 x 2 grid" in NetworkConfig(grid=2).summary


@pytest.mark.parametrize(("encoder", "filters"), [("small", [64, 64, 64]), ("big", [128, 256, 512])])
@pytest.mark.parametrize(("covariance", "raw"), [("none", 0), ("radius", 1), ("diagonal", 32), ("full", 32 * 33 // 2)])
def test_filters_are_the_papers(encoder, filters, covariance, raw):
    built = GaussianPrototypicalNetwork(NetworkConfig(encoder=encoder, embedding_dim=32, covariance=covariance))
    assert [block.conv.out_channels for block in built.encoder.blocks] == [*filters, 32 + raw]


@pytest.mark.parametrize("size", [16, 28, 40, 84])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_image_size_and_channels(size, channels):
    x, s = network(channels=channels).embed(torch.zeros(3, channels, size, size, dtype=torch.uint8))
    assert x.shape == (3, 8)
    assert s.shape == (3, 1)


@pytest.mark.parametrize("relu", [True, False])
def test_precision_relu(relu):
    """With the ReLU no raw output is negative, and the embedding never is; without it the precision goes below."""
    support, _ = episode(C=8, K=8)
    x, s = network(precision_relu=relu, transform="exp").embed(support.flatten(0, 1))
    assert bool((x >= 0).all())
    assert bool((s >= 1).all()) == relu


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("distance", ["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"])
@pytest.mark.parametrize("weighting", ["prototype_and_distance", "prototype"])
def test_every_variant_learns_with_every_parameter(covariance, distance, weighting):
    """Each parameter gets a finite gradient that is not zero everywhere."""
    net = network(
        covariance=covariance,
        distance=distance,
        weighting=weighting,
        transform="learned_softplus",
        precision_relu=False,
    )
    support, query = episode()
    d = answers(net, support, query)
    F.cross_entropy(-d, torch.arange(4).repeat_interleave(3)).backward()
    for name, parameter in net.named_parameters():
        if covariance == "none" and name.startswith("precision"):
            continue
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        cancels = distance == "cosine" and covariance == "radius"  # a radius scales all of a class's products alike
        if not (cancels and name.startswith("precision")):
            assert bool(parameter.grad.any()), name


def test_mean_is_subtracted_from_each_image():
    net = network().eval()
    images = torch.rand(5, 1, 28, 28) / 2
    torch.testing.assert_close(net.embed(images).x, net.embed(images + 0.3).x, rtol=1e-3, atol=1e-5)


def test_bytes_and_fractions_are_the_same_image():
    net = network().eval()
    images = torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8)
    torch.testing.assert_close(tuple(net.embed(images)), tuple(net.embed(images.float() / 255)))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_under_running_statistics_a_query_is_judged_alone(covariance):
    net = network(covariance=covariance)
    support, query = episode()
    answers(net, support, query)  # some statistics
    net.eval()
    together = answers(net, support, query)
    alone = torch.cat([answers(net, support, query[i : i + 1]) for i in range(len(query))])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_under_batch_statistics_a_query_depends_on_the_others():
    net = network()
    support, query = episode()
    net.eval()
    with batch_statistics(net):
        together, alone = answers(net, support, query)[:1], answers(net, support, query[:1])
    assert not torch.allclose(together, alone, rtol=1e-2)


def test_batch_statistics_leave_the_network_as_it_was():
    net = network().eval()
    support, query = episode()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    answer = answers(net, support, query)
    with batch_statistics(net):
        answers(net, support, query)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert torch.equal(answer, answers(net, support, query))


def test_class_order_does_not_matter():
    net = network(covariance="diagonal").eval()
    support, query = episode()
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(answers(net, support, query)[:, order], answers(net, support[order], query))


def test_from_softplus_to_learned_softplus_nothing_changes_at_first():
    net = network(covariance="diagonal").eval()
    support, query = episode()
    before = answers(net, support, query)
    net.set_transform("learned_softplus")
    assert torch.equal(before, answers(net, support, query))
    assert net.config.transform == "learned_softplus"
    assert {"precision.transform.offset", "precision.transform.scale", "precision.transform.div"} <= set(
        net.state_dict()
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_any_backbone_that_gives_vectors(covariance):
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(3 * 20 * 20, 12), nn.Tanh())
    net = GaussianPrototypicalNetwork(NetworkConfig(embedding_dim=5, covariance=covariance, channels=3), backbone, 12)
    d = answers(net, *episode(size=20, channels=3))
    assert d.shape == (12, 4)
    d.sum().backward()
    assert all(parameter.grad is not None for parameter in backbone.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_pixels_as_floats_are_from_0_to_1(training):
    network = GaussianPrototypicalNetwork(NetworkConfig(filters=(4, 4, 4), embedding_dim=4)).train(training)
    pixels = torch.randint(256, (5, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    with pytest.raises(
        InputError, match=r"floats from 0 to 1 \(found torch.float32 from 0 to 255\): .* divide them by"
    ):
        network.embed(pixels.float())
    with pytest.raises(InputError, match="floats from 0 to 1"):
        network.embed(pixels.float() / 255 - 0.5)
    with pytest.raises(InputError, match="floats from 0 to 1"):
        network.embed(torch.full((5, 1, 28, 28), torch.nan))
    with pytest.raises(InputError, match=r"found torch.int64 from 0 to 255"):
        network.embed(pixels)
    network.eval()
    a, b = network.embed(pixels.byte()), network.embed(pixels.float() / 255)
    torch.testing.assert_close(a.x, b.x)


def test_training_on_a_gpu_is_not_held_up_by_a_check():
    network = GaussianPrototypicalNetwork(NetworkConfig(filters=(4, 4, 4), embedding_dim=4)).to("meta")
    assert network.embed(torch.empty(5, 1, 28, 28, device="meta")).x.shape == (5, 4)  # no number can be read from it


def test_all_images_of_a_data_set_are_embedded(characters):
    network = GaussianPrototypicalNetwork(NetworkConfig(filters=(4, 4, 4), embedding_dim=4))
    some = characters.select(range(5))
    torch.testing.assert_close(embed_all(network, some).x, embed_all(network, some.images).x)
