"""Malformed and hostile bodies: JSON, forms, images and gallery files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.target import API, BOUNDARY, END, FORM, Target, as_text, part, png_of
from gaussproto.arrays import read_arrays, write_arrays


def invalid_json(t: Target) -> int:
    body = t.rng.choice([b"{", b"", b"{'name': 1}", b"\xff\xfe", b'{"name": "a"', b"null", b"[]", b"1", t.noise()])
    return t.rng.choice([lambda: t.ask("POST", f"{API}/galleries", body), lambda: t.classify(body)])()


def deep_json(t: Target) -> int:
    depth = t.rng.choice([500, 5_000, 30_000])
    body = t.rng.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    if len(body) > 60_000 or t.rng.random() < 0.5:
        return t.classify(body)
    return t.ask("POST", f"{API}/galleries", body)


def numbers_out_of_range(t: Target) -> int:
    number = t.rng.choice(["NaN", "Infinity", "1e999", "-1", "9" * 5000, "0.6", "true", '"0.05"', "[]"])
    return t.ask("POST", f"{API}/galleries", f'{{"name": "a", "reject": {number}}}'.encode())


def wrong_types(t: Target) -> int:
    value = t.rng.choice([1, None, [], {}, True, ["a"], 1.5])
    return t.json("POST", f"/galleries/{t.gallery}/classes", {"name": value})


def unknown_fields(t: Target) -> int:
    return t.json("PATCH", f"/galleries/{t.gallery}", {t.rng.choice(["id", "version", "__class__", "encoder"]): "x"})


def bad_names(t: Target) -> int:
    name = t.rng.choice(["", "   ", "a" * 101, "a" * 60_000, "a\x00b", "a\x1bb", "\u202eab", "a\u2028b", "\ud800"])
    return t.json("POST", f"/galleries/{t.gallery}/classes", {"name": name})


def wrong_content_type(t: Target) -> int:
    other = t.rng.choice(
        ["text/plain", "application/xml", "", "application/x-www-form-urlencoded", "image/png", "\x80"]
    )
    if t.rng.random() < 0.5:
        return t.classify(t.png, other)
    return t.ask("POST", f"{API}/galleries", b'{"name": "x"}', other)


def broken_multipart(t: Target) -> int:
    whole = part("files", "a.png", t.png) + END
    body, content_type = t.rng.choice(
        [
            (whole, "multipart/form-data"),
            (whole, "multipart/form-data; boundary=other"),
            (whole[: t.rng.randint(1, 60)], FORM),
            (t.noise(), FORM),
            (END, FORM),
            (b"", FORM),
            (f"--{BOUNDARY}\r\n\r\nabc\r\n".encode() + END, FORM),
            (f"--{BOUNDARY}\r\n{'X: y' * 9000}\r\n\r\nabc\r\n".encode() + END, FORM),
            (part("files", None, t.png) + END, FORM),
            (part("other", "a.png", t.png) + END, FORM),
            (part("files", "a.png", t.png) + part("extra", None, b"1") + END, FORM),
        ]
    )
    return t.classify(body, content_type)


def too_many_files(t: Target) -> int:
    return t.classify(part("files", "a.png", t.png) * t.rng.randint(101, 300) + END, FORM)


def too_many_images(t: Target) -> int:
    return t.classify(json.dumps({"images": t.rng.choice([[], [as_text(t.png)] * 101])}).encode())


def not_an_image(t: Target) -> int:
    content = t.rng.choice(
        [
            t.noise(),
            t.png[: t.rng.randint(1, len(t.png) - 20)],
            b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
            b"\x80\x04\x95cposix\nsystem\n(S'true'\ntR.",
            b"GIF89a" + t.noise(),
            b"II*\x00" + t.noise(8, 60),
            b"",
        ]
    )
    if t.rng.random() < 0.5:
        return t.add({"class": "new", "image": as_text(content)})
    return t.classify(part("files", "a.png", content) + END, FORM)


def decompression_bomb(t: Target) -> int:
    side = t.rng.choice([(20_001, 10), (19_000, 19_000), (100_000, 100_000), (2**31 - 1, 2**31 - 1)])
    return t.add({"class": "new", "image": as_text(png_of(*side))})


def damaged_image(t: Target) -> int:
    content = bytearray(t.png)
    for _ in range(t.rng.randint(5, 40)):
        content[t.rng.randrange(30, 45)] = t.rng.randrange(256)
    return t.add({"class": "new", "image": as_text(bytes(content[:-20]))})


def invalid_base64(t: Target) -> int:
    image = t.rng.choice(["!!!!", "abc", "data:image/png;base64,é", "data:,", "\u2028", 5, None])
    return t.classify(json.dumps({"images": [image]}).encode())


def one_bad_among_good(t: Target) -> int:
    examples = [{"class": "new", "image": as_text(t.png)} for _ in range(3)]
    examples[t.rng.randrange(3)]["image"] = as_text(b"no image")
    return t.add(*examples)


def damage_out_of_range(t: Target) -> int:
    damage = t.rng.choice([-0.1, 1.1, 1e300, "a", None, [], float("nan"), float("inf")])
    return t.json("PATCH", f"/galleries/{t.gallery}/examples/{t.example}", {"damage": damage})


def encoder_that_is_a_path(t: Target) -> int:
    name = t.rng.choice(
        ["../../etc/passwd", "/etc/passwd", "my.safetensors", "identity", "auto", "os:system", "x" * 99, ""]
    )
    if t.rng.random() < 0.5:
        return t.json("POST", "/galleries", {"name": "x", "encoder": name})
    return t.ask("POST", f"{API}/embed?encoder={name}", json.dumps({"images": [as_text(t.png)]}).encode())


def gallery_file_of_a_path(t: Target) -> int:
    content = t.file.replace(b"drawings-small", t.rng.choice([b"/etc//shadow\x20\x20", b"../../../../ab"]))
    return t.ask("POST", f"{API}/galleries/open", part("file", "x.gallery", content) + END, FORM)


def damaged_gallery_file(t: Target) -> int:
    content = bytearray(t.file)
    for _ in range(t.rng.randint(1, 30)):
        content[t.rng.randrange(len(content))] ^= t.rng.randint(1, 255)
    damaged = t.rng.choice([bytes(content), t.file[: t.rng.randrange(len(t.file))], t.noise(), b""])
    return t.ask("POST", f"{API}/galleries/open", part("file", "x.gallery", damaged) + END, FORM)


def gallery_file_with_extreme_numbers(t: Target) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gallery"
        path.write_bytes(t.file)
        file = read_arrays(path, "gallery")
        name = t.rng.choice(["embeddings", "example_precisions"])
        extreme = np.full(
            file.arrays[name].shape, t.rng.choice([1e300, 1e38] if name == "embeddings" else [1e300, 1e-42])
        )
        write_arrays(path, file.arrays | {name: extreme}, file.metadata)
        content = path.read_bytes()
    return t.ask("POST", f"{API}/galleries/open", part("file", "x.gallery", content) + END, FORM)


def class_of_another_gallery(t: Target) -> int:
    return t.json("PATCH", f"/galleries/{t.gallery}/examples/{t.example}", {"class": t.other_class})
