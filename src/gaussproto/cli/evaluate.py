"""The command `evaluate`, which scores a network on new classes or on Lake's challenge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Device, Json, Target, check_seed, complete, parse_numbers
from gaussproto.config import BUILT_IN, DataConfig, RunConfig
from gaussproto.errors import InputError
from gaussproto.setting_types import Norm

if TYPE_CHECKING:
    from gaussproto.data.challenge import Challenge
    from gaussproto.runs.metrics import ChallengeScore

# Errors in % of Lake's challenge, from Lake et al. 2015 (Science), Lake et al. 2013 and Koch et al. 2015.
PUBLISHED = {
    "BPL, which learns from pen strokes": 3.3,
    "people": 4.5,
    "HBPL": 4.8,
    "siamese network": 8.0,
    "convolutional network": 13.5,
}


def evaluate(
    target: Target,
    ways: Annotated[
        str | None,
        Option(
            help="Numbers of classes in a group (way), separated by commas. Default: 5,20 if there are enough classes, "
            "and 5 if classes have hundreds of images."
        ),
    ] = None,
    shots: Annotated[
        str | None,
        Option(
            help="Numbers of supports of each class (shot), e.g. 1,5 or 1-19. Default: 1-19 if there are enough "
            "images, and 1,5 if classes have hundreds of images."
        ),
    ] = None,
    norm: Annotated[
        Norm,
        Option(
            help="Statistics of batch norm. running: those of training, so each image is classified independently "
            "(inductive). batch: those of each group of images (transductive), as in the paper."
        ),
    ] = "running",
    checkpoints: Annotated[
        Literal["last", "top"],
        Option(
            help="Checkpoints to score. last: the last one. top: the mean over those with the highest training "
            "accuracy, as in the paper."
        ),
    ] = "last",
    rounds: Annotated[
        int | None, Option(help="Number of random groupings of the classes. Default: 10, or 1 with --norm batch.")
    ] = None,
    episodes: Annotated[
        int | None,
        Option(
            help="Score so many random episodes, with 15 queries of each class, instead of whole groups. Default: 2000 "
            "if classes have hundreds of images."
        ),
    ] = None,
    seed: Annotated[int, Option(help="Random seed of the groupings or episodes.", callback=check_seed)] = 0,
    data: Annotated[
        str | None,
        Option(
            help="Other data: omniglot, omniglot-vinyals, strokes, cifar-fs or a folder. Default: the data of the run.",
            autocompletion=complete(BUILT_IN),
        ),
    ] = None,
    split: Annotated[Path | None, Option(help="With --data DIR: JSON file that names the test classes.")] = None,
    within_alphabet: Annotated[
        bool, Option("--within-alphabet", help="Draw each group from one alphabet, whose characters are more alike.")
    ] = False,
    challenge: Annotated[
        bool,
        Option(
            "--challenge",
            help="Answer Lake's one-shot challenge instead: 400 fixed questions, 20-way 1-shot within an alphabet.",
        ),
    ] = False,
    picture: Annotated[
        Path | None, Option(metavar="OUT.png", help="With --challenge: draw the mistakes (.png or .svg).")
    ] = None,
    views: Annotated[
        int,
        Option(
            metavar="1|5",
            help="5: embed each image also moved a little in four directions, and average the embeddings. Five times "
            "as slow.",
        ),
    ] = 1,
    data_root: DataRoot = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Score a network on classes that it was not trained on, with the paper's protocol.

    The test classes are divided at random into groups of WAY classes. Of each
    class, SHOT random images are supports, the examples that define the class.
    Its other images are queries. Such a task is also called an episode. The
    score is the share of queries that are assigned to the right class.
    """
    from gaussproto.data.load import load_data
    from gaussproto.data.views import check_views
    from gaussproto.evaluation import protocol
    from gaussproto.evaluation.sampled import QUERIES, usual_episodes
    from gaussproto.runs.folder import RunFolder, load_checkpoints, run_evaluation

    check_views(views)
    if challenge:
        given = {"ways": ways, "shots": shots, "rounds": rounds, "episodes": episodes, "data": data, "split": split}
        fixed = [f"--{name}" for name, value in given.items() if value is not None]
        fixed += ["--within-alphabet"] * within_alphabet + ["--norm"] * (norm != "running")
        fixed += ["--checkpoints"] * (checkpoints != "last")
        if fixed:
            raise InputError(f"--challenge has fixed questions: leave out {', '.join(fixed)}")
        return _challenge(target, picture, views, data_root, device, json)
    if picture is not None:
        raise InputError("--picture draws the mistakes of --challenge: pass both, or leave it out")
    given_ways, given_shots = ways and parse_numbers(ways, "ways"), shots and parse_numbers(shots, "shots")
    run = RunFolder(Path(target))
    loaded = load_checkpoints(target, checkpoints)
    networks = [checkpoint.network(device) for checkpoint in loaded]
    config = _data_for(loaded[0].config, data, split)
    with console.progress_bars() as bars:
        images = load_data(config.for_evaluation(), data_root, bars).test
        groups = given_ways or protocol.usual_ways(images), given_shots or protocol.usual_shots(images)
        if rounds is None and norm == "running" and not within_alphabet:
            episodes = usual_episodes(images) if episodes is None else episodes
        result = protocol.evaluate(
            networks,
            images,
            *groups,
            rounds=rounds,
            norm=norm,
            within_alphabet=within_alphabet,
            episodes=episodes,
            views=views,
            seed=seed,
            progress=bars,
        )
    if run.config.exists():
        try:
            run.write_evaluation(config.data, checkpoints, loaded, result, split)
        except InputError as error:
            console.say(f"warning: the scores are not saved: {error}")
    if json:
        evaluation = run_evaluation(target, config.data, checkpoints, loaded, result, split)
        return console.print_json(evaluation.model_dump(mode="json"))
    rows = [[f"{shot}-shot", *(result.score(way, shot).text() for way in result.ways)] for shot in result.shots]
    title = f"{target} on {config.data}: accuracy in %, {norm} statistics, {result.classes:,} test classes"
    title += ", groups within an alphabet" if within_alphabet else ""
    title += f", mean of {views} views" if views > 1 else ""
    console.print_table(title, ["", *(f"{way}-way" for way in result.ways)], rows, right=1)
    interval = "± is the 95 % interval over characters"
    std = "; std is the standard deviation over the checkpoints" if result.checkpoints > 1 else ""
    if result.sampled:
        over = ", ".join(
            f"{each.way}-way {each.shot}-shot ± {100 * (each.interval_episodes or 0):.2f}" for each in result.scores
        )
        return console.say(
            f"mean over {result.sampled:,} random episodes with {QUERIES} queries of each class; ± is the 95 % "
            f"interval over classes; over episodes, as most papers report it: {over}{std}"
        )
    groupings = f"mean over {result.rounds} random grouping{'s' * (result.rounds != 1)} of the classes"
    return console.say(f"{groupings}; {interval}{std}")


