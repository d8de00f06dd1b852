"""The encoder of photos: features of EfficientNet-Lite0 and, on top of them, a Gaussian head."""

from typing import Any

import numpy as np

from gaussproto.arrays import digest_of_arrays, read_arrays
from gaussproto.classifier.encoders.card import PHOTOS, Card
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.lite_plan import IMAGE_SIZE
from gaussproto.pretrained import PHOTO_HEAD, bundled_head, check_bundled

PHOTO, PLAIN = PHOTOS
BATCH = 16  # images embedded at once; larger batches are not faster
SMALLEST = 32  # pixels


class PhotoEncoder:
    """Embeds photos (N, 3, H, W), uint8, with torch."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        import torch

        from gaussproto.model.device import check_device
        from gaussproto.model.lite import load_lite
        from gaussproto.model.photo_head import photo_head_of

        check_device(device)
        self.device = torch.device(device)
        self.network = load_lite().to(self.device)
        self.head = None
        if name == PHOTO:
            path = bundled_head()
            file = read_arrays(path, "photo head", "pt")
            check_bundled(path, file.checksum)
            self.head = photo_head_of(path, file.metadata, file.arrays)
            assert self.head is not None
            self.head.to(self.device)

    def __call__(self, images: np.ndarray) -> Embedded[np.ndarray]:
        import torch

        parts = []
        with torch.inference_mode():
            for i in range(0, len(images), BATCH):
                features = self.network(torch.from_numpy(images[i : i + BATCH]).to(self.device))
                parts.append(Embedded(features) if self.head is None else self.head.embed(features))
        return Embedded.join(parts, torch.cat).map(lambda t: t.cpu().numpy())

    def arrays(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None]:
        """Return the weights of the network, and of the head if there is one."""
        parts = [self.network.state_dict(), self.head.state_dict() if self.head else {}]
        network, head = ({name: np.asarray(t.cpu().contiguous()) for name, t in part.items()} for part in parts)
        return network, head or None


def is_photo(encoder: Any) -> bool:
    return isinstance(encoder, str) and encoder in (PHOTO, PLAIN)


def photo_card(encoder: PhotoEncoder) -> Card:
    """Return the properties of a photo encoder."""
    network, head = encoder.arrays()
    both = {f"network.{name}": array for name, array in network.items()}
    both |= {f"head.{name}": array for name, array in (head or {}).items()}
    return Card(
        digest=digest_of_arrays(PHOTO_HEAD, both),
        channels=3,
        image_size=IMAGE_SIZE,
        smallest_image=SMALLEST,
        ink="bright",
        prepare="crop",
    )


def photo_graph(name: str) -> tuple[Any, Card]:
    """Return the ONNX graph of a photo encoder, and its card."""
    from gaussproto.classifier.encoders.onnx_lite import lite_graph

    encoder = PhotoEncoder(name)
    return lite_graph(*encoder.arrays()), photo_card(encoder)
