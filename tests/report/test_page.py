"""The page is whole, true to the run's files, and says what is missing."""

import os
import re
import shutil
import signal
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from PIL import Image

from gaussproto.config import DataConfig
from gaussproto.data.load import Split, load_data
from gaussproto.errors import InputError
from gaussproto.figures.style import SERIES
from gaussproto.presets import preset
from gaussproto.report.page import report_page, write_report
from gaussproto.report.source import RunSource, open_runs
from gaussproto.runs.folder import RunFolder
from gaussproto.training.train import train
from tests.conftest import add_scores, uneven
from tests.report.conftest import evaluation, read, tiny

VOID = {"img", "meta"}


class Checked(HTMLParser):
    """Fails on elements that are not closed in order; collects what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.ids, self.images, self.drawings, self.links, self.words = [], [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, name, attributes):
        found = dict(attributes)
        if name not in VOID:
            self.open.append(name)
        if "id" in found:
            self.ids.append(found["id"])
        if name == "img":
            self.images.append(found)
        if name == "svg":
            self.drawings.append(found)
        self.links += [value for key, value in attributes if key in ("href", "src", "action")]

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        self.handle_endtag(name)

    def handle_endtag(self, name):
        if name not in VOID:
            assert self.open.pop() == name

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@pytest.fixture(scope="module")
def copies(runs, tmp_path_factory):
    """The runs, evaluated, to change at will."""
    place = tmp_path_factory.mktemp("copies")
    made = {}
    for n, (name, run) in enumerate(runs.items()):
        shutil.copytree(run.path, place / name)
        made[name] = RunFolder(place / name)
        add_scores(made[name], evaluation(offset=n / 100))
    add_scores(made["radius"], evaluation("batch", offset=0.05))
    return made


def page_of(characters, *runs) -> str:
    sources = open_runs([run.path for run in runs])
    for source in sources:
        source.loaded[DataConfig()] = characters
    return report_page(sources)


@pytest.fixture(scope="module")
def page(copies, characters):
    return page_of(characters, copies["radius"], copies["none"], copies["full"])


def test_the_page_needs_nothing_but_itself(page):
    checked = Checked(page)
    assert "://" not in page
    assert "<script" not in page
    assert "@import" not in page
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in checked.links)
    assert not re.search(r"url\((?!#)", page)
    assert {link[1:] for link in checked.links if link[0] == "#"} <= set(checked.ids)
    assert len(set(checked.ids)) == len(checked.ids)
    assert len(page) < 3 * 3e6


def test_every_image_and_drawing_has_words(page):
    checked = Checked(page)
    assert len(checked.images) > 20
    assert all(image["alt"] for image in checked.images)
    assert len(checked.drawings) >= 12
    assert all(drawing["role"] == "img" and drawing["aria-label"] for drawing in checked.drawings)
    assert page.count("<table") == page.count("<thead") == page.count("aria-label=") - len(checked.drawings) - 1


def test_every_score_is_that_of_metrics_json(page, copies):
    shown = set(re.findall(r"(\d+\.\d\d) ± (\d+\.\d\d)", Checked(page).text))
    kept = {
        (f"{100 * score['accuracy']:.2f}", f"{100 * score['interval']:.2f}")
        for name in ("radius", "none", "full")
        for scored in read(copies[name].metrics)["evaluations"]
        for score in scored["scores"]
    }
    assert shown == kept
    assert "running statistics" in page
    assert "batch statistics" in page


def test_the_comparison_comes_first(page):
    assert page.index("Comparison") < page.index("Settings that differ") < page.index('id="run0"')
    assert "vanilla network: it predicts no precision" in page
    assert "lowest precision" in page


def test_what_differs_is_told(copies, page):
    found = page[page.index("Settings that differ") :]
    row = found[found.index("stages") : found.index("</tr>", found.index("stages"))]
    assert "40 episodes" in row
    assert "30 episodes, then 30 episodes; damage 20 % to 14 px" in row


def test_the_last_checkpoint_is_not_compared_with_the_best(copies, characters, tmp_path):
    for name, checkpoint in (("none", "last"), ("diagonal", "top")):
        shutil.copytree(copies[name].path, tmp_path / name)
        run = RunFolder(tmp_path / name)
        run.write_metrics(evaluations=())
        add_scores(run, evaluation(), checkpoint)
    runs = [RunFolder(tmp_path / name) for name in ("none", "diagonal")]
    chart = "5-way accuracy of each run", "20-way accuracy of each run"
    assert not any(words in page_of(characters, *runs) for words in chart)
    add_scores(runs[0], evaluation(), "top")
    assert chart[1] in page_of(characters, *runs)


def test_one_run_is_not_compared(copies, characters):
    page = page_of(characters, copies["diagonal"])
    Checked(page)
    assert "Comparison" not in page


def test_a_run_in_the_middle_of_training(copies, characters, tmp_path, monkeypatch):
    shutil.copytree(copies["none"].path, tmp_path / "middle")
    run = RunFolder(tmp_path / "middle")
    run.metrics.unlink()
    config = RunSource(run).config.override(episodes=400)
    run.config.write_text(config.model_dump_json())
    with run.log_file.open("a") as file:
        file.write('{"episode": 50, "lo')  # just being written
    source = RunSource(run, loaded={DataConfig(): characters})
    page = report_page([source])
    assert "Not finished: 40 of 400 episodes" in page
    assert f"gaussproto evaluate {run.path}" in page
    assert not source.finished
    monkeypatch.setattr("gaussproto.report.source.load_data", lambda *_: Split(characters, characters))
    write_report([run.path], tmp_path / "page.html")  # does not score what will go on learning
    assert not run.metrics.exists()


def test_scores_from_before_the_training_went_on_are_not_shown(characters, tmp_path):
    run = RunFolder(tmp_path / "run")

    def stop_at(record, episode):
        if record.episode == episode:
            os.kill(os.getpid(), signal.SIGTERM)

    train(tiny("on", episodes=60), characters, run.path, on_log=lambda record: stop_at(record, 30))
    add_scores(run, evaluation(offset=0.1))
    assert RunSource(run).evaluations
    train(tiny("on", episodes=60), characters, run.path, resume=True, on_log=lambda record: stop_at(record, 50))
    assert run.read_metrics().evaluations
    assert not RunSource(run).evaluations
    one = evaluation().model_copy(update={"scores": evaluation().scores[:1]})
    add_scores(run, one)  # nor are they mixed with those of other weights
    assert RunSource(run).evaluations[0].scores == one.scores


def test_the_rest_of_the_page_is_there_where_the_data_is_not(copies, tmp_path):
    config = RunSource(copies["radius"]).config.override(data=str(tmp_path / "gone"))
    shutil.copytree(copies["radius"].path, tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(config.model_dump_json())
    write_report([tmp_path / "run"], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    Checked(page)
    assert "Not measured: the folder" in page
    assert "Training" in page


def test_the_page_describes_the_run_and_not_its_preset(characters, tmp_path):
    small = {"filters": "4,4,4", "embedding_dim": 4, "way": 5, "episodes": 10}
    train(preset("fast-small-none", covariance="radius", **small), characters, tmp_path / "run")
    write_report([str(tmp_path / "run")], str(tmp_path / "page.html"), evaluate=False)
    page = (tmp_path / "page.html").read_text()
    assert "fast-small-none with covariance radius" in page
    assert "Network: small encoder, D = 4, radius covariance (softplus)" in page
    assert "vanilla" not in page.split("<h3>Scores</h3>")[0]


def test_a_folder_of_colour_images_is_evaluated_first(characters, tmp_path):
    for c in range(8):
        folder = tmp_path / "photos" / f"<b>{c} & co"
        folder.mkdir(parents=True)
        for i in range(2 + c % 3):
            image = Image.fromarray(characters.dense[c, i, 0].numpy()).resize((50, 40))
            Image.merge("RGB", [image, image.rotate(9), image]).save(folder / f"{i}.jpg")
    data = {"data": str(tmp_path / "photos"), "channels": 3, "image_size": 32}
    config = tiny("photos", **data, way=4, query=1, episodes=10)
    train(config, load_data(config.data).train, tmp_path / "run")
    write_report([tmp_path / "run"], tmp_path / "new" / "page.html")
    page = (tmp_path / "new" / "page.html").read_text()
    Checked(page)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "&amp;lt;" not in page  # text is escaped once
    scores = read(tmp_path / "run" / "metrics.json")["evaluations"][0]["scores"]
    assert all(f"{100 * score['accuracy']:.2f} ± {100 * score['interval']:.2f}" in page for score in scores)
    assert all(score["interval"] > 0.01 for score in scores)  # two classes tell little


def test_classes_of_one_image_leave_the_rest_of_the_page(copies, characters, tmp_path, monkeypatch):
    shutil.copytree(copies["radius"].path, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    run.metrics.unlink()
    few = uneven(characters, [1, 3, 4])
    monkeypatch.setattr("gaussproto.report.source.load_data", lambda *_: Split(characters, few))
    write_report([run.path], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    Checked(page)
    assert "Not evaluated: every test class needs at least two images" in page
    assert "Not measured: every test class needs at least two images" in page
    assert "Map of the embedding space" in page
    assert not run.metrics.exists()


def test_mistakes(copies, tmp_path):
    (tmp_path / "empty").mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(copies["none"].config, bare)
    good = copies["none"].path
    for paths, out, sentence in (
        ([tmp_path / "nowhere"], "page.html", "the run folder .* does not exist"),
        ([tmp_path / "empty"], "page.html", "is not a run folder"),
        ([good, bare], "page.html", "has no checkpoint yet"),
        ([good], "empty", "empty is a folder"),
        ([], "page.html", "at least one run"),
    ):
        with pytest.raises(InputError, match=sentence):
            write_report(paths, tmp_path / out)
    assert not (tmp_path / "page.html").exists()


def test_runs_of_one_name_are_told_apart(copies, tmp_path):
    shutil.copytree(copies["none"].path, tmp_path / "none")
    first, second = open_runs([copies["none"].path, tmp_path / "none"])
    assert first.name != second.name


def test_text_is_escaped_once(copies, characters, tmp_path):
    shutil.copytree(copies["radius"].path, tmp_path / '<i> & "co"')
    page = page_of(characters, RunFolder(tmp_path / '<i> & "co"'), copies["none"])
    checked = Checked(page)
    assert "<i>" not in page
    assert "&amp;lt;" not in page
    assert "&amp;amp;" not in page
    assert '<i> & "co"' in checked.words
    assert any('training loss of <i> & "co"' in drawing["aria-label"] for drawing in checked.drawings)


def test_figures_and_the_page_share_their_colours(page):
    style = page[page.index("<style>") : page.index("</style>")]
    light, dark = style.split("prefers-color-scheme: dark")
    for i, colour in enumerate(SERIES):
        assert f"--s{i}: {colour};" in light
        assert f"--s{i}: #" in dark
    charts = re.findall(r'<figure class="chart">.*?</figure>', page, re.DOTALL)
    assert "var(--s0)" in "".join(charts)
    assert not any(colour in "".join(charts) for colour in SERIES)  # they follow the theme


def test_paths_may_be_strings(copies, tmp_path, monkeypatch, characters):
    monkeypatch.setattr("gaussproto.report.source.load_data", lambda *_: Split(characters, characters))
    run = str(copies["none"].path)
    for name, paths in (("list.html", [run]), ("one.html", run)):
        write_report(paths, str(tmp_path / name))
        assert ">none</h2>" in (tmp_path / name).read_text()


def test_results_of_an_older_form_are_refused(copies, tmp_path):
    old = {"metrics.json": '{"training": {"episodes": 40}}\n', "log.jsonl": '{"episode": 10, "loss": 1.5}\n'}
    for (name, content), remedy in zip(old.items(), ("evaluate the run again", "train the run again"), strict=True):
        run = tmp_path / name / "run"
        shutil.copytree(copies["none"].path, run)
        (run / name).write_text(content)
        with pytest.raises(InputError, match=f"{name} must have the format version .*{remedy}"):
            write_report([copies["radius"].path, run], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_reading_a_run_does_not_import_matplotlib():
    code = "import gaussproto.report.source, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
