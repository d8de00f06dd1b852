import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from gaussproto.config import NetworkConfig
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import _interval, evaluate, groups_of_classes
from gaussproto.model.embed import batch_statistics, embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from tests.conftest import uneven


def network(**settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = NetworkConfig(**{"embedding_dim": 8, "filters": (6, 6, 6)} | settings)
        return GaussianPrototypicalNetwork(config).eval()


@pytest.fixture(scope="module")
def few(characters):
    return characters.select(range(13))


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
def test_against_one_episode_at_a_time(few, covariance):
    """With all classes in one group, a whole round is one episode: the plain network gives the same answers."""
    net = network(covariance=covariance, precision_relu=False)
    for shot in (1, 7, 19):
        score = evaluate(net, few, ways=[13], shots=[shot], rounds=60, seed=1).scores[0]
        right = []
        g = torch.Generator().manual_seed(2)
        for _ in range(60):
            order = torch.rand(13, 20, generator=g).argsort(dim=1)
            drawn = few.gather(torch.arange(13), order)
            with torch.inference_mode():
                d = net(net.embed(drawn.flatten(0, 1)).unflatten((13, 20)), shot)
            truth = torch.arange(13).repeat_interleave(20 - shot)
            right.append((d.argmin(1) == truth).float().mean().item())
        spread = torch.tensor(right).std().item() / math.sqrt(len(right))
        assert abs(score.accuracy - sum(right) / len(right)) < 5 * spread + 1e-3


class ByName(nn.Module):
    """A backbone that reads the class from a pixel: as good as can be, or, if blind, no better than chance."""

    def __init__(self, way, blind=False):
        super().__init__()
        self.way, self.blind = way, blind

    def forward(self, images):
        name = ((images[:, 0, 0, 0] - images[:, 0, 1, 0]) * 255).round().long()
        if self.blind:
            name = torch.randint(self.way, (len(images),), generator=torch.Generator().manual_seed(len(images)))
        return nn.functional.one_hot(name, self.way).float()


def named(way, counts):
    """Images that say their class in a corner."""
    labels = torch.arange(way).repeat_interleave(torch.tensor(counts))
    images = torch.zeros(len(labels), 1, 16, 16, dtype=torch.uint8)
    images[:, 0, 0, 0] = labels.to(torch.uint8)
    names = tuple(f"class {c}" for c in range(way))
    return LabelledImages(images, torch.tensor(counts), names, names)


def with_backbone(way, blind=False):
    net = GaussianPrototypicalNetwork(
        NetworkConfig(embedding_dim=way, covariance="none"), ByName(way, blind), features=way
    )
    with torch.no_grad():
        net.encoder.head.weight.copy_(torch.eye(way))
        net.encoder.head.bias.zero_()
    return net


def test_a_perfect_and_a_blind_network():
    images = named(23, [20] * 23)
    perfect = evaluate(with_backbone(23), images, shots=[1, 5, 19], rounds=2)
    assert all(score.accuracy == 1 and 0 < score.interval < 0.1 for score in perfect.scores)  # never ± 0
    assert perfect.score(20, 1).text() == "100.00 ± 0.83"  # Wilson: 460 images
    blind = evaluate(with_backbone(23, blind=True), images, ways=[5, 20], shots=[1], rounds=20)
    for score in blind.scores:
        assert score.accuracy == pytest.approx(1 / score.way, abs=0.05)


@given(C=st.integers(2, 90), seed=st.integers(0, 99), data=st.data())
@settings(deadline=None)
def test_every_class_counts_once_a_round_also_if_the_last_group_is_filled_up(C, seed, data):
    way = data.draw(st.integers(2, C))
    counts = torch.randint(2, 5, (C,), generator=torch.Generator().manual_seed(seed)).tolist()
    images = named(C, counts)
    parts = groups_of_classes(images, way, 1, torch.Generator().manual_seed(seed))
    grouped, counted, index, there = (torch.cat(part) for part in zip(*parts, strict=True))
    assert grouped.shape[1] == way
    assert sorted(index[counted].tolist()) == list(range(len(images)))  # every image once
    assert torch.equal(there.sum(dim=2), images.counts[grouped])
    assert torch.equal(images.labels[index], grouped[..., None].expand_as(index))
    assert all(len(set(group)) == way for group in grouped.tolist())


@pytest.mark.parametrize("norm", ["running", "batch"])
def test_unequal_counts_ask_every_image_that_is_there_and_no_other(norm):
    """In class 3 one image of nine is wrong. It is a query in 8 of 9 rounds, one of eight queries; as the only support,
    in 1 of 9 rounds, it makes the other eight wrong and steals nothing. Images that are not there would dilute this."""
    counts = [2, 5, 3, 9, 4, 2]
    images = named(6, counts)
    images.images[images.starts[3], 0, 0, 0] = 5  # it looks like class 5
    rounds = 900
    result = evaluate(with_backbone(6), images, ways=[6], shots=[1], rounds=rounds, norm=norm)
    expected = 8 / 9 * 7 / 8 + 1 / 9 * 0
    assert result.scores[0].accuracy == pytest.approx((5 + expected) / 6, abs=0.006)


def test_interval_is_that_of_the_mean_over_classes(few):
    images = named(10, [20] * 10)
    images.images[images.labels >= 8, 0, 0, 0] = 0  # two classes of ten look like the first: all three are mixed up
    score = evaluate(with_backbone(10), images, ways=[10], shots=[1], rounds=1).scores[0]
    by_class = torch.tensor([1.0] + [1.0] * 7 + [0.0, 0.0])  # ties go to the first class
    assert score.accuracy == pytest.approx(by_class.mean().item())
    assert score.interval == pytest.approx(stats.t.ppf(0.975, 9) * by_class.std().item() / math.sqrt(10))


def test_rotations_of_a_character_do_not_make_the_interval_narrower():
    """Four copies of each result are no more evidence than one."""
    accuracies, names = torch.linspace(0.5, 1, 16), list("abcdefghijklmnop")
    once = _interval(accuracies, names, 20 * len(names))
    assert once == pytest.approx(stats.t.ppf(0.975, 15) * accuracies.std().item() / 4)
    assert _interval(accuracies.repeat(4), names * 4, 80 * len(names)) == pytest.approx(once)


def test_intervals_of_few_classes_are_those_of_student_or_wilson():
    names = [str(c) for c in range(5)]
    differ = torch.tensor([0.5, 0.7, 0.9, 0.6, 0.8])
    assert _interval(differ, names, 100) == pytest.approx(stats.t.interval(0.95, 4, 0.7, stats.sem(differ))[1] - 0.7)
    for right in (0.0, 1.0):  # all alike: the farther end of Wilson's interval
        low, high = stats.binomtest(int(100 * right), 100).proportion_ci(method="wilson")
        assert _interval(torch.full((5,), right), names, 100) == pytest.approx(
            abs(right - (high if right < 1 else low))
        )
    assert _interval(torch.tensor([0.2, 1.0]), names[:2], 10) == 1  # two classes tell nothing
    assert 0 < _interval(torch.ones(4), ["a"] * 4, 80) == _interval(torch.ones(1), ["a"], 20)


def test_student_intervals_hold_the_truth_as_often_as_they_say():
    generator = torch.Generator().manual_seed(0)
    inside = []
    for _ in range(400):
        accuracies = (0.7 + 0.1 * torch.randn(6, generator=generator)).clamp(0, 1)
        inside.append(abs(accuracies.mean().item() - 0.7) <= _interval(accuracies, list("abcdef"), 10_000))
    assert sum(inside) / 400 == pytest.approx(0.95, abs=0.03)


def test_scores_do_not_depend_on_what_else_is_asked_for(few):
    alone = evaluate(network(), few, ways=[10], shots=[5])
    together = evaluate(network(), few, ways=[5, 10], shots=[1, 5, 1, 7])
    assert alone.score(10, 5) == together.score(10, 5)
    with pytest.raises(InputError, match="10-way 9-shot was not measured"):
        alone.score(10, 9)


@pytest.mark.parametrize("norm", ["running", "batch"])
@pytest.mark.parametrize("training", [True, False])
def test_a_network_comes_back_in_the_mode_it_was_in(few, norm, training):
    net = network().train(training)
    evaluate(net, few, ways=[5], shots=[1], rounds=1, norm=norm)
    assert net.training == training
    assert not embed_all(net, few.images[:3]).x.is_inference()
    net.embed(few.images[:3]).x.sum().backward()  # and can still be trained


def test_several_checkpoints_give_mean_and_standard_deviation(few):
    nets = [network(embedding_dim=D) for D in (2, 4, 8)]
    together = evaluate(nets, few, ways=[5], shots=[1, 5], rounds=2)
    alone = [evaluate(net, few, ways=[5], shots=[1, 5], rounds=2) for net in nets]
    for shot in (1, 5):
        accuracies = torch.tensor([result.score(5, shot).accuracy for result in alone])
        assert together.score(5, shot).accuracy == pytest.approx(accuracies.mean().item())
        assert together.score(5, shot).std == pytest.approx(accuracies.std().item(), abs=1e-6)
        assert alone[0].score(5, shot).std is None


def test_same_seed_same_scores_and_more_shots_are_no_worse(few):
    first, again = (evaluate(network(), few, ways=[5], rounds=5) for _ in range(2))
    assert first == again
    assert first.score(5, 10).accuracy > first.score(5, 1).accuracy


def test_embedding_in_batches_changes_nothing(few):
    net = network()
    x, s = embed_all(net, few.images)
    with torch.inference_mode():
        whole_x, whole_s = net.embed(few.images)
    torch.testing.assert_close(x, whole_x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(s, whole_s, rtol=1e-4, atol=1e-5)


def test_batch_norm_mode_encodes_each_group_as_one_batch(few):
    """One group of all classes: the scores are those of the plain network under that batch's statistics."""
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    result = evaluate(net, few, ways=[13], shots=[5], rounds=30, norm="batch")
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    right = []
    g = torch.Generator().manual_seed(5)
    with batch_statistics(net), torch.inference_mode():
        for _ in range(30):
            drawn = few.gather(torch.arange(13), torch.rand(13, 20, generator=g).argsort(dim=1))
            d = net(net.embed(drawn.flatten(0, 1)).unflatten((13, 20)), 5)
            right.append((d.argmin(1) == torch.arange(13).repeat_interleave(15)).float().mean().item())
    assert result.norm == "batch"
    assert result.scores[0].accuracy == pytest.approx(sum(right) / 30, abs=0.02)


def test_too_much_asked(few):
    with pytest.raises(InputError, match="ways must be from 2 to 13, the number of test classes"):
        evaluate(network(), few)
    with pytest.raises(InputError, match="shots must be from 1 to 19"):
        evaluate(network(), few, ways=[5], shots=[20])
    with pytest.raises(InputError, match=r"must be from 1 to 2 .*: class .* has 3 images"):
        evaluate(network(), uneven(few, [5, 3, 9]), ways=[2], shots=[1, 3])
    with pytest.raises(InputError, match="at least one way"):
        evaluate(network(), few, ways=[])
