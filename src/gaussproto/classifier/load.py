"""Load a classifier from its gallery file, with the weights that the gallery was made with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.classifier.encoders.find import Engine, find_encoder
from gaussproto.classifier.encoders.onnx import name_of
from gaussproto.classifier.estimator import GaussianPrototypeClassifier
from gaussproto.classifier.gallery import PARAMETERS, read_gallery
from gaussproto.errors import InputError


def load(path: Path | str, encoder: Any = None, engine: Engine | None = None) -> GaussianPrototypeClassifier:
    """The classifier that `save` wrote, ready to predict and to learn more.

    Args:
        path: the gallery file.
        encoder: where the weights are now, their ONNX file, or the network itself; if not given, where they were.
        engine: what computes the network, as for the classifier; whatever made the gallery, any may open it.
    """
    settings, embedded, labels, names = read_gallery(Path(path))
    source = settings.source if encoder is None else encoder
    if source is None:
        raise InputError(f"{path} was made with a network that was only in memory: give it as `encoder`")
    try:
        opened = find_encoder(source, engine)
    except InputError as error:
        hint = f"; give the weights that {path} was made with as `encoder`" if encoder is None else ""
        raise InputError(f"{error}{hint}") from None
    if opened.digest != settings.digest:
        raise InputError(
            f"{path} was made with other weights (digest {settings.digest[:12]}) than {name_of(source)} (digest "
            f"{opened.digest[:12]}): give the same as `encoder`, or make the gallery again"
        )
    calibration = opened.calibration or settings.calibration
    opened = replace(opened, ink=settings.ink_used, image_size=settings.image_size_used, calibration=calibration)
    parameters = {name: getattr(settings, name) for name in PARAMETERS}
    clf = GaussianPrototypeClassifier(source, engine=engine, **parameters).restore(opened, embedded, labels, names)
    if settings.features is not None:
        clf.n_features_in_ = settings.features
    if settings.feature_names is not None:
        clf.feature_names_in_ = np.array(settings.feature_names, dtype=object)
    return clf
