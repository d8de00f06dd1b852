"""Lake's one-shot challenge, and groups within an alphabet."""

import json
import shutil
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from gaussproto.config import DataConfig
from gaussproto.data.challenge import Challenge, load_challenge
from gaussproto.data.omniglot import EVALUATION
from gaussproto.errors import InputError
from gaussproto.evaluation.challenge import score_challenge
from gaussproto.evaluation.protocol import by_alphabet, evaluate, groups_of_classes
from gaussproto.pretrained import bundled
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import load_network
from gaussproto.runs.scores import ChallengeScore

PLAIN = DataConfig(data="omniglot")


@pytest.fixture(scope="module")
def root(omniglot_root):
    if not (omniglot_root / "all_runs.zip").exists():
        pytest.skip("needs Lake's challenge: put all_runs.zip beside Omniglot's zips")
    return omniglot_root


@pytest.fixture(scope="module")
def challenge(root):
    return load_challenge(PLAIN, root)


def test_every_run_asks_for_every_example_once(challenge):
    assert challenge.examples.shape == challenge.questions.shape == (20, 20, 1, 28, 28)
    assert (challenge.answers.sort(dim=1).values == torch.arange(20)).all()


def test_the_drawings_and_answers_are_those_of_omniglot(root):
    """Each drawing is one of Omniglot's; its file there says which character it shows."""
    with zipfile.ZipFile(root / "images_evaluation.zip") as archive:
        known = {
            np.asarray(Image.open(archive.open(entry))).tobytes(): entry.filename.rsplit("/", 1)[0]
            for entry in archive.infolist()
            if entry.filename.endswith(".png")
        }
    assert len(known) > 13_000
    with zipfile.ZipFile(root / "all_runs.zip") as archive:
        for run in range(1, 21):
            for line in archive.read(f"run{run:02d}/class_labels.txt").decode().splitlines():
                shown = [known[np.asarray(Image.open(archive.open(name))).tobytes()] for name in line.split()]
                assert shown[0] == shown[1]
                assert shown[0].removeprefix("images_evaluation/") in EVALUATION.characters


def test_against_one_question_at_a_time(challenge, weights):
    network = load_network(weights)
    score = score_challenge(network, challenge)
    wrong = []
    with torch.inference_mode():
        for r in range(20):
            p = network.embed(challenge.examples[r].float() / 255)
            wrong.append(0)
            for q in range(20):
                x = network.embed(challenge.questions[r, q][None].float() / 255).x
                d = (p.x - x).norm(dim=1)
                wrong[r] += int(d.argmin() != challenge.answers[r, q])
    assert score.wrong == tuple(wrong)
    assert sum(score.wrong) == len(score.mistakes) > 0
    assert all(mistake.right != mistake.chosen for mistake in score.mistakes)


def test_the_order_of_questions_and_examples_does_not_matter(challenge, weights):
    network = load_network(weights)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    turned = Challenge(challenge.examples[:, order], challenge.questions.flip(1), place[challenge.answers.flip(1)])
    assert score_challenge(network, turned).wrong == score_challenge(network, challenge).wrong


def test_an_example_asked_for_is_found(challenge, weights):
    same = Challenge(challenge.examples, challenge.examples, torch.arange(20).expand(20, 20))
    assert score_challenge(load_network(weights), same).error == 0


def test_a_folder_serves_as_well_as_the_zip(root, challenge, tmp_path):
    with zipfile.ZipFile(root / "all_runs.zip") as archive:
        archive.extractall(tmp_path / "all_runs")
    assert torch.equal(load_challenge(PLAIN, tmp_path).questions, challenge.questions)
    first = tmp_path / "all_runs" / "run01" / "test" / "item01.png"
    shutil.copy(first.with_name("item02.png"), first)
    with pytest.raises(InputError, match="are not those of Lake's challenge"):
        load_challenge(PLAIN, tmp_path)


def test_the_bundled_weights_beat_the_convolutional_network_of_the_literature(root):
    loaded = load_checkpoint(bundled("drawings-small"))
    score = score_challenge(loaded.network(), load_challenge(loaded.config.data, root))
    assert score.error < 0.08


def test_interval_is_wilson():
    low, high = ChallengeScore(questions=400, wrong=(11,), mistakes=()).interval
    p, n, z = 11 / 400, 400, 1.959964
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (low, high) == pytest.approx(
        ((middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)), rel=1e-5
    )
    assert ChallengeScore(questions=400, wrong=(0,), mistakes=()).interval[1] > 0.005


def test_the_command(root, weights, tmp_path, gaussproto):
    code, out, _ = gaussproto(
        "evaluate", weights, "--challenge", "--data-root", root, "--json", "--picture", tmp_path / "wrong.png"
    )
    assert code == 0
    found = json.loads(out)
    assert found["error"] == sum(found["wrong"]) / 400 == len(found["mistakes"]) / 400
    with Image.open(tmp_path / "wrong.png") as picture:
        assert picture.width > 1000


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--challenge", "--ways", "5"], "--challenge has fixed questions: leave out --ways"),
        (["--challenge", "--norm", "batch"], "leave out --norm"),
        (["--picture", "x.png"], "--picture draws the mistakes of --challenge"),
        (["--challenge", "--picture", "x.gif"], "--picture must end in .png or .svg"),
    ],
)
def test_what_the_command_refuses(weights, gaussproto, more, sentence):
    code, _, said = gaussproto("evaluate", weights, *more)
    assert code == 2
    assert sentence in said


def test_groups_within_an_alphabet_have_one_alphabet_and_one_rotation(characters):
    images = characters.with_rotations()
    pools = by_alphabet(images, 5)
    assert sorted(torch.cat(pools).tolist()) == list(range(images.way))
    counted = torch.zeros(images.way, dtype=torch.int64)
    for group, count, _, _ in groups_of_classes(images, 5, 2, torch.Generator().manual_seed(0), pools=pools):
        counted.index_add_(0, group.flatten(), count.any(dim=2).flatten().long())
        for classes in group.tolist():
            assert len(set(classes)) == 5
            assert len({images.alphabets[c] for c in classes}) == 1
            assert len({images.classes[c].removeprefix(images.characters[c]) for c in classes}) == 1
    assert (counted == 2).all()  # each class once in each round


def test_one_alphabet_scores_the_same_within_it(characters, weights):
    name = characters.alphabets[0]
    one = characters.select([c for c in range(characters.way) if characters.alphabets[c] == name])
    network = load_network(weights)
    within, usual = (evaluate(network, one, ways=[5], shots=[1], within_alphabet=each) for each in (True, False))
    assert within.scores == usual.scores
    assert (within.within_alphabet, usual.within_alphabet) == (True, False)


def test_an_alphabet_with_too_few_classes_is_named(characters, weights):
    with pytest.raises(InputError, match=r"groups within an alphabet .* choose a smaller way"):
        evaluate(load_network(weights), characters, ways=[characters.way - 1], shots=[1], within_alphabet=True)
