"""The commands `data` and `presets`, which show the data sets and the named runs."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gaussproto.cli import console
from gaussproto.cli.options import DataRoot, Json, complete
from gaussproto.config import BUILT_IN, CIFAR_FS, SECTIONS, DataConfig
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename
from gaussproto.presets import PRESETS, preset
from gaussproto.setting_types import setting_text


def data(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="Data to load: omniglot, strokes, cifar-fs, a folder of CLASS/IMAGE files, or your own as "
            "module:function.",
            autocompletion=complete(BUILT_IN),
        ),
    ] = None,
    data_root: DataRoot = None,
    verify: Annotated[
        bool,
        Option("--verify", help="Read the files of omniglot or cifar-fs again and compare them with those published."),
    ] = False,
    sheet: Annotated[Path | None, Option(help="Write a picture of some of the images to this PNG file.")] = None,
    json: Json = False,
) -> None:
    """Show where the data is stored, or load the data NAME (download it if needed) and count its classes and images."""
    from gaussproto.data import cifar
    from gaussproto.data import omniglot as source
    from gaussproto.data.cache import cache_folder
    from gaussproto.data.load import load_data
    from gaussproto.data.sheet import contact_sheet

    if verify and name not in ("omniglot", CIFAR_FS):
        raise InputError("--verify can only check the files of omniglot and cifar-fs: name one of them")
    if sheet and name is None:
        raise InputError("--sheet needs the name of the data: run for example `gaussproto data strokes --sheet FILE`")
    found: dict[str, Any] = {"cache": str(cache_folder())}
    if name is None:
        for part in source.PARTS.values():
            path = source.find(part, data_root)
            found[part.name] = str(path) if path else None
        photos = cifar.find(data_root)
        found["cifar100"] = str(photos) if photos else None
        if json:
            return console.print_json(found)
        fetch = "not found: `gaussproto data {}` downloads it"
        missing = {name: fetch.format(CIFAR_FS if name == "cifar100" else "omniglot") for name in found}
        rows = [[name, where or missing[name]] for name, where in found.items()]
        return console.print_table("", ["", "where"], [*rows, ["strokes", "drawn when needed"]])

    with console.progress_bars() as bars:
        if verify and name == CIFAR_FS:
            cifar.cifar_fs("train", data_root, bars, renew=True)
            found["verified"] = True
        elif verify:
            source.omniglot("train", data_root=data_root, progress=bars, renew=True)
            source.omniglot("test", data_root=data_root, progress=bars, renew=True)
            found["verified"] = True
        split = load_data(DataConfig(data=name), data_root, bars)
    if sheet:
        if sheet.suffix.lower() != ".png":
            raise InputError(f"--sheet must end in .png (found {sheet}): change its name")
        with write_then_rename(sheet) as temporary:
            contact_sheet(split.test).save(temporary, format="png", optimize=True)
        found["sheet"] = str(sheet)
    rows = []
    for side, images in split._asdict().items():
        counts = {"alphabets": len(set(images.alphabets)), "classes": images.way, "images": len(images)}
        size = list(images.images.shape[1:])
        found[side] = counts | {"size": size}
        rows.append([side, *(f"{count:,}" for count in counts.values()), " x ".join(map(str, size))])
    if json:
        return console.print_json({"data": name} | found)
    console.print_table(name, ["split", "alphabets", "classes", "images", "channels x H x W"], rows, right=1)
    return console.say(f"verified: the names, counts and pixels are those of {name}") if verify else None


def presets(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="Preset, config.json or run folder whose settings to list.",
            autocompletion=complete(PRESETS),
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the presets (named runs), or all settings of one preset."""
    if name is not None:
        tree = preset(name).model_dump(mode="json")
        if json:
            return console.print_json(tree)
        rows = [[part, key, setting_text(key, value)] for part in SECTIONS for key, value in tree[part].items()]
        return console.print_table(f"{name}: {tree['about']}", ["section", "setting", "value"], rows)
    if json:
        return console.print_json({name: run.about for name, run in PRESETS.items()})
    rows = [[run.name, run.about, f"{run.training.episodes:,}"] for run in PRESETS.values()]
    console.print_table("", ["preset", "what", "episodes"], rows, right=2, whole=1)
    return console.say("`gaussproto presets NAME` lists all settings of a preset")
