"""Classifiers on disk: saved with the identity of their weights, and loaded with no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.classifier.embedder import Engine, find_embedder
from gaussproto.classifier.estimator import GaussianPrototypeClassifier
from gaussproto.classifier.gallery_file import Gallery, Settings, read_gallery, write_gallery
from gaussproto.errors import InputError


def save(clf: GaussianPrototypeClassifier, path: Path) -> None:
    """Write what a fitted classifier has learned; `clf.save(path)` does the same."""
    classes = clf.classes_.tolist()
    position = {label: c for c, label in enumerate(classes)}
    feature_names = getattr(clf, "feature_names_in_", None)
    settings = Settings(
        source=clf.embedder_.source,
        digest=clf.embedder_.digest,
        ink=clf.ink,
        ink_used=clf.embedder_.ink,
        image_size=clf.image_size,
        image_size_used=clf.embedder_.image_size,
        distance=clf.distance,
        temperature=None if clf.temperature is None else float(clf.temperature),
        reject=None if clf.reject is None else float(clf.reject),
        calibration=clf.embedder_.calibration,
        features=getattr(clf, "n_features_in_", None),
        feature_names=None if feature_names is None else feature_names.tolist(),
    )
    gallery = Gallery(
        settings,
        classes,
        np.array([position[label] for label in clf.example_labels_.tolist()]),
        clf.example_names_,
        clf.example_embeddings_,
        clf.example_precisions_,
        clf.prototypes_,
        clf.precisions_,
    )
    write_gallery(gallery, path)


def load(path: Path | str, encoder: Any = None, engine: Engine | None = None) -> GaussianPrototypeClassifier:
    """The classifier that `save` wrote, ready to predict and to learn more.

    Args:
        path: the gallery file.
        encoder: where the weights are now, their ONNX file, or the network itself; if not given, where they were.
        engine: what computes the network, as for the classifier; whatever made the gallery, any may open it.
    """
    gallery = read_gallery(Path(path))
    settings = gallery.settings
    if encoder is None and settings.source is None:
        raise InputError(f"{path} was made with a network that was only in memory: give it as `encoder`")
    asked = settings.source if encoder is None else encoder
    try:
        embedder = find_embedder(asked, engine)
    except InputError as error:
        hint = "" if encoder is not None else f"; give the weights that {path} was made with as `encoder`"
        raise InputError(f"{error}{hint}") from None
    if embedder.digest != settings.digest:
        name = asked if isinstance(asked, str | Path) else "the network that was given"
        raise InputError(
            f"{path} was made with other weights (digest {settings.digest[:12]}) than {name} (digest "
            f"{embedder.digest[:12]}): give the same as `encoder`, or make the gallery again"
        )
    clf = GaussianPrototypeClassifier(
        asked,
        ink=settings.ink,
        image_size=settings.image_size,
        distance=settings.distance,
        temperature=settings.temperature,
        reject=settings.reject,
        engine=engine,
    )
    labels = [gallery.classes[c] for c in gallery.labels.tolist()]
    embedder = replace(
        embedder,
        ink=settings.ink_used,
        image_size=settings.image_size_used,
        calibration=embedder.calibration or settings.calibration,
    )
    clf.restore(embedder, gallery.embeddings, gallery.example_precisions, labels, gallery.names)
    if settings.features is not None:
        clf.n_features_in_ = settings.features
    if settings.feature_names is not None:
        clf.feature_names_in_ = np.array(settings.feature_names, dtype=object)
    return clf
