"""The routes of the API: galleries, classes, examples, classify, embed and ready sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from gaussproto.data.picture import media_type
from gaussproto.errors import InputError
from gaussproto.serving.bodies import check_name, read_examples, read_form, read_queries
from gaussproto.serving.description import FILE, body_of, file_of
from gaussproto.serving.galleries import Galleries
from gaussproto.serving.gallery_files import download_headers
from gaussproto.serving.models import (
    Added,
    Answers,
    ChosenWeights,
    ClassOut,
    Embeddings,
    EncoderOut,
    ExampleChange,
    ExampleOut,
    ExamplesIn,
    GalleryChange,
    GalleryListed,
    GalleryOut,
    Id,
    ImagesIn,
    Model,
    NewClass,
    NewGallery,
    PlaneOut,
    SampleIn,
    SampleLoaded,
    SampleOut,
)
from gaussproto.serving.pictures import given_png, seen_png
from gaussproto.serving.rows import NotFoundError
from gaussproto.serving.worker import ABOUT, DEFAULT, check_encoder, encoder_names

if TYPE_CHECKING:
    from gaussproto.serving.samples import Loaded

LARGEST_VIEW = 1024  # pixels
REVALIDATE = {"cache-control": "private, no-cache"}  # the browser keeps a copy and asks if it is still right

router = APIRouter()


def galleries_of(request: Request) -> Galleries:
    found: Galleries = request.app.state.galleries
    return found


def as_json(model: Model, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(model.model_dump_json(by_alias=True), status, headers, "application/json")


async def made_json(
    opened: Galleries, make: Callable[[], Model], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return as JSON what `make` returns. Both can take long, so other requests go on meanwhile."""
    return await opened.decoding(lambda: as_json(make(), status, headers))


Opened = Annotated[Galleries, Depends(galleries_of)]
ContentType = Annotated[str, Header(include_in_schema=False)]
IfNoneMatch = Annotated[str, Header()]


@router.get("/encoders")
def encoders() -> list[EncoderOut]:
    """List the encoders that a gallery can use here."""
    return [
        EncoderOut(name=name, about=ABOUT.get(name, f"The weights {name}."), default=name == DEFAULT)
        for name in encoder_names()
    ]


@router.get("/galleries")
async def galleries(opened: Opened) -> list[GalleryListed]:
    """List the galleries, the one that changed last first."""
    rows = await opened.in_store(opened.store.list_galleries)
    fields = GalleryListed.model_fields
    return [GalleryListed(**{name: getattr(row, name) for name in fields}) for row in rows]


@router.post("/galleries", status_code=201, response_model=GalleryOut)
async def create_gallery(opened: Opened, new: NewGallery) -> Response:
    """Create an empty gallery."""
    encoder = check_encoder(new.encoder)
    gallery = await opened.in_store(opened.store.create_gallery, new.name, encoder, {}, new.reject)
    return await made_json(opened, partial((await opened.open(gallery)).whole, "precision"), 201)


@router.post("/galleries/open", status_code=201, response_model=GalleryOut, openapi_extra=FILE)
async def open_gallery(opened: Opened, request: Request, content_type: ContentType = "") -> Response:
    """Create a gallery from a gallery file, which `gaussproto enroll` writes. Its examples have no images."""
    body = await request.body()
    form = await opened.decoding(read_form, content_type, body, {"name"}, {"file"})
    if len(form.files) != 1:
        raise InputError(f"the request must have one `file`, a gallery file (found {len(form.files)})")
    _, file_name, content = form.files[0]
    name = check_name(form.texts["name"], "name") if form.texts.get("name") else None
    gallery = await opened.create_from(content, file_name, name)
    return await made_json(opened, partial((await opened.open(gallery)).whole, "precision"), 201)


@router.get("/galleries/{gallery}", response_model=GalleryOut, responses={304: {"description": "It has not changed."}})
async def whole_gallery(
    opened: Opened, gallery: Id, weights: ChosenWeights = "precision", if_none_match: IfNoneMatch = ""
) -> Response:
    """Return a gallery with its classes and examples."""
    found = await opened.open(gallery)
    tag = f'"{found.version}-{found.encoder.digest[:8]}-{weights}"'
    if tag in if_none_match:
        return Response(status_code=304, headers={"etag": tag} | REVALIDATE)
    return await made_json(opened, partial(found.whole, weights), headers={"etag": tag} | REVALIDATE)


