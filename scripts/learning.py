"""Write the data of "how it learned" in the studio: `python scripts/learning.py runs/learning`.

The run is made by `gaussproto train demo --snapshots 12 --out runs/learning`. The same drawings of test characters are
embedded by the untrained network and by each snapshot. Each one is projected to its own principal plane.
"""

import argparse
import base64
import json
from pathlib import Path

import numpy as np
import torch

import gaussproto as gp
from gaussproto.evaluation.views import principal_plane
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder

OUT = Path(__file__).resolve().parents[1] / "src" / "gaussproto" / "serving" / "static" / "learning.json"
CLASSES, SHOTS = 8, 6  # characters, and drawings of each
WAY, SHOT = 20, 1
BOX = np.array([1000, 680])  # width and height of the picture


def untrained(config: gp.RunConfig) -> gp.GaussianPrototypicalNetwork:
    """The network before its first episode, with the weights that the run's seed gives."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.training.seed)
        return gp.GaussianPrototypicalNetwork(config.network)


def turn_to(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Rotate or reflect points (N, 2) so that they are nearest to the target (orthogonal Procrustes)."""
    u, _, v = np.linalg.svd(points.T @ target)
    return points @ u @ v


def pixels(drawing: np.ndarray) -> str:
    """Four bits for each pixel."""
    levels = (drawing.astype(int).ravel() + 8) // 17
    return base64.b64encode(((levels[::2] << 4) | levels[1::2]).astype(np.uint8).tobytes()).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of characters")
    arguments = parser.parse_args()
    checkpoints = [load_checkpoint(path) for path in RunFolder(arguments.run).snapshots()]
    config = checkpoints[-1].config
    test = gp.load_data(config.data.model_copy(update={"rotations": False})).test
    drawn = gp.sample_episode(test, CLASSES, SHOTS, torch.Generator().manual_seed(arguments.seed)).flatten(0, 1)
    networks = [(0, untrained(config)), *((c.position.episode, c.network()) for c in checkpoints)]
    planes, snapshots = [], []
    for episodes, network in networks:
        x = gp.embed_all(network, drawn).x.double().numpy()
        planes.append(principal_plane(x).project(x))
        score = gp.evaluate(network, test, ways=WAY, shots=SHOT, rounds=3).score(WAY, SHOT)
        snapshots.append({"episodes": episodes, "accuracy": round(float(score.accuracy), 4)})
        print(f"{episodes} episodes: {score.accuracy:.4f}", flush=True)
    for i in reversed(range(len(planes) - 1)):
        planes[i] = turn_to(planes[i], planes[i + 1])
    for snapshot, plane in zip(snapshots, planes, strict=True):
        middle = (plane.min(axis=0) + plane.max(axis=0)) / 2
        scaled = BOX / 2 + (plane - middle) * (BOX / np.ptp(plane, axis=0)).min()
        snapshot["points"] = scaled.round().astype(int).tolist()
    data = {
        "command": f"gaussproto train demo --snapshots {len(checkpoints)}",
        "classes": CLASSES, "shots": SHOTS, "way": WAY, "shot": SHOT,
        "drawings": [pixels(image[0].numpy()) for image in drawn],
        "snapshots": snapshots,
    }  # fmt: skip
    OUT.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
