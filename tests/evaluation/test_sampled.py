"""Random episodes of classes with hundreds of images."""

import json
import math

import pytest
import torch
from PIL import Image

from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import evaluate, usual_shots, usual_ways
from gaussproto.evaluation.sampled import EPISODES, random_episodes, usual_episodes
from gaussproto.model.embed import embed_all
from tests.evaluation.test_protocol import named, network, with_backbone


@pytest.fixture(scope="module")
def many(characters):
    """Classes of 40 drawings: each drawing in two rotations."""
    turned = characters.select(range(9)).with_rotations()
    images = torch.cat([turned.images[:180].view(9, 20, 1, 28, 28), turned.images[180:360].view(9, 20, 1, 28, 28)], 1)
    return type(characters)(images.flatten(0, 1), torch.full((9,), 40), turned.classes[:9], turned.alphabets[:9])


@pytest.mark.parametrize("covariance", ["none", "full"])
def test_against_one_episode_at_a_time(many, covariance):
    """The plain network gives the same answers to the same episodes."""
    net = network(covariance=covariance, precision_relu=False)
    score = evaluate(net, many, ways=5, shots=3, episodes=90, seed=4).scores[0]
    embedded = embed_all(net, many)
    right, of_class = [], {c: [] for c in range(9)}
    for classes, index in random_episodes(many, 5, 18, 90, torch.Generator().manual_seed(4)):
        for some, drawn in zip(classes, index, strict=True):
            with torch.inference_mode():
                d = net(embedded[drawn], 3)
            hit = (d.argmin(1) == torch.arange(5).repeat_interleave(15)).double().view(5, 15).mean(dim=1)
            right.append(hit.mean().item())
            for c, share in zip(some.tolist(), hit.tolist(), strict=True):
                of_class[c].append(share)
    assert score.accuracy == pytest.approx(sum(right) / 90, abs=2e-3)
    spread = torch.tensor(right).std().item()
    assert score.interval_episodes == pytest.approx(1.987 * spread / math.sqrt(90), rel=0.02)
    by_class = torch.tensor([sum(shares) / len(shares) for shares in of_class.values()])
    assert score.interval == pytest.approx(2.306 * by_class.std().item() / 3, rel=0.05)


def test_an_episode_has_different_classes_and_different_images_of_each(many):
    parts = random_episodes(many, 5, 20, 130, torch.Generator().manual_seed(0))
    classes, index = (torch.cat(part) for part in zip(*parts, strict=True))
    assert (classes.shape, index.shape) == ((130, 5), (130, 5, 20))
    assert all(len(set(episode)) == 5 for episode in classes.tolist())
    assert all(len(set(drawn)) == 20 for drawn in index.flatten(0, 1).tolist())
    assert torch.equal(many.labels[index], classes[..., None].expand_as(index))
    assert len(index.unique()) == len(many)  # all images are drawn sometimes


def test_a_blind_network_guesses_and_a_few_episodes_ask_few_classes():
    images = named(30, [20] * 30)
    blind = evaluate(with_backbone(30, blind=True), images, ways=5, shots=1, episodes=300).scores[0]
    assert blind.accuracy == pytest.approx(0.2, abs=0.05)
    two = evaluate(with_backbone(30), images, ways=5, shots=1, episodes=2).scores[0]
    assert two.accuracy == 1


def test_the_protocol_follows_the_size_of_the_classes(many):
    assert (usual_ways(many), list(usual_shots(many)), usual_episodes(many)) == ([5], list(range(1, 20)), None)
    large = named(6, [100] * 6)
    assert (usual_ways(large), list(usual_shots(large)), usual_episodes(large)) == ([5], [1, 5], EPISODES)


def test_several_checkpoints(many):
    nets = [network(embedding_dim=D) for D in (2, 8)]
    together, *alone = (evaluate(some, many, ways=5, shots=1, episodes=40).scores[0] for some in (nets, *nets))
    accuracies = torch.tensor([score.accuracy for score in alone])
    assert together.accuracy == pytest.approx(accuracies.mean().item())
    assert together.std == pytest.approx(accuracies.std().item())


def test_what_does_not_fit(many):
    with pytest.raises(InputError, match="leave out rounds, norm and within_alphabet"):
        evaluate(network(), many, 5, 1, episodes=10, rounds=2)
    with pytest.raises(InputError, match="episodes must be from 2"):
        evaluate(network(), many, 5, 1, episodes=1)
    with pytest.raises(InputError, match=r"needs 26 supports and 15 queries of each class \(class .* has 40 images\)"):
        evaluate(network(), many, 5, 26, episodes=10)


def test_the_command_says_both_intervals(weights, many, gaussproto, tmp_path):
    for name, drawings in zip(many.classes, many.dense[:, :20, 0].numpy(), strict=True):
        (tmp_path / name.replace("/", " ")).mkdir()
        for i, drawing in enumerate(drawings):
            Image.fromarray(drawing).save(tmp_path / name.replace("/", " ") / f"{i}.png")
    arguments = ("evaluate", weights, "--data", tmp_path, "--ways", "2", "--shots", "1", "--episodes", "30")
    code, out, err = gaussproto(*arguments)
    assert code == 0, err
    assert "30 random episodes with 15 queries of each class" in " ".join((out + err).split())
    tree = json.loads(gaussproto(*arguments, "--json")[1])
    assert (tree["sampled"], tree["scores"][0]["interval_episodes"] > 0) == (30, True)
    assert "--episodes" in gaussproto("evaluate", weights, "--challenge", "--episodes", "9")[2]
