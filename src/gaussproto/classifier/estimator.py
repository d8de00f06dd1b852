"""A scikit-learn classifier for people with a few labelled images, or vectors, of each class."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussproto.classifier.confidence import Confidence, check_parameters, class_thresholds, is_unknown, temperature_of
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.encoders.find import Engine, InkParameter, find_encoder, takes_vectors
from gaussproto.classifier.examples import Examples
from gaussproto.classifier.explain import check_picture, draw_answers
from gaussproto.classifier.gallery import settings_of, write_gallery
from gaussproto.classifier.inputs import check_as_many, list_images, read_images, with_labels
from gaussproto.data.labels import as_array, check_among, read_labels
from gaussproto.data.picture import with_bright_ink
from gaussproto.errors import InputError, did_you_mean, restored_on_error
from gaussproto.formulas.confidence import probabilities
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded


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
        image_size: side in pixels that images are resized to; that of the weights if not given.
        distance: the name of the distance; that of the weights if not given.
        temperature: T, by which distances are divided to give probabilities; if not given, what `gaussproto calibrate`
            has found for the weights, or 1.
        reject: the share of known images that you accept losing, such as 0.05; `predict` then returns None for an image
            that is far from every class. If not given, every image gets a class.
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
        ink: InkParameter = "auto",
        image_size: int | None = None,
        distance: str | None = None,
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
        return self._learn(None, X, y)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Learn more examples, of known classes or of new ones; if `classes` is given, other labels are refused."""
        return self._learn(getattr(self, "_examples", None), X, y, classes)

    def forget(self, label: Hashable) -> Self:
        check_is_fitted(self)
        known = self._examples.classes
        (label,) = read_labels([label])
        if label not in known:
            hint = did_you_mean(label, known, f"there are {len(known)} others")
            raise InputError(f"there is no class {label!r} to forget: {hint}")
        self._settle(self._examples.without(label))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(N,) the label of the nearest class; with `reject` an array of objects, None where an image is unknown."""
        d = self._distances(self._embed(X)[0].x)
        labels: np.ndarray = self.classes_[d.argmin(axis=1)]
        if self.reject is not None:
            labels = labels.astype(object)
            labels[is_unknown(d, self._thresholds(), self._metric[0])] = None
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C) the probability of each class, in the order of `classes_`."""
        return self.confidence(X).probabilities

    def confidence(self, X: Any) -> Confidence:
        """Distances, probabilities, thresholds and whether each image is unknown; every image is embedded once."""
        check_parameters(self.temperature, self.reject)
        embedded, names, pixels = self._embed(X)
        d, thresholds = self._distances(embedded.x), self._thresholds()
        temperature = temperature_of(self.encoder_, self.temperature, self._examples, *self._metric)
        unknown = is_unknown(d, thresholds, self._metric[0])
        return Confidence(d, probabilities(d, temperature), unknown, thresholds, names, pixels)

    def explain(self, X: Any, path: Path | str, top: int = 3) -> list[Path]:
        """Draw each image with its nearest classes and what their examples counted for; returns the files written.

        Args:
            X: images, or what `confidence` returned for them.
            path: a .png or .svg file; of several images each gets its own, with the image's name or number added.
            top: how many classes to show.
        """
        check_is_fitted(self)
        if self.encoder_.takes_vectors:
            raise InputError("vectors cannot be drawn: `explain` is for a classifier of images")
        check_picture(Path(path))
        answers = X if isinstance(X, Confidence) else self.confidence(X)
        return draw_answers(answers, self._examples, self._pixels, Path(path), top)

    def decision_function(self, X: Any) -> np.ndarray:
        """(N, C) minus the distance to each class; of two classes, (N,): how much nearer the second is."""
        d = self._distances(self._embed(X)[0].x)
        return d[:, 0] - d[:, 1] if d.shape[1] == 2 else -d

    def transform(self, X: Any) -> np.ndarray:
        return self._embed(X)[0].x

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of images that get their own label. Without labels X is a folder of `CLASS/IMAGE` files."""
        check_is_fitted(self)
        X, labels = with_labels(X, y)
        answers = self.predict(X).tolist()
        check_as_many(len(answers), labels)
        return float(np.average([a == b for a, b in zip(answers, labels, strict=True)], weights=sample_weight))

    def save(self, path: Path | str) -> None:
        """Write a gallery file: the classes, the examples' embeddings, and which weights they were made with."""
        check_is_fitted(self)
        write_gallery(settings_of(self, self.encoder_), self._examples, Path(path))

    def restore(
        self, encoder: Encoder, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str]
    ) -> Self:
        """Fit to examples that were embedded before by this encoder; what a gallery holds."""
        examples = Examples.of(embedded, labels, names)
        self.encoder_ = encoder
        self._settle(examples)
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.prototypes_.shape[1])

    @property
    def _metric(self) -> tuple[str, bool]:
        """The name of the distance, and whether the class's precision is the metric around its prototype."""
        in_distance = self.precisions_ is not None and self.encoder_.weighting == "prototype_and_distance"
        return self.distance or self.encoder_.distance, in_distance

    def _find_encoder(self) -> None:
        """What this classifier embeds with from now on, whatever its parameters become."""
        encoder = find_encoder(self.encoder, self.engine, self.ink, self.image_size)
        if self.distance is not None:
            find_distance(self.distance)
        check_parameters(self.temperature, self.reject)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of vectors that an earlier fit had; images have none
        self.encoder_ = encoder

    def _learn(self, known: Examples | None, X: Any, y: Any, classes: Any = None) -> Self:
        with restored_on_error(self):
            if known is None:
                self._find_encoder()
            X, labels = with_labels(X, y)
            embedded, names, _ = self._embed(X, reset=known is None)
            check_as_many(len(embedded), labels)
            if classes is not None:
                check_among(labels, read_labels(classes))
            more = embedded, labels, names
            self._settle(known.with_more(*more) if known else Examples.of(*more))
        return self

    def _embed(self, X: Any, reset: bool | None = None) -> tuple[Embedded[np.ndarray], list[str], np.ndarray | None]:
        """The embeddings of images or vectors, the file of each, and the pixels of images."""
        if reset is None and not hasattr(self, "_examples"):
            check_is_fitted(self)
        encoder: Encoder = self.encoder_
        if not encoder.takes_vectors:
            images, names = list_images(X)
            pixels = self._pixels(images)
            return encoder.embed(pixels), names, pixels
        if isinstance(X, str | Path) or (isinstance(X, list) and X and isinstance(X[0], str | Path)):
            raise InputError("this encoder takes vectors, not images: name weights that take images")
        vectors = validate_data(self, X, reset=bool(reset), dtype=[np.float64, np.float32])
        if encoder.features not in (None, vectors.shape[1]):
            raise InputError(f"the head takes vectors of {encoder.features} numbers (found {vectors.shape[1]})")
        return encoder.embed(vectors), [""] * len(vectors), None

    def _pixels(self, images: list[Any] | np.ndarray) -> np.ndarray:
        return with_bright_ink(read_images(images, self.encoder_.image_size, self.encoder_.channels), self.encoder_.ink)

    def _settle(self, examples: Examples) -> None:
        self._examples = examples
        self.classes_, self.example_labels_ = as_array(examples.classes), as_array(examples.labels)
        self.prototypes_, self.precisions_ = examples.prototypes
        self.example_embeddings_, self.example_precisions_ = examples.embedded
        self.example_weights_, self.example_names_ = examples.weights, examples.names

    def _distances(self, x: np.ndarray) -> np.ndarray:
        """(N, C) in float64, so that an answer does not depend on what else is asked."""
        distance, in_distance = self._metric
        s_class = self.precisions_ if in_distance else None
        with np.errstate(all="ignore"):
            d: np.ndarray = find_distance(distance).value(x.astype(np.float64), self.prototypes_, s_class)
        if not np.isfinite(d).all():
            raise InputError("distances overflow: the input values are too large; rescale them")
        return d

    def _thresholds(self) -> np.ndarray | None:
        """(C,) the distance beyond which an image is far from a class; None without `reject`."""
        if self.reject is None:
            return None
        check_parameters(self.temperature, self.reject)
        return class_thresholds(self.encoder_, float(self.reject), self._examples, *self._metric)
