"""The application: the API under /api/v1, the page at /, and the description of the API at /docs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from gaussproto.errors import InputError
from gaussproto.provenance import version
from gaussproto.serving.bodies import NOT_JSON, MalformedError, WrongTypeError
from gaussproto.serving.description import describe, described_page, methods_of
from gaussproto.serving.galleries import Galleries
from gaussproto.serving.metrics import TYPE, Metrics
from gaussproto.serving.models import ExamplesIn, Failure, Health, ImagesIn, Ready
from gaussproto.serving.routes import router
from gaussproto.serving.rows import ConflictError, NotFoundError
from gaussproto.serving.safety import API, Access, Guard, failure
from gaussproto.serving.store import Store
from gaussproto.serving.worker import BusyError, Worker
from gaussproto.setting_types import first_problem

STATIC = Path(__file__).parent / "static"
STATUS: dict[type[Exception], int] = {NotFoundError: 404, ConflictError: 409, WrongTypeError: 415, MalformedError: 400}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": text}
    for status, text in (
        (400, "The request cannot be read."),
        (401, "The token is missing or wrong."),
        (404, "It does not exist."),
        (409, "It does not fit what is stored."),
        (413, "The body is too large."),
        (415, "The body has another type."),
        (422, "Something in the request is not valid."),
        (503, "The server is busy."),
    )
}
SENTENCES = {
    400: NOT_JSON,
    404: "there is nothing at this path: see /docs",
    405: "this path does not take this method: see /docs",
}
NO_PAGE = "<!doctype html><title>gaussproto</title><p>The page of the studio is not installed. The API is at /docs."


def create_app(store: Store, worker: Worker, access: Access) -> ASGIApp:
    """Return the whole application."""
    galleries = Galleries(store, worker)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.close()
        galleries.close()
        store.close()  # here, because a signal ends the process as soon as uvicorn has stopped

    app = FastAPI(
        title="gaussproto", version=version(), lifespan=running, docs_url=None, redoc_url=None, openapi_url=None,
        summary="Few-shot image classification with Gaussian prototypes.",
    )  # fmt: skip
    app.state.galleries = galleries
    app.include_router(router, prefix=API, responses=ERRORS)
    metrics = Metrics(Guard(app, access))
    _add_state(app, galleries, metrics)
    _add_errors(app)
    _add_pages(app)
    return metrics


def _add_state(app: FastAPI, galleries: Galleries, metrics: Metrics) -> None:
    store, worker = galleries.store, galleries.worker

    @app.get(f"{API}/health")
    async def health() -> Health:
        """Tell that the server runs."""
        return Health(version=version())

    @app.get(f"{API}/ready", responses={503: ERRORS[503]})
    async def ready() -> Ready:
        """Tell whether the server can classify: the network is loaded and the store answers."""
        if not worker.ready:
            raise BusyError
        await galleries.in_store(store.check)
        return Ready()

    @app.get(f"{API}/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def counts() -> Response:
        """Return counts of requests and of the model's work, as Prometheus reads them."""
        return Response(metrics.text(worker), media_type=TYPE)


def _add_errors(app: FastAPI) -> None:
    """Answer every error with one sentence."""

    def answer(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
        return Response(failure(sentence), status, {"cache-control": "no-store"} | (headers or {}), "application/json")

    @app.exception_handler(InputError)
    async def input_error(_: Request, error: InputError) -> Response:
        return answer(STATUS.get(type(error), 422), str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        kind, found = error.errors()[0]["type"], request.headers.get("content-type", "")
        if kind == "json_invalid":
            return answer(400, NOT_JSON)
        if kind == "model_attributes_type" and not found.startswith("application/json"):
            return answer(415, f"the content type must be application/json (found {found[:100]!r})")
        return answer(422, f"the request is not valid ({first_problem(cast(ValidationError, error))}): see /docs")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        status, allowed = error.status_code, methods_of(app.openapi(), request.url.path)
        if status in (404, 405) and allowed:  # the page, which is mounted at /, answers for paths of the API too
            status, headers["allow"] = 405, ", ".join(allowed)
        return answer(status, SENTENCES.get(status, str(error.detail)), headers)

    @app.exception_handler(BusyError)
    async def busy(_: Request, __: BusyError) -> Response:
        return answer(503, "the server is busy: try again in a moment", {"retry-after": "1"})

    @app.exception_handler(DBAPIError)
    @app.exception_handler(PoolTimeout)
    async def store_error(_: Request, error: Exception) -> Response:
        logging.getLogger("uvicorn.error").error("the store failed: %s", error)
        return answer(503, "the store does not answer: try again in a moment", {"retry-after": "5"})

    @app.exception_handler(Exception)
    async def bug(_: Request, __: Exception) -> Response:
        return answer(500, "something went wrong in the server: its log says what")


class _Page(StaticFiles):
    """The files of the page. The browser keeps them and asks if they are still right."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers["cache-control"] = "no-cache"
        return response


def _add_pages(app: FastAPI) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            drafted = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            app.openapi_schema = describe(drafted, (ExamplesIn, ImagesIn))
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    @app.get(f"{API}/openapi.json", include_in_schema=False)
    async def description() -> dict[str, Any]:
        return openapi()

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(described_page(openapi()))

    @app.get("/docs.css", include_in_schema=False)
    async def docs_css() -> Response:
        return Response((STATIC.parent / "docs.css").read_bytes(), media_type="text/css")

    if (STATIC / "index.html").exists():
        app.mount("/", _Page(directory=STATIC, html=True))
    else:

        @app.get("/", include_in_schema=False)
        async def no_page() -> HTMLResponse:
            return HTMLResponse(NO_PAGE)
