"""Wrong labels and damaged supports: what each rule for prototypes makes of them, with any network and any data.

    python -m benchmarks.noise drawings-small                    # all rules, one network
    python -m benchmarks.noise runs/weighted --against runs/vanilla --data FOLDER
    python -m benchmarks.noise runs/photos --gain sharing --rounds 100

`gaussproto reproduce noise` measures more, for the networks of the study.
"""

from functools import partial
from pathlib import Path

from benchmarks.command import parser, run
from gaussproto.data.load import load_data
from gaussproto.evaluation.noise import RULES, noise_accuracies, rules_of
from gaussproto.formulas.interval import student_interval
from gaussproto.paper.noise import LABELS, SHOT, plan_study
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.metrics import score_text
from gaussproto.runs.weights import weights_file


def main() -> None:
    command = parser(__doc__)
    command.add_argument("weights", help="bundled weights, a run folder or a weights file")
    command.add_argument("--against", metavar="WEIGHTS", help="a network whose plain mean is the baseline")
    command.add_argument("--data", help="other data than that of the weights")
    command.add_argument("--holdout", type=int, default=0, help="held-out training alphabets instead of the test ones")
    command.add_argument("--gain", metavar="RULE", choices=RULES, default="agreement", help="whose gain is shown")
    command.add_argument("--rounds", type=int, help="how often the classes are divided into episodes")
    options = command.parse_args()
    checkpoint = load_checkpoint(Path(weights_file(options.weights)))
    changes = {"data": options.data} if options.data else {}
    config = checkpoint.config.data.model_copy(update={"holdout": options.holdout, "variants": 0, **changes})
    plan = plan_study(load_data(config).test)
    (part,) = (part for part in plan.parts if part.name == LABELS)
    network = checkpoint.network().eval()
    measure = partial(noise_accuracies, way=plan.way, shot=SHOT, rounds=options.rounds)
    mine = measure(network, part.images, part.conditions)
    other = mine
    if options.against:
        against = load_checkpoint(Path(weights_file(options.against))).network().eval()
        other = measure(against, part.images, part.conditions)
    print(f"{part.images}; {plan.way}-way {SHOT}-shot; baseline: plain mean of {options.against or options.weights}")
    print(
        f"{'supports':44s}"
        + "".join(f"{rule:>15s}" for rule in ("baseline", *rules_of(network)))
        + f"   gain of {options.gain}"
    )
    for condition, found, base in zip(part.conditions, mine, other, strict=True):
        gain = 100 * (found[options.gain] - base["plain mean"])
        cells = [base["plain mean"], *found.values()]
        text = "".join(f"{100 * cell.mean():15.2f}" for cell in cells)
        print(f"{condition.text(SHOT):44s}{text}   {score_text(gain.mean(), student_interval(gain), sign='+')}")
    for reason in plan.left_out:
        print(f"left out: {reason}")


if __name__ == "__main__":
    run(main)
