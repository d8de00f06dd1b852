"""The scikit-learn estimator: classify images or vectors from a few labelled examples of each class."""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gaussproto.classifier.check import Check, check_examples
from gaussproto.classifier.confidence import (
    Confidence,
    Thresholds,
    TopClasses,
    Weights,
    bound_of_rest,
    check_parameters,
    class_thresholds,
    enlarged_distances,
    is_unknown,
    nearest_classes,
    nearest_of_many,
    probabilities_of,
    temperature_of,
    warn_of_borrowed,
)
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.encoders.find import (
    AUTO,
    Engine,
    InkParameter,
    PrepareParameter,
    find_encoder,
    takes_vectors,
)
from gaussproto.classifier.examples import Examples, Weighing
from gaussproto.classifier.explain import check_picture, draw_answers
from gaussproto.classifier.gallery import settings_of, write_gallery
from gaussproto.classifier.inputs import (
    Images,
    check_as_many,
    list_images,
    read_images,
    read_traits,
    read_vectors,
    with_labels,
)
from gaussproto.classifier.known import Known
from gaussproto.classifier.profile import Profile, warn_if_unlike, warn_of_blank
from gaussproto.classifier.search import SearchParameter, check_search
from gaussproto.classifier.suggest import Suggestion, check_number, most_valuable
from gaussproto.classifier.view import View
from gaussproto.data.labels import as_array, check_among, read_labels
from gaussproto.errors import InputError, restored_on_error
from gaussproto.files import megabytes, memory
from gaussproto.formulas.confidence import probabilities
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.nearest import Nearest
from gaussproto.formulas.trust import PrototypeParameter

FEW = 1000  # classes; an image is compared with all of them, and with a search among more
PROBABLE = 100  # nearest classes, among which the commands give probabilities in galleries of many


