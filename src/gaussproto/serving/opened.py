"""A gallery in memory: its examples, its classifiers, and what they answer."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussproto.classifier.confidence import Confidence, Weights
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.estimator import GaussianPrototypeClassifier
from gaussproto.classifier.examples import Weighing
from gaussproto.classifier.inputs import Images
from gaussproto.errors import InputError
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.trust import PrototypeParameter
from gaussproto.serving.models import (
    Answer,
    Answers,
    ClassAnswer,
    ClassPoint,
    ClassWithExamples,
    ExampleOut,
    GalleryOut,
    Neighbour,
    PlaneOut,
    Point,
)
from gaussproto.serving.rows import ConflictError
from gaussproto.serving.store import Stored

if TYPE_CHECKING:
    from gaussproto.evaluation.views import Plane

CIRCLE, CROWD = 0.17, 0.45  # of the width of the plane: the diameter of the median circle, at most and for one example


class OpenedGallery:
    """One version of a gallery. It never changes, so several threads may use it.

    Args:
        stored: the gallery as it is in the store.
        encoder: its encoder.
    """

    def __init__(self, stored: Stored, encoder: Encoder) -> None:
        self.stored, self.encoder = stored, encoder
        self.version: int = stored.gallery.version
        # Examples that other weights embedded cannot be compared. Without an image they cannot be embedded again.
        self.known = [row for row in stored.examples if row.digest == encoder.digest]
        self._classifiers: dict[Weights, GaussianPrototypeClassifier] = {}
        self._lock = Lock()

    @property
    def stale(self) -> int:
        """The number of examples that cannot be used."""
        return len(self.stored.examples) - len(self.known)

    @cached_property
    def class_names(self) -> dict[str, str]:
        return {row.id: row.name for row in self.stored.classes}

    @cached_property
    def class_ids(self) -> dict[str, str]:
        return {name: class_id for class_id, name in self.class_names.items()}

    @cached_property
    def embedded(self) -> Embedded[np.ndarray]:
        """The embeddings (N, D) and precisions of the examples."""
        x = np.stack([np.frombuffer(row.x, "<f4") for row in self.known]).astype(np.float32)
        if any(row.s is None for row in self.known):
            return Embedded(x)
        s = np.stack([np.frombuffer(row.s, "<f4") for row in self.known]).astype(np.float32)
        D = x.shape[1]
        return Embedded(x, s.reshape(-1, D, D) if s.shape[1] == D * D > D else s)

    def is_fitted(self, weights: Weights) -> bool:
        return weights in self._classifiers

    def classifier(self, weights: Weights) -> GaussianPrototypeClassifier:
        """Return the fitted classifier. Raise ConflictError if the gallery has too few classes."""
        with self._lock:
            if weights not in self._classifiers:
                self._classifiers[weights] = self._fitted(weights)
            return self._classifiers[weights]

    def _fitted(self, weights: Weights) -> GaussianPrototypeClassifier:
        labels = [self.class_names[getattr(row, "class")] for row in self.known]
        if len(set(labels)) < 2:
            old = f"; {self.stale} examples without an image were made with other weights" if self.stale else ""
            found = f"found {len(set(labels))}{old}"
            raise ConflictError(f"a gallery needs two classes with examples to classify ({found}): add examples")
        parameters = self.stored.parameters
        clf = GaussianPrototypeClassifier(
            self.stored.gallery.encoder,
            ink=self.encoder.ink,
            prepare=self.encoder.prepare,
            image_size=parameters.get("image_size"),
            distance=parameters.get("distance"),
            temperature=parameters.get("temperature"),
            reject=self.stored.gallery.reject,
            weights=weights,
            prototype=_prototype(weights),
        )
        names = [row.name for row in self.known]
        clf.restore(self.encoder, self.embedded, labels, names)
        try:
            clf.confidence_of(self.embedded[:1], Images.none(1))
        except InputError:  # too few examples for thresholds, and weights without a calibration: nothing is unknown
            clf.set_params(reject=None)
        return clf

    @cached_property
    def _precisions(self) -> np.ndarray | None:
        return geometric_means(self.embedded.s)

    def _weighted(self, weights: Weights) -> tuple[list[str], Embedded[np.ndarray], np.ndarray]:
        """Return the ids of the classes with examples, their prototypes, and the share of each example."""
        of_example = [getattr(row, "class") for row in self.known]
        ids = [row.id for row in self.stored.classes if row.id in set(of_example)]
        if not ids:
            return [], Embedded(np.empty((0, 1))), np.empty(0)
        place = {class_id: c for c, class_id in enumerate(ids)}
        index = np.array([place[class_id] for class_id in of_example])
        distance = self.stored.parameters.get("distance") or self.encoder.distance
        in_distance = self.encoder.weighting == "prototype_and_distance"
        weighing = Weighing(weights == "uniform", _prototype(weights), distance, in_distance)
        prototypes, trust = weighing(self.embedded, index, len(ids))
        return ids, prototypes, weighing.shares(self.embedded, trust, prototypes.s, index)

    def whole(self, weights: Weights) -> GalleryOut:
        """Return the gallery with all classes and examples."""
        row = self.stored.gallery
        of_class: dict[str, list[ExampleOut]] = {each.id: [] for each in self.stored.classes}
        for example in self.examples(weights).values():
            of_class[example.class_id].append(example)
        listed = [
            ClassWithExamples.model_construct(id=each.id, name=each.name, examples=of_class[each.id])
            for each in self.stored.classes
        ]
        return GalleryOut(
            id=row.id, name=row.name, encoder=row.encoder, reject=row.reject, version=row.version, changed=row.changed,
            classes=listed,
        )  # fmt: skip

    def examples(self, weights: Weights) -> dict[str, ExampleOut]:
        """Return the examples by id."""
        shares = {row.id: i for i, row in enumerate(self.known)}
        _, _, share = self._weighted(weights)
        precisions = self._precisions if self.known else None
        found = {}
        for row in self.stored.examples:
            i = shares.get(row.id)
            found[row.id] = ExampleOut.model_construct(
                id=row.id,
                name=row.name,
                class_id=getattr(row, "class"),
                has_image=row.has_image,
                damage=row.damage,
                weight=0.0 if i is None else float(share[i]),
                precision=None if i is None or precisions is None else float(precisions[i]),
                blank=row.blank,
            )
        return found

    def answers(
        self, names: list[str], blank: np.ndarray, embedded: Embedded[np.ndarray], weights: Weights, top: int,
        nearest: int, plane: bool,
    ) -> Answers:  # fmt: skip
        """Return what the classifier says about embedded images (N,)."""
        clf = self.classifier(weights)
        found = clf.confidence_of(embedded, Images.none(len(names))._replace(names=names, blank=blank))
        labels = clf.classes_.tolist()
        near, order = self._near(embedded.x, nearest)
        precisions = geometric_means(embedded.s)
        points = self.plane.project(embedded.x.astype(np.float64)) if plane else None
        return Answers.model_construct(
            version=self.version,
            answers=[
                Answer.model_construct(
                    name=names[i],
                    blank=bool(blank[i]),
                    unknown=bool(found.unknown[i]),
                    answer=None if blank[i] or found.unknown[i] else labels[int(found.distances[i].argmin())],
                    classes=self._ranked(found, i, labels, top),
                    nearest=[
                        Neighbour.model_construct(
                            id=self.known[j].id, class_id=getattr(self.known[j], "class"), distance=float(near[i, j])
                        )
                        for j in order[i]
                    ],
                    precision=None if precisions is None else float(precisions[i]),
                    point=None if points is None else (float(points[i, 0]), float(points[i, 1])),
                )
                for i in range(len(names))
            ],
        )

    def _ranked(self, found: Confidence, i: int, labels: list[str], top: int) -> list[ClassAnswer]:
        return [
            ClassAnswer.model_construct(
                id=self.class_ids[labels[c]],
                name=labels[c],
                probability=float(found.probabilities[i, c]),
                distance=float(found.distances[i, c]),
                threshold=found.threshold(i, c),
            )
            for c in found.distances[i].argsort(kind="stable")[:top].tolist()
        ]

    def _near(self, x: np.ndarray, count: int) -> tuple[np.ndarray, list[list[int]]]:
        """Return the distances (N, examples) to all examples, and the indices of the nearest."""
        if not count:
            return np.empty((len(x), 0)), [[] for _ in x]
        distance = find_distance(self.stored.parameters.get("distance") or self.encoder.distance)
        d = np.asarray(distance.value(x.astype(np.float64), self.embedded.x.astype(np.float64), None))
        return d, d.argsort(axis=1, kind="stable")[:, :count].tolist()

    @cached_property
    def plane(self) -> Plane:
        """The plane in which the examples vary most."""
        if not self.known:
            raise ConflictError("the gallery has no examples, so there is no plane: add an example")
        from gaussproto.evaluation.views import principal_plane  # imports torch, which the model thread does meanwhile

        return principal_plane(self.embedded.x)

    def on_plane(self, weights: Weights) -> PlaneOut:
        """Return the examples and the prototypes in the plane, with the radius of each."""
        if not self.known:
            return PlaneOut(version=self.version, share=(0.0, 0.0), unit=0.0, examples=[], classes=[])
        places = self.plane.project(self.embedded.x.astype(np.float64))
        ids, prototypes, _ = self._weighted(weights)
        middles = self.plane.project(prototypes.x)
        radii = _radii(None if weights == "uniform" else self.embedded.s, len(places))
        shots = np.array([sum(getattr(row, "class") == class_id for row in self.known) for class_id in ids])
        class_radii = 1 / np.sqrt(shots) if prototypes.s is None else _radii(prototypes.s, len(ids))
        width = float(np.ptp(np.concatenate([places, middles]), axis=0).max()) or 1.0
        examples = [
            Point.model_construct(id=row.id, class_id=getattr(row, "class"), x=float(x), y=float(y), radius=float(r))
            for row, (x, y), r in zip(self.known, places, radii, strict=True)
        ]
        classes = [
            ClassPoint.model_construct(id=c, name=self.class_names[c], x=float(x), y=float(y), radius=float(r))
            for c, (x, y), r in zip(ids, middles, class_radii, strict=True)
        ]
        unit = min(CIRCLE, CROWD / len(places) ** 0.5) * width / (2 * float(np.median(radii)))
        share = self.plane.share
        return PlaneOut(version=self.version, share=share, unit=unit, examples=examples, classes=classes)


def _prototype(weights: Weights) -> PrototypeParameter:
    """Return the rule for prototypes. The vanilla network on the page takes plain means."""
    return "mean" if weights == "uniform" else "auto"


def _radii(s: np.ndarray | None, N: int) -> np.ndarray:
    precisions = geometric_means(s)
    return np.ones(N) if precisions is None else np.asarray(1 / np.sqrt(precisions))


def geometric_means(s: Any) -> np.ndarray | None:
    """Return the geometric mean (N,) of precisions (N, E), or of the eigenvalues of precisions (N, D, D)."""
    if s is None:
        return None
    s = s.astype(np.float64)
    log = np.linalg.slogdet(s)[1] / s.shape[1] if s.ndim == 3 else np.log(s).mean(axis=1)
    return np.asarray(np.exp(log))
