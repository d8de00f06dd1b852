"""The OpenAPI description of the API, and the page /docs that shows it without loading anything from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from gaussproto.serving.models import Model

METHODS = ("get", "post", "patch", "delete")
FILE = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "string", "format": "binary"}, "name": {"type": "string"}},
                    "required": ["file"],
                    "additionalProperties": False,
                }
            }
        },
    }
}
FILES = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}


def describe(document: dict[str, Any], models: tuple[type[Model], ...]) -> dict[str, Any]:
    """Complete the description that FastAPI makes.

    It lacks the models of bodies that the routes read themselves, and it describes invalid requests with a model of its
    own, which this API does not use.
    """
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for model in models:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    for path in document["paths"].values():
        for operation in path.values():
            if "422" in operation["responses"]:
                operation["responses"]["422"]["content"] = failure
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{}, {"token": []}]
    return document


def body_of(model: type[Model], **texts: Any) -> dict[str, Any]:
    """Return the description of a body that is JSON, or multipart with files."""
    form = {
        "type": "object",
        "properties": {**texts, "files": FILES},
        "required": [*texts, "files"],
        "additionalProperties": False,
    }
    json_schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {"application/json": {"schema": json_schema}, "multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def file_of(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the description of a response that is a file."""
    return {200: {"content": {each: {"schema": {"type": "string", "format": "binary"}} for each in media_types}}}


def methods_of(document: dict[str, Any], path: str) -> list[str]:
    """Return the methods that a path takes.

    >>> methods_of({"paths": {"/a/{b}": {"get": {}, "delete": {}}, "/a": {"post": {}}}}, "/a/1")
    ['DELETE', 'GET']
    """
    names = [path] if path in document["paths"] else list(document["paths"])
    fits = [name for name in names if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name), path)]
    return sorted({method.upper() for name in fits for method in document["paths"][name]})


def described_page(document: dict[str, Any]) -> str:
    """Return the description as an HTML page."""
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]
    return environment.get_template("docs.html").render(
        info=document["info"], operations=operations, schemas=document["components"]["schemas"], kind=kind_of
    )


def kind_of(schema: dict[str, Any]) -> str:
    """Return the type of a schema in a few words.

    >>> kind_of({"type": "array", "items": {"$ref": "#/components/schemas/Answer"}})
    'list of Answer'
    >>> kind_of({"anyOf": [{"type": "number"}, {"type": "null"}]})
    'number or null'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(kind_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if "const" in schema:
        return repr(schema["const"])
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(map(kind_of, schema["prefixItems"])) + "]"
        return f"list of {kind_of(schema.get('items', {}))}"
    if schema.get("format") == "binary":
        return "file"
    limits = {
        "minimum": "from {}",
        "maximum": "up to {}",
        "minLength": "at least {} long",
        "maxLength": "at most {} long",
    }
    words = [text.format(schema[key]) for key, text in limits.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), *words])