def _data_for(config: RunConfig, data: str | None, split: Path | None) -> DataConfig:
    """Return the data of the run, or other data with the same appearance (size, channels, ink)."""
    if data is None or _place(data) == _place(config.data.data):
        if split:
            raise InputError("--split is only for other data than the run's: name that data with --data")
        return config.data
    other = {"data": data, "split": split and str(split), "holdout": 0} | config.data.appearance()
    return config.override(**other).data


def _place(data: str) -> str | Path:
    return data if data in BUILT_IN else Path(data).resolve()


def _challenge(target: str, picture: Path | None, views: int, data_root: Path | None, device: str, json: bool) -> None:
    from gaussproto.data.challenge import load_challenge
    from gaussproto.evaluation.challenge import score_challenge
    from gaussproto.runs.folder import RunFolder, load_checkpoints

    if picture is not None and picture.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--picture must end in .png or .svg (found {picture}): change its name")
    loaded = load_checkpoints(target, "last")[0]
    with console.progress_bars() as bars:
        questions = load_challenge(loaded.config.data, data_root, bars)
        score = score_challenge(loaded.network(device), questions, views)
    run = RunFolder(Path(target))
    if run.config.exists():
        run.write_metrics(challenge=score)
    if picture is not None:
        _draw(score, questions, picture)
    if json:
        summary = {"target": target, "error": score.error, "interval": score.interval}
        return console.print_json(summary | score.model_dump(mode="json"))
    rows = sorted(
        [[target, f"{100 * score.error:.2f}"], *([name, f"{error:.2f}"] for name, error in PUBLISHED.items())],
        key=lambda row: float(row[1]),
    )
    console.print_table("Lake's one-shot challenge: error in %", ["", "error"], rows, right=1)
    by_run = ", ".join(map(str, score.wrong))
    seen = f", by the mean of {views} views" if views > 1 else ""
    console.say(
        f"{target}: {score.text()}, {sum(score.wrong)} of {score.questions} answers are wrong (by run: {by_run}). Each "
        f"image is classified independently{seen}. The other errors are those that their authors published."
    )
    return console.say(f"wrote {picture}") if picture else None


def _draw(score: ChallengeScore, questions: Challenge, path: Path) -> None:
    from gaussproto.figures.mistakes import draw_mistakes
    from gaussproto.figures.style import render
    from gaussproto.files import write_then_rename

    figure = draw_mistakes(
        [
            (
                f"run {each.run + 1}, question {each.question + 1}",
                questions.questions[each.run, each.question].numpy(),
                questions.examples[each.run, each.right].numpy(),
                questions.examples[each.run, each.chosen].numpy(),
            )
            for each in score.mistakes
        ]
    )
    form: Literal["svg", "png"] = "svg" if path.suffix.lower() == ".svg" else "png"
    with write_then_rename(path) as temporary:
        temporary.write_bytes(render(figure, form, "Mistakes in Lake's one-shot challenge"))
