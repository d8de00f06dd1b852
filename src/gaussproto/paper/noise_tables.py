"""Tables of the study of bad examples."""

from collections import Counter

from gaussproto.data.corrupt import CORRUPTIONS, SEVERITIES
from gaussproto.evaluation.noise import Rule
from gaussproto.paper.noise import AIMS, CORRUPTED, WRONG
from gaussproto.paper.noise_scores import SEVERAL, VANILLA, WEIGHTED
from gaussproto.runs.metrics import score_text
from gaussproto.runs.noise import Condition, NoiseDifference, NoiseStudy
from gaussproto.table import Table

NOT_MEASURED = "-"
NAMES = {
    "small-none": "vanilla",
    "small-radius": "the paper's radius",
    "small-diagonal": "the paper's diagonal",
    "small-several": "vanilla, some damage in training",
    "small-weighted": "ours, the same damage",
}
SEVERITY_RULES: dict[str, Rule] = {
    "small-none": "plain mean",
    "small-radius": "weighted mean",
    "small-diagonal": "weighted mean",
    "small-several": "plain mean",
    "small-weighted": "weighted mean",
}
HALVES: dict[str, tuple[str, Rule]] = {
    "vanilla": (SEVERAL, "plain mean"),
    "precision alone": (WEIGHTED, "weighted mean"),
    "agreement alone": (SEVERAL, "agreement"),
    "both": (WEIGHTED, "agreement"),
}
DIFFERENCES = {
    "paper, radius": "the paper's radius minus vanilla",
    "paper, diagonal": "the paper's diagonal minus vanilla",
    "ours, precision": "our precision minus vanilla, the same damage",
}


def noise_tables(study: NoiseStudy) -> list[Table]:
    """Return the tables of the study. Empty ones are left out."""
    made = (_aims(study), _wrong_labels(study), _gains(study), _by_severity(study, False), _by_severity(study, True))
    return [table for table in made if table.rows]


def study_text(study: NoiseStudy) -> str:
    """Return how to read the tables."""
    return (
        f"Accuracy in %, {study.way}-way with {study.shot} supports, {study.characters[0]:,} test classes of "
        f"{study.data} ({study.characters[1]:,} for corruptions), running statistics, {seeds_text(study)}. In "
        "differences, ± is the 95 % interval over the test classes, then over the seeds (Student's t). All columns are "
        "from the same episodes."
    )


def seeds_text(study: NoiseStudy) -> str:
    """Return over how many seeds the results are means, and which networks have fewer."""
    counts = Counter(network.run for network in study.networks)
    most = max(counts.values())
    fewer = [f"{NAMES[name]} {count}" for name, count in counts.items() if count < most]
    text = f"mean over {most} seed{'s' * (most > 1)}"
    return f"{text} ({', '.join(fewer)})" if fewer else text


def supports_text(condition: Condition) -> str:
    """Return what is wrong with the supports, as the pages say it."""
    parts = [
        f"{condition.wrong} wrong"
        + {"swap": "", "pair": ", of one class", "outlier": ", from outside"}[condition.source]
    ]
    parts = parts if condition.wrong else []
    parts += [f"{condition.corrupted} damaged"] if condition.corrupted else []
    return ", ".join(parts) or "all good"


def difference_text(difference: NoiseDifference | None) -> str:
    """Return a difference in points, with its interval over characters and then over seeds."""
    if difference is None:
        return NOT_MEASURED
    interval = None if difference.interval is None else 100 * difference.interval
    text = score_text(100 * difference.difference, interval, sign="+")
    return text + ("" if difference.over_seeds is None else f", ± {100 * difference.over_seeds:.2f}")


def _accuracy(study: NoiseStudy, network: str, rule: Rule, condition: Condition) -> str:
    score = study.score(network, rule, condition)
    return NOT_MEASURED if score is None else f"{100 * score.accuracy:.2f}"


def _aims(study: NoiseStudy) -> Table:
    rows = []
    for condition, aim in AIMS.items():
        cells = [_accuracy(study, network, rule, condition) for network, rule in HALVES.values()]
        gain = study.difference("ours", condition)
        if gain is not None:
            aimed = "" if aim is None else f"{aim:+.2f}"
            rows.append((supports_text(condition), *cells, difference_text(gain), aimed))
    columns = (f"of the {study.shot} supports", *HALVES, "both minus vanilla", "aim")
    return Table("noise", "One setting for all", columns, tuple(rows), study_text(study), labels=1)


def _wrong_labels(study: NoiseStudy) -> Table:
    shown: tuple[tuple[str, Rule], ...] = (
        (VANILLA, "plain mean"), (VANILLA, "median"), (VANILLA, "agreement"), (WEIGHTED, "plain mean"),
        (WEIGHTED, "weighted mean"), (WEIGHTED, "median"), (WEIGHTED, "agreement"),
    )  # fmt: skip
    rows = []
    for condition in (Condition(), *WRONG):
        cells = [_accuracy(study, network, rule, condition) for network, rule in shown]
        share = f"{100 * condition.wrong // study.shot} %"
        if set(cells) != {NOT_MEASURED}:
            rows.append((share, condition.source if condition.wrong else "", *cells))
    short = {VANILLA: "vanilla", WEIGHTED: "ours"}
    columns = ("wrong", "from", *(f"{short[network]}: {rule}" for network, rule in shown))
    return Table("noise", "Wrong labels", columns, tuple(rows), study_text(study))


def _gains(study: NoiseStudy) -> Table:
    conditions = {
        f"{condition.wrong} of {study.shot} wrong": condition for condition in WRONG if condition.source == "swap"
    }
    names = ("all", *CORRUPTIONS)
    conditions |= {f"supports: {name}": Condition(corruption=name, corrupted=CORRUPTED) for name in names}
    conditions |= {f"queries: {name}": Condition(corruption=name, queries=True) for name in names}
    rows = []
    for name, condition in ({"all good": Condition()} | conditions).items():
        cells = [difference_text(study.difference(comparison, condition)) for comparison in DIFFERENCES]
        if set(cells) != {NOT_MEASURED}:
            rows.append((name, *cells))
    title = "Does the precision pay on noisy data?"
    note = f"{study_text(study)} Corruptions: mean over five severities, {CORRUPTED} of the supports or all queries."
    return Table("noise", title, ("what is bad", *DIFFERENCES.values()), tuple(rows), note, labels=1)


def _by_severity(study: NoiseStudy, queries: bool) -> Table:
    rows = []
    for name in CORRUPTIONS:
        for network, rule in SEVERITY_RULES.items():
            on = {"queries": True} if queries else {"corrupted": CORRUPTED}
            each = [Condition(corruption=name, severity=n, **on) for n in SEVERITIES]
            cells = [_accuracy(study, network, rule, condition) for condition in each]
            if set(cells) != {NOT_MEASURED}:
                rows.append((name, NAMES[network], *cells))
    what = "all queries" if queries else f"{CORRUPTED} of {study.shot} supports"
    columns = ("corruption", "network", *(f"severity {n}" for n in SEVERITIES))
    kind = "queries" if queries else "supports"
    return Table("noise", f"Corrupted {kind}: {what}", columns, tuple(rows), study_text(study))
