"""The commands `data` and `presets`: what there is to train on, and the named runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json, complete_data, complete_preset
from gaussproto.config import SECTIONS, DataConfig, EpisodeConfig
from gaussproto.errors import InputError
from gaussproto.presets import PRESETS, preset
from gaussproto.setting_words import setting_words


def data(
    name: Annotated[
        str | None, typer.Argument(help="omniglot, strokes, or a folder.", autocompletion=complete_data)
    ] = None,
    data_root: DataRoot = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read Omniglot's files again and compare them.")] = False,
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet of the images to this PNG file.")] = None,
    json: Json = False,
) -> None:
    """Show where the data is; with a name, fetch it if needed, check it and count it."""
    from gaussproto.data import omniglot as source
    from gaussproto.data.cache import cache_folder
    from gaussproto.data.load import load_data
    from gaussproto.data.sheet import contact_sheet
    from gaussproto.files import write_then_rename

    if verify and name != "omniglot":
        raise InputError("--verify compares Omniglot's files: say `gaussproto data omniglot --verify`")
    if sheet and name is None:
        raise InputError("--sheet draws images of some data: name it, such as `gaussproto data strokes --sheet FILE`")
    found: dict[str, Any] = {"cache": str(cache_folder())}
    if name is None:
        for part in source.PARTS.values():
            path = source.find(part, data_root)
            found[part.name] = str(path) if path else None
        if json:
            return console.print_json(found)
        rows = [
            [what, str(where or "not here yet: `gaussproto data omniglot` fetches it")] for what, where in found.items()
        ]
        return console.print_table("", ["", "where"], [*rows, ["strokes", "drawn when needed"]])

    with console.progress_bars() as bars:
        if verify:
            for part in source.PARTS.values():
                source.decode_verified(part, source.find_or_fetch(part, data_root, bars), 28, bars)
            found["verified"] = True
        split = load_data(DataConfig(data=name), data_root, bars)
    if sheet:
        if sheet.suffix.lower() != ".png":
            raise InputError(f"the contact sheet is a PNG picture: name a file that ends in .png (found {sheet})")
        with write_then_rename(sheet) as temporary:
            contact_sheet(split.test).save(temporary, format="png", optimize=True)
        found["sheet"] = str(sheet)
    for part_name, images in split._asdict().items():
        found[part_name] = {
            "alphabets": len(set(images.alphabets)),
            "classes": images.way,
            "images": len(images),
            "size": list(images.images.shape[1:]),
        }
    if json:
        return console.print_json({"data": name} | found)
    rows = [
        [part, *(f"{found[part][key]:,}" for key in ("alphabets", "classes", "images")), str(found[part]["size"])]
        for part in ("train", "test")
    ]
    console.print_table(name, ["split", "alphabets", "classes", "images", "channels, H, W"], rows, right=1)
    if verify:
        console.say("verified: names, counts and pixels are those of Omniglot")
    return None


def presets(
    name: Annotated[
        str | None, typer.Argument(help="Show every setting of this one.", autocompletion=complete_preset)
    ] = None,
    json: Json = False,
) -> None:
    """List the named runs, or every setting of one."""
    if name is not None:
        tree = preset(name).model_dump(mode="json")
        if json:
            return console.print_json(tree)
        rows = [
            [section, key, setting_words(key, value)] for section in SECTIONS for key, value in tree[section].items()
        ]
        return console.print_table(f"{name}: {tree['about']}", ["section", "setting", "value"], rows)
    if json:
        return console.print_json({name: run.about for name, run in PRESETS.items()})
    rows = [
        [run.name, run.about, str(run.network.embedding_dim), _episode_words(run.episode), f"{run.training.episodes:,}"]
        for run in PRESETS.values()
    ]
    return console.print_table("", ["preset", "what", "D", "episode", "episodes"], rows, right=4)


def _episode_words(episode: EpisodeConfig) -> str:
    shot = f"{episode.shot}-{episode.max_shot}" if episode.max_shot else str(episode.shot)
    return f"{episode.way}-way {shot}+{episode.query}"