class _Arrays:
    """The labels of examples and their classes as arrays."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples

    @cached_property
    def classes(self) -> np.ndarray:
        return as_array(self.examples.classes)

    @cached_property
    def labels(self) -> np.ndarray:
        return as_array(self.examples.labels)


class GaussianPrototypeClassifier(
    ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator,  # type: ignore[misc]
):  # fmt: skip
    """Classify images from a few labelled examples of each class, even from a single one.

    A network embeds each example as a vector x and predicts its precision s, the inverse of its covariance. A class is
    represented by its prototype, a weighted mean of its examples: a bad image counts for less, because its precision is
    low, and so does an example that seems to be in the wrong class. An image gets the nearest class.

        prototype      p_c = Σᵢ tᵢ sᵢ xᵢ / Σᵢ tᵢ sᵢ      over the examples i of class c, with the trust tᵢ in each
        probability    P(c | x) ∝ exp(−d(x, p_c) / T)

    You do not train anything: `fit` only embeds the examples. Pass images `X` as file paths, PIL images, arrays or
    tensors, of any size, grey or colour, or as the path of a folder.

    Args:
        encoder: the name of bundled weights (`drawings-small`, `drawings-big`, `photo`), a weights file, a run folder,
            an ONNX file or a network object. Pass `identity` if X holds feature vectors. A torch module, a function or
            an ONNX model of another library also works, if it maps colour images (N, 3, H, W) to vectors. By default
            `auto`: the examples decide between drawings and photos.
        ink: `dark` for dark ink on a light ground, `bright` for bright ink on a dark ground, or `detect` to decide for
            each image. `auto` detects for weights of drawn characters, and otherwise uses their `--ink` setting.
        prepare: `ink` finds the drawing in each image, removes uneven light, specks and frames, scales it to one size
            and centres it. `none` only resizes the image. `auto` does what the weights were trained with.
        image_size: side in pixels that images are resized to. By default that of the weights.
        mean: of red, green and blue from 0 to 1, which an encoder of another library subtracts. By default ImageNet's.
        std: of red, green and blue, by which such an encoder divides. By default ImageNet's.
        views: 1, or 5 to embed each image also moved a little in four directions, and average the embeddings. It is a
            little more accurate and takes five times as long.
        distance: the name of the distance, for example `cosine`. By default that of the weights.
        temperature: T in the formula. By default the value that `gaussproto calibrate` stored in the weights, or 1.
        reject: the share of known images that you accept losing, for example 0.05. `predict` then returns None for an
            image that is far from every class, blank or of very low precision. By default every image gets a class.
        weights: `precision` weights the examples of a class by their precision. `uniform` ignores it, as a vanilla
            prototypical network does. Takes effect at the next `fit`.
        prototype: how far to trust each example. `agreement` counts an example for less if it is unlike the others of
            its class or looks like another class. `sharing` also counts it in the class that it looks like. `median`
            compares it only with its class. `mean` trusts all, as in the paper. They differ in classes of three or more
            examples. By default `auto`: agreement if the encoder predicts precisions, otherwise mean. Takes effect at
            the next `fit`.
        engine: `torch` or `onnx`, which computes the network. By default onnx for an ONNX file, otherwise torch.
        device: where torch computes: cpu, cuda or mps.
        search: how the nearest of many classes is found. `exact` compares with all of them. `faiss` compares with the
            candidates of an index, which finds nearly always the nearest class. `auto` takes it
            above 100,000 classes, if it is installed.

    Attributes:
        encoder_: the encoder and its properties. `encoder_.source` is its name, for example after `auto`.
        classes_: (C,) the labels of the classes, sorted if they can be sorted.
        prototypes_: (C, D) the prototype of each class.
        precisions_: (C, E) the precision of each class, the sum over its examples. None if the encoder
            predicts none, or with uniform weights.
        example_labels_: (N,) the label of each example.
        example_names_: (N,) the file of each example, or "".
        example_weights_: (N,) the share of each example in its prototype. The shares of a class add up to 1. With
            `sharing`, examples of other classes that count in the prototype are left out of it.
        example_embeddings_: (N, D) the embedding of each example.
        example_precisions_: (N, E) the precision of each example, or None. E is 1 for a radius, D for a diagonal.
        n_features_in_: the size of a vector. Only for encoders of vectors.
        feature_names_in_: the names of the columns, if X was a data frame of vectors.

    Examples:
        Three examples of each of five characters, and another drawing of each:

        >>> import gaussproto as gp
        >>> drawings = gp.load_data(gp.DataConfig(data="strokes")).test.dense[:5]  # (5, 20, 1, 28, 28), uint8
        >>> clf = gp.GaussianPrototypeClassifier()
        >>> clf = clf.fit(drawings[:, :3].flatten(0, 1), list("aaabbbcccdddeee"))
        >>> clf.predict(drawings[:, 3]).tolist(), clf.predict_proba(drawings[:, 3]).shape
        (['a', 'b', 'c', 'd', 'e'], (5, 5))

        Feature vectors of your own network:

        >>> vectors = [[0.0, 0.0], [0.2, 0.0], [5.0, 5.0]]
        >>> clf = gp.GaussianPrototypeClassifier("identity").fit(vectors, ["near", "near", "far"])
        >>> clf.predict([[1.0, 1.0]]).tolist(), clf.example_weights_.tolist()
        (['near'], [0.5, 0.5, 1.0])
    """

    def __init__(
        self,
        encoder: Any = AUTO,
        *,
        ink: InkParameter = "auto",
        prepare: PrepareParameter = "auto",
        image_size: int | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        views: int = 1,
        distance: str | None = None,
        temperature: float | None = None,
        reject: float | None = None,
        weights: Weights = "precision",
        prototype: PrototypeParameter = "auto",
        engine: Engine | None = None,
        device: str = "cpu",
        search: SearchParameter = "auto",
    ) -> None:
        self.encoder = encoder
        self.ink = ink
        self.prepare = prepare
        self.image_size = image_size
        self.mean = mean
        self.std = std
        self.views = views
        self.distance = distance
        self.temperature = temperature
        self.reject = reject
        self.weights = weights
        self.prototype = prototype
        self.engine = engine
        self.device = device
        self.search = search

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if not takes_vectors(self.encoder):
            tags.input_tags.two_d_array = False
            tags.input_tags.three_d_array = tags.input_tags.string = True
            tags.no_validation = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the classes of these examples and forget earlier ones.

        Args:
            X: the examples: images, or vectors (N, features).
            y: (N,) the label of each, of any hashable type. Leave it out if X is a folder of `CLASS/IMAGE` files.

        Returns:
            The classifier itself.
        """
        return self._learn(None, X, y)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Add examples of known or new classes.

        Args:
            X: the examples, as for `fit`.
            y: their labels, as for `fit`.
            classes: the labels that are allowed. By default any.

        Returns:
            The classifier itself.
        """
        return self._learn(getattr(self, "_known", None), X, y, classes)

    def forget(self, label: Hashable) -> Self:
        """Remove a class and its examples. Two classes must remain."""
        check_is_fitted(self)
        self._settle(self._known.without(*read_labels([label])))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of the nearest class.

        Args:
            X: N images or vectors, or a folder of images.

        Returns:
            (N,) labels. With `reject`, an array of objects that holds None for unknown images.
        """
        embedded, seen = self._embed(X)
        if self._known.way > FEW:
            found, unknown, view = self._search(embedded, seen, 1)
            labels = as_array(view.labels_at(found.classes[:, 0]))
        else:
            thresholds, distance = self._thresholds(), self._metric[0]
            self._warn_once(thresholds)
            limits = self._limits(thresholds)
            enlarged = enlarged_distances(embedded.s, seen.blank, thresholds, distance)
            C = len(self.classes_)
            nearest, unknown = nearest_classes(self._distances, embedded.x, C, limits, enlarged, distance)
            labels = self.classes_[nearest]
        if self.reject is not None:
            labels = labels.astype(object)
            labels[unknown] = None
        return labels

    def nearest(self, X: Any, k: int = 10) -> TopClasses:
        """Return the k nearest classes of each image. It needs little memory, however many classes there are.

        Args:
            X: N images or vectors, or a folder of images.
            k: how many classes.

        Returns:
            A named tuple: labels, distances and probabilities (N, k), the nearest class first, rest (N,), unknown (N,)
            and names. The probabilities are among these k classes; `rest` bounds that of all others together.

        Examples:
            >>> import gaussproto as gp
            >>> clf = gp.GaussianPrototypeClassifier("identity").fit([[0.0], [1.0], [9.0]], ["a", "b", "c"])
            >>> found = clf.nearest([[0.2]], k=2)
            >>> found.labels.tolist(), found.distances.round(1).tolist(), found.rest.round(4).tolist()
            ([['a', 'b']], [[0.2, 0.8]], [0.2616])
        """
        return self.nearest_of(*self._embed(X), check_number(k, "classes to return"))

    def nearest_of(self, embedded: Embedded[np.ndarray], seen: Images, k: int) -> TopClasses:
        # Like `confidence_of`.
        found, unknown, view = self._search(embedded, seen, k)
        T = temperature_of(self.encoder_, self.temperature, self._known.mean_shot, *self._metric)
        labels = as_array(view.labels_at(found.classes.ravel())).reshape(found.classes.shape)
        rest = bound_of_rest(found.distances, view.way, T)
        p = probabilities(found.distances, T)
        return TopClasses(labels, found.distances, p, rest, unknown, seen.names, seen.blank)

    def top_of(self, embedded: Embedded[np.ndarray], seen: Images, top: int) -> TopClasses:
        # The answers of the commands. Among many classes, probabilities are among the nearest ones.
        if self._known.way > FEW:
            found = self.nearest_of(embedded, seen, max(top, PROBABLE))
            return found._replace(**{name: getattr(found, name)[:, :top] for name in TopClasses._fields[:3]})
        return self.confidence_of(embedded, seen).top(self.classes_, top)

    def top(self, X: Any, top: int) -> TopClasses:
        # Like `top_of`, for images.
        embedded, seen = self._embed(X)
        self._warn_once(self._thresholds())
        return self.top_of(embedded, seen, top)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Args:
            X: N images or vectors, or a folder of images.

        Returns:
            (N, C) probabilities among the known classes, in the order of `classes_`.
        """
        return self.confidence(X).probabilities

    def confidence(self, X: Any) -> Confidence:
        """Return distances, probabilities and unknown images in one pass.

        Args:
            X: N images or vectors, or a folder of images.

        Returns:
            A named tuple: distances (N, C), probabilities (N, C), unknown (N,), thresholds (C,), names, pixels, images,
            blank (N,) and enlarged (N,).
        """
        embedded, seen = self._embed(X)
        self._warn_once(self._thresholds())
        return self.confidence_of(embedded, seen)

    def confidence_of(self, embedded: Embedded[np.ndarray], seen: Images) -> Confidence:
        # For the service, which embeds the images of several requests at once. It has no docstring, so that the API
        # reference omits it.
        d, thresholds = self._distances(embedded.x), self._thresholds()
        p = probabilities_of(d, self.encoder_, self.temperature, self._known.mean_shot, *self._metric)
        enlarged = enlarged_distances(embedded.s, seen.blank, thresholds, self._metric[0])
        limits = self._limits(thresholds)
        unknown = is_unknown(d, limits, enlarged, self._metric[0])
        pixels = None if self.encoder_.takes_vectors else seen.pixels
        return Confidence(d, p, unknown, limits, seen.names, pixels, seen.given, seen.blank, enlarged)

    def explain(self, X: Any, path: Path | str, top: int = 3) -> list[Path]:
        """Draw each image with its nearest classes and the weights of their examples.

        Args:
            X: images, or what `confidence` returned for them.
            path: a .png or .svg file. For several images, each gets its own file: the image's name is added.
            top: how many classes to show.

        Returns:
            The files written.
        """
        check_is_fitted(self)
        if self.encoder_.takes_vectors:
            raise InputError("`explain` can only draw images, but this classifier takes vectors: use an image encoder")
        check_picture(Path(path))
        answers = X if isinstance(X, Confidence) else self.confidence(X)
        return draw_answers(answers, self._examples, self.encoder_.look, Path(path), top)

    def check(self) -> Check:
        """Check the examples: how good is the classifier, and which examples are probably wrong?

        Each example is left out in turn and compared with the other examples of its class and with all other classes.
        See the page "Check your examples".

        Returns:
            A `Check`: `accuracy` and its `interval`, the `confused` classes, whether more examples would help
            (`learning`), all `examples`, the most suspicious first, and among them the `suspicious` ones.

        Examples:
            >>> import gaussproto as gp
            >>> vectors = [[0.0, 0.1], [0.1, 0.0], [0.0, 0.0], [4.9, 5.0], [5.0, 5.0], [5.1, 5.0], [5.0, 5.1]]
            >>> clf = gp.GaussianPrototypeClassifier("identity").fit(vectors, ["a", "a", "a", "a", "b", "b", "b"])
            >>> for example in clf.check().suspicious:
            ...     print(example.index, example.label, example.reason, example.looks_like)
            3 a looks like b
        """
        check_is_fitted(self)
        check_parameters(self.temperature, self.reject)
        return check_examples(self._examples, self.encoder_, self.temperature, *self._metric)

    def suggest(self, X: Any, n: int = 10) -> list[Suggestion]:
        """Return the unlabelled images that would teach the classifier most, the most valuable first.

        They are images that the classifier is uncertain of, of good precision and unlike each other. Label them, pass
        them to `partial_fit` and ask again.

        Args:
            X: N unlabelled images or vectors, or a folder of images.
            n: how many images to suggest. Blank images are never suggested.

        Returns:
            At most n suggestions, each with index, name, value, label, probability and other.
        """
        n = check_number(n)
        embedded, seen = self._embed(X)
        d = self._distances(embedded.x)
        p = probabilities_of(d, self.encoder_, self.temperature, self._known.mean_shot, *self._metric)
        chosen, values = most_valuable(embedded.x, embedded.s, p, seen.blank, self._examples.embedded.s, n)
        order, labels = (-p).argsort(axis=1, kind="stable")[:, :2], self.classes_.tolist()
        return [
            Suggestion(i, seen.names[i], value, labels[order[i, 0]], float(p[i].max()), labels[order[i, 1]])
            for i, value in zip(chosen, values, strict=True)
        ]

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the negative distance to each class (N, C). For two classes, how much nearer the second is (N,)."""
        d = self._distances(self._embed(X)[0].x)
        return d[:, 0] - d[:, 1] if d.shape[1] == 2 else -d

    def transform(self, X: Any) -> np.ndarray:
        """Return the embeddings (N, D) of images or vectors."""
        return self._embed(X)[0].x

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`. Without labels, X is a folder of `CLASS/IMAGE` files."""
        check_is_fitted(self)
        X, labels = with_labels(X, y)
        answers = self.predict(X).tolist()
        check_as_many(len(answers), labels)
        return float(np.average([a == b for a, b in zip(answers, labels, strict=True)], weights=sample_weight))

    def save(self, path: Path | str) -> None:
        """Write a gallery file, which `gaussproto.load` reads. It contains neither images nor weights.

        Args:
            path: the file. An existing one is replaced.
        """
        check_is_fitted(self)
        check_search(self.search)
        index = self._known.stored(self._metric, self.search)
        write_gallery(settings_of(self, self.encoder_), self._examples, Path(path), index)

    def restore(
        self, encoder: Encoder, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str],
        profile: Profile | None = None, blank: np.ndarray | None = None,
    ) -> Self:  # fmt: skip
        # For `load` and the service. It has no docstring, so that the API reference omits it.
        return self.adopt(
            encoder, lambda weighing: Known(Examples.of(embedded, labels, names, weighing, blank)), profile
        )

    def adopt(self, encoder: Encoder, known: Callable[[Weighing], Known], profile: Profile | None) -> Self:
        # For `load`. It has no docstring, so that the API reference omits it.
        self.encoder_, self._profile = encoder, profile
        self._settle(known(self._weighing))
        return self

    @property
    def classes_(self) -> np.ndarray:
        return self._arrays().classes

    @property
    def prototypes_(self) -> np.ndarray:
        return self._examples.prototypes.x

    @property
    def precisions_(self) -> np.ndarray | None:
        return self._examples.prototypes.s

    @property
    def example_labels_(self) -> np.ndarray:
        return self._arrays().labels

    @property
    def example_names_(self) -> list[str]:
        return self._examples.names

    @property
    def example_weights_(self) -> np.ndarray:
        return self._examples.weights

    @property
    def example_embeddings_(self) -> np.ndarray:
        return self._examples.embedded.x

    @property
    def example_precisions_(self) -> np.ndarray | None:
        return self._examples.embedded.s

    @property
    def _examples(self) -> Examples:
        return self._known.examples

    @property
    def _n_features_out(self) -> int:
        return int(self.prototypes_.shape[1])

    @property
    def _metric(self) -> tuple[str, bool]:
        """The name of the distance, and whether the precision of the class is part of it."""
        in_distance = self._known.has_precisions and self.encoder_.weighting == "prototype_and_distance"
        return self.distance or self.encoder_.distance, in_distance

    @property
    def _weighing(self) -> Weighing:
        in_distance = self.encoder_.weighting == "prototype_and_distance"
        return Weighing(self.weights == "uniform", self.prototype, self.distance or self.encoder_.distance, in_distance)

    def _learn(self, known: Known | None, X: Any, y: Any, classes: Any = None) -> Self:
        with restored_on_error(self):
            X, labels = with_labels(X, y)
            if known is None:
                encoder = self.encoder
                if isinstance(encoder, str) and encoder == AUTO:
                    encoder = Profile.of(read_traits(list_images(X)[0])).encoder
                self.encoder_ = find_encoder(
                    encoder, self.engine, self.ink, self.prepare, self.image_size, self.device, self.mean, self.std,
                    self.views,
                )  # fmt: skip
                self._profile = None
                if self.distance is not None:
                    find_distance(self.distance)
                check_parameters(self.temperature, self.reject, self.weights, self.prototype)
                check_search(self.search)
                for name in ("n_features_in_", "feature_names_in_"):
                    self.__dict__.pop(name, None)  # left by an earlier fit on vectors
            embedded, seen = self._embed(X, reset=known is None)
            check_as_many(len(embedded), labels)
            if classes is not None:
                check_among(labels, read_labels(classes))
            if known is None:
                known = Known(Examples.of(embedded, labels, seen.names, self._weighing, seen.blank))
            else:
                known = known.with_more(embedded, labels, seen.names, seen.blank)
            self._settle(known)
        return self

    def _embed(self, X: Any, reset: bool | None = None) -> tuple[Embedded[np.ndarray], Images]:
        """Embed images or vectors. Also return what the network saw."""
        if reset is None and not hasattr(self, "_known"):
            check_is_fitted(self)
        encoder: Encoder = self.encoder_
        if encoder.takes_vectors:
            vectors = read_vectors(self, X, encoder.features, reset=bool(reset))
            return encoder.embed(vectors), Images.none(len(vectors))
        seen = read_images(*list_images(X), encoder.look)
        if reset is not None:
            self._profile = self._profile or Profile.of(seen.traits)
        else:
            warn_if_unlike(self._profile, seen.traits, encoder.look)
        warn_of_blank(seen.blank, seen.names)
        return encoder.embed(seen.pixels), seen

    def _settle(self, known: Known) -> None:
        self._known, self._warned = known, False

    def _arrays(self) -> "_Arrays":
        """Return the labels as arrays, which are computed once."""
        examples, arrays = self._examples, getattr(self._known, "arrays", None)
        if arrays is None or arrays.examples is not examples:
            arrays = self._known.arrays = _Arrays(examples)
        return arrays

    def _search(self, embedded: Embedded[np.ndarray], seen: Images, k: int) -> tuple[Nearest, np.ndarray, View]:
        """Return the k nearest classes, whether each image is unknown, and the classes that were searched."""
        check_search(self.search)
        known, metric, thresholds = self._known, self._metric, self._thresholds()
        self._warn_once(thresholds)
        self._check_size(embedded.x, known.size)
        enlarged = np.broadcast_to(enlarged_distances(embedded.s, seen.blank, thresholds, metric[0]), len(embedded.x))
        view = known.view(metric, self.search)
        return *nearest_of_many(view, embedded.x, min(k, view.way), thresholds, enlarged), view

    def _distances(self, x: np.ndarray) -> np.ndarray:
        """Return (N, C) distances, in float64 so that a result does not depend on the other images."""
        distance, in_distance = self._metric
        s_class = self.precisions_ if in_distance else None
        self._check_size(x, self.prototypes_.shape[1])
        size = 3 * 8 * len(x) * len(self.prototypes_)
        if size > memory() / 2:
            raise InputError(
                f"the distances of {len(x):,} images from {len(self.prototypes_):,} classes need {megabytes(size)}: "
                "pass fewer images at a time, or call `nearest`"
            )
        with np.errstate(all="ignore"):
            d: np.ndarray = find_distance(distance).value(x.astype(np.float64), self.prototypes_, s_class)
        if not np.isfinite(d).all():
            raise InputError("distances overflow: the input values are too large; rescale them")
        return d

    def _thresholds(self) -> Thresholds | None:
        check_parameters(self.temperature, self.reject)
        if self.reject is None:
            return None
        return class_thresholds(self.encoder_, self.reject, self._known.representative, *self._metric)

    def _limits(self, thresholds: Thresholds | None) -> np.ndarray | None:
        """Return the distance beyond which an image is far from each class (C,)."""
        return None if thresholds is None else thresholds.at(self._examples.shots)

    def _check_size(self, x: np.ndarray, D: int) -> None:
        if x.shape[1] != D:
            sizes = f"{x.shape[1]} and {D}"
            raise InputError(f"embeddings of images and classes must have one size (found {sizes}): fit again")

    def _warn_once(self, thresholds: Thresholds | None) -> None:
        """Warn, once for these examples, if the thresholds are not theirs."""
        if thresholds is not None and thresholds.borrowed and not self._warned:
            self._warned = True
            examples = self._known.representative
            found = len(examples.left_out(*self._metric))
            warn_of_borrowed(self.encoder_, float(self.reject or 0), found, examples.poor)
