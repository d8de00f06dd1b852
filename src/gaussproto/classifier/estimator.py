"""A scikit-learn classifier for people with a few labelled images, or vectors, of each class."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussproto.classifier.embedder import Embedder, Engine, find_embedder, takes_vectors
from gaussproto.classifier.gaussian import class_prototypes, distances, support_shares
from gaussproto.classifier.inputs import check_as_many, list_images, read_images, with_labels
from gaussproto.classifier.labels import as_array, check_among, classes_of, read_labels
from gaussproto.classifier.verdict import Verdict, check_sureness, judge
from gaussproto.config import Distance
from gaussproto.data.ink import Ink, with_bright_ink
from gaussproto.errors import InputError


class GaussianPrototypeClassifier(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Few-shot classification: each class is a Gaussian made of its examples, and the nearest class is the answer.

    .. math:: p_c = \frac{\sum_i s_i x_i}{\sum_i s_i} \qquad P(c \mid x) \propto \exp(-d(x, p_c) / T)

    Nothing is trained: the network embeds the examples, and those of low precision count for less. Images are arrays,
    PIL images, paths of files, or a folder (of `CLASS/IMAGE` files where labels are needed); grey or colour, any size.

    Args:
        encoder: what embeds: the name of bundled weights, a weights file, a run folder, an ONNX file, a network object,
            or `identity` for inputs that are feature vectors already.
        ink: `dark` ink on a light ground, `bright` on a dark one, `detect` for each image by itself; `auto` is what the
            weights were trained for: detection, or for weights trained on a folder its own setting.
        image_size: side in pixels that images are brought to; that of the weights if not given.
        distance: the name of the distance; that of the weights if not given.
        temperature: T, by which distances are divided to give probabilities; if not given, what `gaussproto calibrate`
            has found for the weights, or 1.
        reject: the share of images of known classes that may be called unknown, such as 0.05; `predict` then gives None
            for an image that is far from every class. If not given, every image gets a class.
        engine: what computes the network, `torch` or `onnx`; if not given, onnxruntime for an ONNX file, else torch.

    Attributes:
        classes_: (C,) the labels, sorted if they sort.
        prototypes_: (C, D).
        precisions_: (C, E) the sum of the examples' precisions, or None if the encoder gives none.
        example_weights_: (N,) the share that each example has in its prototype; those of a class add up to 1.
        example_labels_, example_names_: (N,) the label of each example, and its file if it came from one.
        example_embeddings_, example_precisions_: (N, D), and (N, E) or None.

    >>> X = [[0.0, 0.0], [0.2, 0.0], [5.0, 5.0]]
    >>> clf = GaussianPrototypeClassifier("identity").fit(X, ["near", "near", "far"])
    >>> clf.predict([[1.0, 1.0]]).tolist(), clf.example_weights_.tolist()
    (['near'], [0.5, 0.5, 1.0])
    """

    def __init__(
        self,
        encoder: Any = "omniglot-small",
        *,
        ink: Ink = "auto",
        image_size: int | None = None,
        distance: Distance | None = None,
        temperature: float | None = None,
        reject: float | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.encoder = encoder
        self.ink = ink
        self.image_size = image_size
        self.distance = distance
        self.temperature = temperature
        self.reject = reject
        self.engine = engine

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if not takes_vectors(self.encoder):
            tags.input_tags.two_d_array = False
            tags.input_tags.three_d_array = tags.input_tags.string = True
            tags.no_validation = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the classes of these examples and no others. Without labels X is a folder of `CLASS/IMAGE` files."""
        with self._all_or_nothing():
            self._find_embedder()
            x, s, labels, names = self._read_examples(X, y, reset=True)
            self._settle(x, s, labels, names)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Learn more examples, of classes that are there or of new ones.

        `classes` is not needed; if it is given, other labels are refused.
        """
        fitted = hasattr(self, "classes_")
        with self._all_or_nothing():
            if not fitted:
                self._find_embedder()
            x, s, labels, names = self._read_examples(X, y, reset=not fitted)
            if classes is not None:
                check_among(labels, read_labels(classes))
            if fitted:
                x = np.concatenate([self.example_embeddings_, x])
                s = None if s is None else np.concatenate([self.example_precisions_, s])
                labels = [*self.example_labels_.tolist(), *labels]
                names = [*self.example_names_, *names]
            self._settle(x, s, labels, names)
        return self

    def forget(self, label: Hashable) -> Self:
        """Drop a class with all its examples."""
        check_is_fitted(self)
        known = self.classes_.tolist()
        (label,) = read_labels([label])
        if label not in known:
            near = difflib.get_close_matches(str(label), map(str, known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {len(known)} others"
            raise InputError(f"there is no class {label!r} to forget: {hint}")
        keep = [i for i, other in enumerate(self.example_labels_.tolist()) if other != label]
        s = self.example_precisions_
        labels = self.example_labels_[keep].tolist()
        names = [self.example_names_[i] for i in keep]
        self._settle(self.example_embeddings_[keep], None if s is None else s[keep], labels, names)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(N,) the label of the nearest class; with `reject` an array of objects, None where an image is unknown."""
        verdict = self.judge(X)
        labels: np.ndarray = self.classes_[verdict.distances.argmin(axis=1)]
        if verdict.limits is not None:
            labels = labels.astype(object)
            labels[verdict.unknown] = None
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C) the probability of each class, in the order of `classes_`."""
        return self.judge(X).probabilities

    def judge(self, X: Any) -> Verdict:
        """Distances, probabilities and whether it is unknown of each image, embedded once."""
        return judge(self, self._distances(X))

    def explain(self, X: Any, path: Path | str, top: int = 3) -> list[Path]:
        """Draw each image with its nearest classes and what their examples counted for; the files that were written.

        `path` is a .png or .svg file; of several images each gets its own, with the image's name or number added.
        """
        from gaussproto.classifier.explain import explain

        check_is_fitted(self)
        return explain(self, X, Path(path), top)

    def decision_function(self, X: Any) -> np.ndarray:
        """(N, C) minus the distance to each class; of two classes, (N,): how much nearer the second is."""
        d = self._distances(X)
        return d[:, 0] - d[:, 1] if d.shape[1] == 2 else -d

    def transform(self, X: Any) -> np.ndarray:
        """(N, D) embeddings."""
        check_is_fitted(self)
        return self._embed(X)[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of images that get their own label. Without labels X is a folder of `CLASS/IMAGE` files."""
        check_is_fitted(self)
        X, labels = with_labels(X, y)
        found = self.predict(X).tolist()
        check_as_many(len(found), labels)
        return float(np.average([a == b for a, b in zip(found, labels, strict=True)], weights=sample_weight))

    def save(self, path: Path | str) -> None:
        """Write a gallery file: the classes, the examples' embeddings, and which weights they were made with."""
        from gaussproto.classifier.gallery import save

        check_is_fitted(self)
        save(self, Path(path))

    def restore(
        self,
        embedder: Embedder,
        x: np.ndarray,
        s: np.ndarray | None,
        labels: Sequence[Hashable],
        names: Sequence[str],
    ) -> Self:
        """Fit to examples that are embedded already, by this embedder; what a gallery holds."""
        with self._all_or_nothing():
            self.embedder_ = embedder
            self._settle(x, s, labels, names)
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.prototypes_.shape[1])

    @property
    def measured_by(self) -> tuple[Distance, bool]:
        """The name of the distance, and whether the class's precision is the metric around its prototype."""
        in_distance = self.precisions_ is not None and self.embedder_.weighting == "prototype_and_distance"
        return self.distance or self.embedder_.distance, in_distance

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If anything fails within, nothing has changed; what is fitted is replaced, never written into."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _find_embedder(self) -> None:
        """What this classifier embeds with from now on, whatever its parameters become."""
        embedder = find_embedder(self.encoder, self.engine)
        for name, kind in (("ink", Ink), ("distance", Distance)):
            value = getattr(self, name)
            if value not in get_args(kind) and not (name == "distance" and value is None):
                raise InputError(f"{name} must be one of {', '.join(get_args(kind))} (found {value!r})")
        check_sureness(self.temperature, self.reject)
        size, smallest = self.image_size, embedder.smallest_image
        if size is not None and not (isinstance(size, Integral) and size >= smallest):
            raise InputError(f"image_size must be a whole number from {smallest} on (found {size!r})")
        ink = embedder.ink if self.ink == "auto" else self.ink
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of vectors that an earlier fit had; images have none
        self.embedder_ = replace(embedder, image_size=int(size or embedder.image_size), ink=ink)

    def _read_examples(
        self, X: Any, y: Any, reset: bool
    ) -> tuple[np.ndarray, np.ndarray | None, list[Hashable], list[str]]:
        X, labels = with_labels(X, y)
        x, s, names = self._embed(X, reset)
        check_as_many(len(x), labels)
        return x, s, labels, names

    def _embed(self, X: Any, reset: bool = False) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
        """x (N, D), s (N, E) or None, and the file of each."""
        embedder: Embedder = self.embedder_
        if embedder.takes_vectors:
            if isinstance(X, str | Path) or (isinstance(X, list) and X and isinstance(X[0], str | Path)):
                raise InputError("this encoder takes vectors, not images: name weights that take images")
            vectors = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            wanted = embedder.features or vectors.shape[1]
            if vectors.shape[1] != wanted:
                raise InputError(f"the head takes vectors of {wanted} numbers (found {vectors.shape[1]})")
            return *embedder.embed(vectors), [""] * len(vectors)
        images, names = list_images(X)
        pixels = with_bright_ink(read_images(images, embedder.image_size, embedder.channels), embedder.ink)
        return *embedder.embed(pixels), names

    def _settle(self, x: np.ndarray, s: np.ndarray | None, labels: Sequence[Hashable], names: Sequence[str]) -> None:
        """Make the classes of these examples; nothing is changed before all is known to be right."""
        classes = classes_of(labels)
        if len(classes) < 2:
            raise InputError(
                f"a classifier needs two classes or more, and here is only one class ({classes[0]!r}): add another"
            )
        position = {label: c for c, label in enumerate(classes)}
        index = np.array([position[label] for label in labels])
        s_all = None if s is None else s.astype(np.float64)
        p, s_class = class_prototypes(x.astype(np.float64), s_all, index, len(classes))
        if not np.isfinite(p).all():
            raise InputError("the embeddings of these examples are too large to be averaged: scale them down")
        self.classes_ = as_array(classes)
        self.prototypes_ = p
        self.precisions_ = s_class
        self.example_weights_ = support_shares(s_all, s_class, index)
        self.example_labels_ = as_array(labels)
        self.example_names_ = list(names)
        self.example_embeddings_ = x
        self.example_precisions_ = s

    def _distances(self, X: Any) -> np.ndarray:
        """(N, C) in float64, so that an answer does not depend on what else is asked."""
        check_is_fitted(self)
        x, _, _ = self._embed(X)
        distance, in_distance = self.measured_by
        d = distances(
            x.astype(np.float64),
            self.prototypes_,
            self.precisions_ if in_distance else None,
            distance,
        )
        if not np.isfinite(d).all():
            raise InputError("what was given is too far away for its distances to be numbers: scale it down")
        return d
