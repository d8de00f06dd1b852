"""What `suggest` chooses: uncertain, of good precision, unlike each other; in Python and by the command."""

import csv
import json
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gaussproto import GaussianPrototypeClassifier
from gaussproto.classifier.suggest import most_valuable
from gaussproto.errors import ImageWarning, InputError


def inputs(seed, N=12, C=3, D=4):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(C), N)
    return rng.normal(size=(N, D)), rng.uniform(0.5, 2, (N, 1)), p, np.zeros(N, dtype=bool), np.ones((5, 1))


@given(seed=st.integers(0, 200), n=st.integers(1, 15), scale=st.floats(0.01, 100))
@settings(deadline=None, max_examples=40)
def test_laws(seed, n, scale):
    x, s, p, blank, examples = inputs(seed)
    chosen, values = most_valuable(x, s, p, blank, examples, n)
    assert len(set(chosen)) == len(chosen) == min(n, len(x))
    assert values == sorted(values, reverse=True)
    assert all(0 <= value <= 1 for value in values)
    top = np.sort(p, axis=1)
    first = np.maximum(1 - top[:, -1] + top[:, -2], 1e-3) * np.minimum(1, s[:, 0])
    assert chosen[0] == first.argmax()
    assert most_valuable(x, s, p, blank, examples, 3)[0][:n] == chosen[:3]
    assert most_valuable(scale * x + 7, 5 * s, p[:, ::-1], blank, 5 * examples, n)[0] == chosen
    order = np.random.default_rng(seed).permutation(len(x))
    again, _ = most_valuable(x[order], s[order], p[order], blank, examples, 4)
    assert order[again].tolist()[:n] == chosen[:4]


def test_no_copy_and_no_blank_image_is_chosen_before_the_others():
    x, _, p, blank, _ = inputs(0)
    x[1], p[0], p[1] = x[0], [0.5, 0.5, 0], [0.5, 0.5, 0]
    blank[2] = True
    chosen, values = most_valuable(x, None, p, blank, None, 12)
    assert chosen[0] == 0
    assert chosen[-1] == 1
    assert values[-1] == 0
    assert 2 not in chosen
    assert most_valuable(x[:1], None, p[:1], blank[:1], None, 5)[0] == [0]


def test_an_uncertain_vector_is_suggested_first():
    clf = GaussianPrototypeClassifier("identity").fit([[0.0, 0.0], [4.0, 0.0]], ["a", "b"])
    found = clf.suggest([[0.0, 0.1], [1.9, 0.0], [4.0, 0.1]], n=2)
    assert (found[0].index, found[0].label, found[0].other) == (1, "a", "b")
    assert found[0].probability == clf.predict_proba([[1.9, 0.0]]).max()
    for n in (0, 1.5, True, "3"):
        with pytest.raises(InputError, match="n must be a whole number"):
            clf.suggest([[0.0, 0.1]], n=n)


@pytest.fixture(scope="module")
def place(tmp_path_factory, characters):
    root = tmp_path_factory.mktemp("suggest")
    for c in range(4):
        for i in range(6):
            folder = root / "support" / f"class {c}" if i < 2 else root / "new"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(255 - characters.dense[c, i, 0].numpy()).resize((60, 60)).save(folder / f"{c} {i}.png")
    (root / "new" / "broken.png").write_bytes(b"no image")
    return root


def test_the_command_says_what_the_classifier_suggests(place, gaussproto, monkeypatch):
    monkeypatch.chdir(place)
    command = ["suggest", "--support", "support", "new", "-n", 3]
    code, out, said = gaussproto(*command, "--json", "--copy-to", "chosen")
    assert code == 0, said
    assert "left out 1 of 17 images" in said
    found = json.loads(out)["images"]
    clf = GaussianPrototypeClassifier().fit("support")
    files = sorted((place / "new").glob("? ?.png"))
    assert [entry["image"] for entry in found] == [f"new/{files[each.index].name}" for each in clf.suggest(files, 3)]
    blank = np.full((60, 60), 255, dtype=np.uint8)
    with pytest.warns(ImageWarning, match="no ink"):
        assert [each.index for each in clf.suggest([Image.open(files[0]), blank], 2)] == [0]
    assert sorted(file.name for file in (place / "chosen").glob("*/*")) == sorted(
        entry["image"].split("/")[-1] for entry in found
    )
    code, out, _ = gaussproto(*command, "--csv")
    assert [row["image"] for row in csv.DictReader(StringIO(out))] == [entry["image"] for entry in found]
    code, out, _ = gaussproto(*command)
    assert all(entry["image"] in out for entry in found)
    code, _, said = gaussproto("suggest", "new")
    assert code == 2
    assert "either --support DIR or --gallery FILE (found neither)" in said