@router.patch("/galleries/{gallery}", response_model=GalleryOut)
async def change_gallery(opened: Opened, gallery: Id, change: GalleryChange) -> Response:
    """Change the name or the share of known images that may be rejected."""
    values = {name: getattr(change, name) for name in change.model_fields_set}
    await opened.changed(gallery, opened.store.change_gallery, **values)
    return await made_json(opened, partial((await opened.open(gallery)).whole, "precision"))


@router.delete("/galleries/{gallery}", status_code=204)
async def delete_gallery(opened: Opened, gallery: Id, forever: bool = False) -> None:
    """Delete a gallery with its classes and examples. It can be restored for a day, unless `forever` is true."""
    await opened.changed(gallery, opened.store.delete_gallery, forever)


@router.post("/galleries/{gallery}/restore", response_model=GalleryOut)
async def restore_gallery(opened: Opened, gallery: Id) -> Response:
    """Restore a deleted gallery. The last ten can be restored."""
    await opened.changed(gallery, opened.store.restore_gallery)
    return await made_json(opened, partial((await opened.open(gallery)).whole, "precision"))


@router.post("/galleries/{gallery}/classes", status_code=201)
async def create_class(opened: Opened, gallery: Id, new: NewClass) -> ClassOut:
    """Create a class without examples."""
    return ClassOut(id=await opened.changed(gallery, opened.store.add_class, new.name), name=new.name)


@router.patch("/galleries/{gallery}/classes/{class_id}")
async def rename_class(opened: Opened, gallery: Id, class_id: Id, new: NewClass) -> ClassOut:
    """Rename a class."""
    await opened.changed(gallery, opened.store.rename_class, class_id, new.name)
    return ClassOut(id=class_id, name=new.name)


@router.delete("/galleries/{gallery}/classes/{class_id}", status_code=204)
async def delete_class(opened: Opened, gallery: Id, class_id: Id) -> None:
    """Delete a class with its examples."""
    await opened.changed(gallery, opened.store.delete_class, class_id)


@router.post(
    "/galleries/{gallery}/examples",
    status_code=201,
    response_model=Added,
    openapi_extra=body_of(ExamplesIn, **{"class": {"type": "string", "minLength": 1, "maxLength": 100}}),
)
async def add_examples(opened: Opened, gallery: Id, request: Request, content_type: ContentType = "") -> Response:
    """Add examples, all or none. Classes that do not exist are created."""
    ids = await opened.add(gallery, partial(read_examples, content_type, await request.body()))
    found = await opened.open(gallery)
    examples = await opened.decoding(found.examples, "precision")
    kept = [examples[i] for i in ids if i in examples]  # another client may have deleted one already
    return as_json(Added.model_construct(version=found.version, examples=kept), 201)


@router.get(
    "/galleries/{gallery}/examples/{example}/image",
    response_class=Response,
    responses=file_of("image/png", "image/*") | {304: {"description": "It has not changed."}},
)
async def image(
    opened: Opened, gallery: Id, example: Id, size: Annotated[int, Query(ge=8, le=LARGEST_VIEW)] = 96,
    view: Literal["given", "seen", "original"] = "given", if_none_match: IfNoneMatch = "",
) -> Response:  # fmt: skip
    """Return the image of an example as PNG, as it came or as the network sees it, or the original file."""
    look = (await opened.open(gallery)).encoder.look
    row = await opened.in_store(opened.store.image, gallery, example)
    tag = f'"{example}-{row.damage:g}-{view}-{size}"'
    if tag in if_none_match:
        return Response(status_code=304, headers={"etag": tag} | REVALIDATE)
    if row.image is None:
        raise NotFoundError("this example has no image: it came from a gallery file")
    headers = {"etag": tag} | REVALIDATE
    if view == "original":
        kind = await opened.decoding(media_type, row.image, row.name)
        return Response(row.image, 200, headers | {"content-disposition": "attachment"}, kind)
    if view == "seen":
        content = await opened.decoding(seen_png, row.image, row.name, row.damage, look)
    else:
        content = await opened.decoding(given_png, row.image, row.name, row.damage, size, look)
    return Response(content, 200, headers, "image/png")


