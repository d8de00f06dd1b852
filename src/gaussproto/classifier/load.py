"""Load a classifier from its gallery file and the weights that it was saved with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.classifier.encoders.find import Engine, find_encoder
from gaussproto.classifier.encoders.onnx import name_of
from gaussproto.classifier.estimator import GaussianPrototypeClassifier
from gaussproto.classifier.gallery import PARAMETERS, open_gallery, read_gallery
from gaussproto.errors import InputError
from gaussproto.pretrained import REPLACED


def load(
    path: Path | str, encoder: Any = None, engine: Engine | None = None, device: str = "cpu"
) -> GaussianPrototypeClassifier:
    """Load a classifier from a gallery that `save` or `gaussproto enroll` wrote.

    The classifier predicts as before, and you can add examples with `partial_fit`.

    Args:
        path: the gallery file.
        encoder: the weights, their ONNX file or the network object. By default the weights that the gallery names.
            Pass the new path if you moved them, or the network if it was only in memory.
        engine: `torch` or `onnx`, as for the classifier. Either can open a gallery that the other wrote.
        device: where torch computes: cpu, cuda or mps.

    Returns:
        The fitted classifier.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> clf = gp.GaussianPrototypeClassifier("identity").fit([[0.0], [1.0]], ["low", "high"])
        >>> with TemporaryDirectory() as folder:
        ...     clf.save(f"{folder}/my.gallery")
        ...     loaded = gp.load(f"{folder}/my.gallery")
        >>> loaded.partial_fit([[9.0]], ["very high"]).predict([[0.2], [8.0]]).tolist()
        ['low', 'very high']
    """
    mapped = open_gallery(Path(path))
    if mapped is not None:
        settings, known = mapped
    else:
        settings, embedded, labels, names, blank = read_gallery(Path(path))
    source = settings.source if encoder is None else encoder
    if source is None:
        raise InputError(f"{path} was saved with a network that was only in memory: pass that network as `encoder`")
    try:
        opened = find_encoder(source, engine, device=device, mean=settings.mean, std=settings.std, views=settings.views)
    except InputError as error:
        if encoder is not None:
            raise
        raise InputError(f"cannot open the weights of {path} ({error}): {_remedy(None)}") from None
    if opened.digest != settings.digest and encoder is None and settings.source in REPLACED:
        raise InputError(
            f"{path} was made with the weights {settings.source} of an earlier version, which {opened.source} "
            "replaced: create it again from its images, or pass the file of the earlier weights as `encoder`"
        )
    if opened.digest != settings.digest:
        raise InputError(
            f"{path} was made with other weights (digest {settings.digest[:12]}) than {name_of(source)} (digest "
            f"{opened.digest[:12]}): {_remedy(encoder)}, or create it again"
        )
    if settings.image_size_used < opened.smallest_image:
        smallest = f"at least {opened.smallest_image} pixels (found {settings.image_size_used})"
        raise InputError(f"{path} is a damaged gallery (its images must have {smallest}): create it again")
    calibration = opened.calibration or settings.calibration
    opened = replace(
        opened,
        ink=settings.ink_used,
        prepare=settings.prepare_used,
        image_size=settings.image_size_used,
        calibration=calibration,
    )
    parameters = {name: getattr(settings, name) for name in PARAMETERS}
    clf = GaussianPrototypeClassifier(source, engine=engine, device=device, **parameters)
    if mapped is not None:
        clf.adopt(opened, known, settings.profile)
    else:
        clf.restore(opened, embedded, labels, names, settings.profile, blank)
    if settings.features is not None:
        clf.n_features_in_ = settings.features
    if settings.feature_names is not None:
        clf.feature_names_in_ = np.array(settings.feature_names, dtype=object)
    return clf


def _remedy(encoder: Any) -> str:
    """Return what to do about weights that are not those of a gallery, in Python and on the command line."""
    if encoder is not None:
        return "leave out the encoder to use the weights that the gallery names"
    return "pass the weights that the gallery was made with as `encoder` (--encoder)"
