"""Read images from the body of a request: multipart, or JSON with base64."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import FormParser, parse_options_header

from gaussproto.errors import InputError
from gaussproto.serving.models import LONGEST_NAME, MOST_IMAGES, ExamplesIn, ImagesIn, Model, Name, is_text
from gaussproto.setting_types import first_problem

M = TypeVar("M", bound=Model)

NOT_JSON = "the body cannot be read as JSON: check it"
LARGEST_FILE = 16_000_000  # bytes
LARGEST_FIELD = 4 * LONGEST_NAME  # bytes of a text
IN_MEMORY = {"MAX_MEMORY_FILE_SIZE": 1 << 40, "MAX_FIELDS": 2 * MOST_IMAGES, "MAX_FIELD_SIZE": 100_000_000}
NAME = TypeAdapter(Name)


class WrongTypeError(InputError):
    """The body has a type that the request cannot have."""


class MalformedError(InputError):
    """The body is not what its type says."""


class Upload(NamedTuple):
    """An image file of a request."""

    name: str
    content: bytes
    class_name: str = ""
    damage: float = 0.0


class Form(NamedTuple):
    """A multipart body: its texts, and the name and the content of each file."""

    texts: dict[str, str]
    files: list[tuple[str, str, bytes]]  # field, name, content


def read_examples(content_type: str, body: bytes) -> list[Upload]:
    """Return the examples of a request."""
    if _kind(content_type) == "application/json":
        found = read_json(ExamplesIn, body)
        return [
            Upload(each.name or f"image {i}", _decoded(each.image, i), each.class_name, each.damage)
            for i, each in enumerate(found.examples, start=1)
        ]
    form = read_form(content_type, body, {"class"}, {"files"})
    if "class" not in form.texts:
        raise InputError("the field `class` is missing: send the name of the class and one or more `files`")
    class_name = check_name(form.texts["class"], "class")
    return [upload._replace(class_name=class_name) for upload in _uploads(form)]


def read_queries(content_type: str, body: bytes) -> list[Upload]:
    """Return the images of a request."""
    if _kind(content_type) == "application/json":
        images = read_json(ImagesIn, body).images
        return [Upload(f"image {i}", _decoded(image, i)) for i, image in enumerate(images, start=1)]
    return _uploads(read_form(content_type, body, set(), {"files"}))


def read_json(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise MalformedError(NOT_JSON) from None
        raise InputError(f"the request is not valid ({first_problem(error)}): see /docs") from None


def check_name(value: str, what: str) -> str:
    try:
        return NAME.validate_python(value)
    except ValidationError as error:
        raise InputError(f"the {what} is not valid ({first_problem(error)}): choose another name") from None


def read_form(content_type: str, body: bytes, texts: set[str], files: set[str]) -> Form:
    """Parse a multipart body. Raise InputError if it has other fields than these."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        found = repr(content_type[:100]) if content_type else "none"
        raise WrongTypeError(f"the content type must be multipart/form-data or application/json (found {found})")
    form = Form({}, [])

    def on_field(field: Any) -> None:
        name = _text(field.field_name, "name of a field")
        if name in files:
            raise MalformedError(f"the field {name!r} must be a file: send it with a file name")
        if name not in texts:
            raise MalformedError(f"unknown field {name[:100]!r}: this request takes {', '.join(sorted(texts | files))}")
        if len(field.value or b"") > LARGEST_FIELD:
            raise MalformedError(f"the field {name!r} must have at most {LARGEST_FIELD} bytes: shorten it")
        form.texts[name] = _text(field.value or b"", f"field {name!r}")

    def on_file(file: Any) -> None:
        field = _text(file.field_name, "name of a field")
        if field not in files:
            raise MalformedError(f"unknown file field {field[:100]!r}: this request takes {', '.join(sorted(files))}")
        file.file_object.seek(0)
        form.files.append((field, _file_name(file.file_name, len(form.files) + 1), file.file_object.read()))
        if len(form.files) > MOST_IMAGES:
            raise MalformedError(f"a request takes at most {MOST_IMAGES} files: send several requests")

    try:
        parser = FormParser(
            "multipart/form-data", on_field, on_file, boundary=options.get(b"boundary"), config=IN_MEMORY
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise MalformedError(f"the multipart body cannot be read ({error}): check how it was made") from None
    return form


def _uploads(form: Form) -> list[Upload]:
    if not form.files:
        raise InputError("the request has no `files`: send one or more images")
    for _, name, content in form.files:
        _check_size(name, content)
    return [Upload(name, content) for _, name, content in form.files]


def _check_size(name: str, content: bytes) -> None:
    if len(content) > LARGEST_FILE:
        found = f"found {len(content):,}"
        raise InputError(f"{name} must have at most {LARGEST_FILE:,} bytes ({found}): reduce the image")


def _decoded(text: str, i: int) -> bytes:
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"image {i} is not valid base64: encode the bytes of an image file") from None
    _check_size(f"image {i}", content)
    return content


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _text(value: bytes | None, what: str) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise MalformedError(f"the {what} is not valid UTF-8: encode it") from None


def _file_name(value: bytes | None, i: int) -> str:
    """Return the last part of a file's name, to show it. It never names a file of the server."""
    name = (value or b"").decode(errors="replace").replace("\\", "/").rpartition("/")[2].strip()
    return name[-LONGEST_NAME:] if name and is_text(name) else f"image {i}"
