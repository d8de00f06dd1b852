"""The weights that come with the package are what their cards say."""

import re
import shutil

import pytest

import gaussproto as gp
from gaussproto import load_data, load_network, preset, pretrained
from gaussproto.classifier.gallery import read_gallery, write_gallery
from gaussproto.classifier.profile import DRAWINGS
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import evaluate
from gaussproto.evaluation.robustness import damage_study
from gaussproto.runs.weights import open_weights

NAMES = pretrained.bundled_names()
LARGEST = 8_000_000  # bytes


def test_the_default_of_the_classifier_is_there():
    assert DRAWINGS in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_they_are_small_weigh_the_supports_and_know_how_sure_they_are(name):
    path = pretrained.bundled(name)
    assert path.stat().st_size <= LARGEST
    network = load_network(name)
    assert (network.config.covariance, network.config.weighting) == ("radius", "prototype")
    assert open_weights(path).calibration is not None


@pytest.mark.parametrize("name", NAMES)
def test_accuracy_is_that_of_the_card(name, omniglot_root):
    """On a sample of the test classes, so within a margin; `benchmarks/bundled.py` scores all of them."""
    card = (pretrained.FOLDER / f"{name}.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) ± [\d.]+ \| ([\d.]+) ± [\d.]+ \|$", card, re.MULTILINE)
    shots = [int(shot) for shot, _, _ in rows]
    assert {1, 5} <= set(shots)
    test = load_data(open_weights(pretrained.bundled(name)).run.data.for_evaluation(), omniglot_root).test
    sample = test.select(range(0, test.way, 5))  # of every alphabet and rotation
    result = evaluate(load_network(name), sample, shots=shots)
    for shot, five_way, twenty_way in rows:
        for way, on_card in ((5, five_way), (20, twenty_way)):
            margin = 1.0 if shot == "1" else 0.4
            assert 100 * result.score(way, int(shot)).accuracy == pytest.approx(float(on_card), abs=margin)


@pytest.mark.parametrize("name", NAMES)
def test_the_precision_is_alive_as_the_card_says(name, omniglot_root):
    card = (pretrained.FOLDER / f"{name}.md").read_text()
    (said,) = re.findall(r"the higher precision in ([\d.]+) % of pairs", card)
    data = open_weights(pretrained.bundled(name)).run.data.for_evaluation()
    study = damage_study(load_network(name), load_data(data, omniglot_root).test.sample_of_classes(100))
    assert 100 * study.clean_is_higher == pytest.approx(float(said), abs=1)
    assert study.precision_damaged < study.precision_clean


@pytest.mark.parametrize(("old", "new"), pretrained.REPLACED.items())
def test_earlier_names_mean_the_weights_that_replaced_them(old, new):
    assert new in NAMES
    assert old not in NAMES
    assert pretrained.bundled(old) == pretrained.bundled(new)
    assert preset("demo", init=old).training.init == new


@pytest.mark.parametrize(("old", "new"), pretrained.REPLACED.items())
def test_a_gallery_of_the_earlier_weights_says_what_replaced_them(old, new, tmp_path, characters):
    file = tmp_path / "old.gallery"
    clf = gp.GaussianPrototypeClassifier(old).fit(characters.images[::10][:4], [0, 0, 1, 1])
    assert clf.encoder_.source == new
    clf.save(file)
    assert gp.load(file).encoder_.source == new
    settings, *_ = gallery = read_gallery(file)
    settings = settings.model_copy(update={"source": old, "digest": 64 * "0"})
    write_gallery(settings, gallery.examples(), file)
    with pytest.raises(InputError, match=f"weights {old} of an earlier version, which {new} replaced"):
        gp.load(file)


def test_changed_or_missing_files_are_refused(tmp_path, monkeypatch):
    shutil.copytree(pretrained.FOLDER, tmp_path / "pretrained")
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "pretrained")
    path = pretrained.bundled("drawings-small")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="is a damaged weights file"):
        load_network("drawings-small")
    shutil.copy(pretrained.bundled("drawings-big"), path)
    with pytest.raises(InputError, match="are not those that gaussproto came with: install gaussproto again"):
        load_network("drawings-small")
    path.unlink()
    with pytest.raises(InputError, match="are missing"):
        load_network("drawings-small")
    assert pretrained.bundled("another") is None
