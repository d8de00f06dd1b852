"""Add the low precision to the calibration of bundled weights that were bundled without one:

python scripts/recalibrate.py drawings-small drawings-big

The network itself measures, on Omniglot's training alphabets, which precision 5 % of the known images fall short of, and by
how much the thresholds of distances that low precisions enlarge exceed those of plain distances. The thresholds of the file,
which come from a twin, are multiplied by that. `scripts/bundle.py` needs no such step: it takes both from the twin.
"""

import sys

import numpy as np

from gaussproto.arrays import read_arrays
from gaussproto.data.load import load_data
from gaussproto.evaluation import calibrate as module
from gaussproto.files import read_json, write_json
from gaussproto.formulas import confidence
from gaussproto.pretrained import FOLDER, bundled
from gaussproto.runs.folder import load_network
from gaussproto.runs.weights import open_weights, write_calibration

CLASSES = 241  # upright characters of the training alphabets, evenly chosen


def main() -> None:
    checksums = read_json(FOLDER / "checksums.json")
    for name in sys.argv[1:]:
        path = bundled(name)
        assert path is not None
        file = open_weights(path)
        before = file.calibration
        assert before is not None
        train = load_data(file.run.data.for_evaluation().model_copy(update={"rotations": False, "variants": 0})).train
        train = train.select(range(0, train.way, max(1, train.way // CLASSES)))
        network = load_network(name).eval()
        enlarged = module.calibrate(network, train, held_out=False)
        low, plain = enlarged.low_precision, plain_thresholds(network, train)
        ratios = np.array(enlarged.thresholds) / plain
        thresholds = tuple((np.array(before.thresholds) * ratios).tolist())
        write_calibration(path, before.model_copy(update={"thresholds": thresholds, "low_precision": low}))
        checksums[name] = read_arrays(path, "weights file").checksum
        write_json(FOLDER / "checksums.json", dict(sorted(checksums.items())))
        print(f"{name}: low precision {low:.3f}, thresholds times {ratios.min():.3f} to {ratios.max():.3f}")


def plain_thresholds(network: object, images: object) -> np.ndarray:
    """Return the thresholds of plain distances, measured in the same episodes."""
    share, confidence.EXPONENT = confidence.EXPONENT, 0.0
    try:
        return np.array(module.calibrate(network, images, held_out=False).thresholds)  # type: ignore[arg-type]
    finally:
        confidence.EXPONENT = share


if __name__ == "__main__":
    main()