@router.patch("/galleries/{gallery}/examples/{example}", response_model=ExampleOut)
async def change_example(opened: Opened, gallery: Id, example: Id, change: ExampleChange) -> Response:
    """Move an example to another class, rename it, or damage its image."""
    columns = {"class_id": "class", "damage": "damage", "name": "name"}
    values = {columns[name]: getattr(change, name) for name in change.model_fields_set}
    await opened.change_example(gallery, example, values)
    found = (await opened.decoding((await opened.open(gallery)).examples, "precision")).get(example)
    if found is None:
        raise NotFoundError("another client has deleted the example: look at the gallery again")
    return as_json(found)


@router.delete("/galleries/{gallery}/examples/{example}", status_code=204)
async def delete_example(opened: Opened, gallery: Id, example: Id) -> None:
    """Delete an example. Its class stays, even if it is empty then."""
    await opened.changed(gallery, opened.store.delete_example, example)


@router.post("/galleries/{gallery}/classify", response_model=Answers, openapi_extra=body_of(ImagesIn))
async def classify(
    opened: Opened, gallery: Id, request: Request, top: Annotated[int, Query(ge=1, le=1000)] = 5,
    weights: ChosenWeights = "precision", nearest: Annotated[int, Query(ge=0, le=100)] = 3, plane: bool = False,
    content_type: ContentType = "",
) -> Response:  # fmt: skip
    """Classify images by the examples of a gallery."""
    read = partial(read_queries, content_type, await request.body())
    answers = await opened.classify(gallery, read, weights, top, nearest, plane)
    return as_json(answers) if len(answers.answers) == 1 else await made_json(opened, lambda: answers)


@router.get("/galleries/{gallery}/plane", response_model=PlaneOut)
async def plane(opened: Opened, gallery: Id, weights: ChosenWeights = "precision") -> Response:
    """Return the examples and prototypes in the plane in which the embeddings vary most."""
    found = await opened.open(gallery)
    return await made_json(opened, partial(found.on_plane, weights))


@router.post("/embed", response_model=Embeddings, openapi_extra=body_of(ImagesIn))
async def embed(
    opened: Opened, request: Request, encoder: Annotated[str, Query(max_length=100)] = DEFAULT,
    content_type: ContentType = "",
) -> Response:  # fmt: skip
    """Embed images with an encoder."""
    read = partial(read_queries, content_type, await request.body())
    (x, s), _ = await opened.embed(check_encoder(encoder), read)

    def embeddings() -> Embeddings:
        precisions = None if s is None else s.tolist()
        return Embeddings.model_construct(encoder=encoder, embeddings=x.tolist(), precisions=precisions)

    return await made_json(opened, embeddings)


@router.get("/galleries/{gallery}/file", response_class=Response, responses=file_of("application/octet-stream"))
async def gallery_file(opened: Opened, gallery: Id) -> Response:
    """Return the gallery file, as `gaussproto enroll` writes it."""
    headers = download_headers((await opened.open(gallery)).stored.gallery.name, ".gallery")
    return Response(await opened.file(gallery), 200, headers, "application/octet-stream")


@router.get("/galleries/{gallery}/examples.zip", response_class=Response, responses=file_of("application/zip"))
async def examples_zip(opened: Opened, gallery: Id) -> Response:
    """Return the images of the examples as a zip of CLASS/NAME.png files."""
    file = await opened.zipped(gallery)
    headers = download_headers((await opened.open(gallery)).stored.gallery.name, ".zip")
    chunks = iter(lambda: file.read(1 << 16), b"")
    return StreamingResponse(chunks, 200, headers, "application/zip", BackgroundTask(file.close))


@router.get("/samples")
async def samples(opened: Opened) -> list[SampleOut]:
    """List the ready sets of drawings."""

    def listed() -> list[SampleOut]:
        from gaussproto.serving.samples import list_samples  # waits for torch, which the model thread imports

        return list_samples()

    return await opened.decoding(listed)


@router.post("/galleries/{gallery}/samples", status_code=201)
async def load_samples(opened: Opened, gallery: Id, chosen: SampleIn) -> SampleLoaded:
    """Add examples of a ready set. Also return further drawings to try."""

    def load() -> Loaded:
        from gaussproto.serving.samples import load_sample

        return load_sample(chosen.id, chosen.classes, chosen.shots)

    loaded = await opened.decoding(load)
    await opened.add(gallery, lambda: loaded.examples)
    return SampleLoaded(version=(await opened.open(gallery)).version, queries=loaded.queries)
