"""What the documentation shows can be typed."""

import json
import re
import shlex
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

import gaussproto
from gaussproto import GaussianPrototypeClassifier, export_onnx
from gaussproto.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
COMMANDS = [
    (page.name, line)
    for page in PAGES
    for line in re.findall(r"(?:^ {4}|`)gaussproto (\w[^`#\n]*)", page.read_text(), re.MULTILINE)
]
STEPS = re.compile(r"```python\n(.*?)```|^ {4}gaussproto ([^\n#]*)", re.DOTALL | re.MULTILINE)


def test_commands_were_found():
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_documented_commands_parse(page, line):
    name, *arguments = shlex.split(line.rstrip(" ;"))
    command = typer.main.get_command(app).commands[name]
    while hasattr(command, "commands"):  # a group, as `gallery` is
        name, *arguments = arguments
        command = command.commands[name]
    with suppress(typer.Exit):  # of --help
        command.make_context(name, arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if not target.startswith("https:"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not anchor or target == "api.md" or anchor in anchors(linked), f"{target}#{anchor}"


def anchors(page):
    """The names that GitHub and mkdocs give to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_loop_of_ones_own():
    text = (ROOT / "docs" / "training.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (loop,) = [block for block in blocks if "sample_episode" in block]
    namespace = {}
    exec(loop, namespace)
    namespace["loss"].backward()
    assert namespace["d"].shape == (80, 20)
    assert namespace["loss"].isfinite()


def test_the_page_about_export(tmp_path, monkeypatch, characters, weights):
    pytest.importorskip("onnxruntime", reason="needs the extra: pip install 'gaussproto[onnx]'")
    monkeypatch.chdir(tmp_path)
    export_onnx(weights, "encoder.onnx")
    files = [f"{i}.png" for i in range(3)]
    for i, file in enumerate(files):
        Image.fromarray(255 - characters.dense[i // 2, i, 0].numpy()).resize((60, 60)).save(file)
    page = (ROOT / "docs" / "export.md").read_text()
    alone, with_gaussproto = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "gaussproto" not in alone
    namespace = {}
    exec(alone, namespace)
    clf = GaussianPrototypeClassifier(weights).fit(files, ["a", "a", "b"])
    np.testing.assert_allclose(namespace["x"], clf.example_embeddings_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(namespace["p"], clf.prototypes_[0], rtol=1e-4, atol=1e-4)
    for name, file in zip(["my_images/a/1.png", "my_images/b/2.png", "new.png"], files, strict=True):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(file).rename(name)
    exec(with_gaussproto, namespace)
    assert namespace["clf"].classes_.tolist() == ["a", "b"]


@pytest.mark.filterwarnings("ignore:the examples are too few")
def test_the_classifiers_page(tmp_path, monkeypatch, characters, capsys):
    monkeypatch.chdir(tmp_path)
    files = [f"my_images/{name}/{i}.png" for name in ("ant", "bee", "cat") for i in range(4)]
    for n, file in enumerate([*files, "new.png", "another.png", "scan.png", "unlabelled/0.png", "unlabelled/1.png"]):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 - characters.dense[n // 4, n % 4, 0].numpy()).resize((60, 60)).save(file)

    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "classifier.md").read_text(), re.DOTALL):
        exec(block, namespace)
    assert namespace["clf"].classes_.tolist() == ["ant", "bee", "cat"]
    assert namespace["clf"].example_names_ == [*files, "another.png"]
    assert "from my_images/ant/0.png" in capsys.readouterr().out
    assert Path("why.png").exists()
    assert [each.index for each in namespace["clf"].suggest("unlabelled")] in ([0, 1], [1, 0])


def test_the_page_about_check(tmp_path, monkeypatch, characters, capsys, gaussproto):
    monkeypatch.chdir(tmp_path)
    for n in range(15):
        file = Path(f"my_images/{n // 5}/{n}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 - characters.dense[n // 5, n % 5, 0].numpy()).resize((60, 60)).save(file)
    Path("my_images/0/1.png").rename("my_images/1/1.png")
    text = (ROOT / "docs" / "check.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(block, {})
    assert "my_images/1/1.png 1 looks like 0" in capsys.readouterr().out
    before = sorted(Path("my_images").rglob("*"))
    GaussianPrototypeClassifier().fit("my_images").save("my.gallery")
    for line in re.findall(r"^ {4}gaussproto ([^\n#]*)", text, re.MULTILINE):
        code, _, err = gaussproto(*shlex.split(line))
        assert code == 0, err
    assert sorted(Path("my_images").rglob("*")) == before


def test_the_tutorial(tmp_path, monkeypatch, gaussproto):
    """Every block and every command of the page, in its order, in one folder."""
    monkeypatch.chdir(tmp_path)
    namespace = {}
    said = defaultdict(list)
    for block, line in STEPS.findall((ROOT / "docs" / "tutorial.md").read_text()):
        if block:
            exec(block, namespace)
        else:
            code, out, err = gaussproto(*shlex.split(line))
            assert code == 0, err
            said[line.split()[0]].append(out + err)
    assert set(said) == {"classify", "check", "enroll", "train", "evaluate"}
    assert "looks like sign 03" in said["check"][0]
    assert Path("my_images/sign 03/stray.png").exists()
    with Image.open("confusion.png") as picture:
        assert min(picture.size) > 200
    table = namespace["table"]
    assert table.sum() == len(namespace["files"])
    assert table.trace() > 0.9 * table.sum()
    assert "starts from the weights drawings-small" in said["train"][0]
    assert len(json.loads(Path("runs/scans/split.json").read_text())["test"]) == 10
    shots = re.compile(r"(\d+)-shot\D+([\d.]+) ± ")
    before, after = ({shot: float(score) for shot, score in shots.findall(text)} for text in said["evaluate"])
    assert set(before) == set(after) == {"1", "5"}
    assert all(after[shot] > before[shot] for shot in before), (before, after)


def test_the_readme(tmp_path, monkeypatch, characters, capsys):
    monkeypatch.chdir(tmp_path)
    files = [f"my_images/{name}/{i}.png" for name in ("ant", "bee", "cat") for i in range(2)]
    for n, file in enumerate([*files, "new.png", "owl.png"]):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 - characters.dense[n // 2, n % 2, 0].numpy()).resize((60, 60)).save(file)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out.strip().strip("[]'") in ("ant", "bee", "cat")
    assert gaussproto.load("my.gallery").classes_.tolist() == ["ant", "bee", "cat", "owl"]


def test_the_readme_is_short():
    text = re.sub(r"```.*?```|<!--.*?<!-- end -->|^\|.*$", "", (ROOT / "README.md").read_text(), flags=re.S | re.M)
    assert len(text.split()) < 550
