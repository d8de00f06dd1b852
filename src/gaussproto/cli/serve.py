"""The command `serve`, which opens the studio in the browser and serves programs."""

from __future__ import annotations

import os
from typing import Annotated

from typer import Option

from gaussproto.cli import console
from gaussproto.errors import import_extra

STORE_HELP = (
    "File or URL of the store, e.g. postgresql+psycopg://user@host/name. Default: an SQLite file in your data folder."
)
TOKEN_HELP = (
    "Secret that every request must carry. By default, one is generated and printed if other machines can reach the "
    "server."
)
HOST_HELP = "Another name of this server, e.g. behind a reverse proxy. Can be repeated."


def serve(
    host: Annotated[
        str, Option(help="Address to listen on. 0.0.0.0 lets other machines in, with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on. 0 chooses a free one.", min=0, max=65535)] = 8000,
    store: Annotated[str | None, Option(metavar="URL", help=STORE_HELP)] = None,
    token: Annotated[str | None, Option(help=TOKEN_HELP, envvar="GAUSSPROTO_TOKEN")] = None,
    open_page: Annotated[
        bool | None, Option("--open/--no-open", help="Open the page in a browser. Default: if there is a screen.")
    ] = None,
    allow_host: Annotated[list[str] | None, Option(metavar="NAME", help=HOST_HELP)] = None,
    queue: Annotated[int, Option(help="Requests that may wait for the network; others get status 503.", min=1)] = 128,
) -> None:
    """Open the studio: draw a few symbols and watch the network tell them apart. Programs can use the same service.

    Nothing leaves this machine: by default, only programs on it can reach the server.
    """
    for package in ("fastapi", "uvicorn", "httptools", "python_multipart", "sqlalchemy"):
        import_extra(package, "serve")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # requests are small: other cores decode images
    from gaussproto.serving import server

    server.serve(host, port, store, token, allow_host or [], open_page, console.say, queue)
