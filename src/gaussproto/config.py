"""The configuration of a run, saved as `config.json`. The options of `gaussproto train` are its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, model_validator
from pydantic.fields import FieldInfo

from gaussproto.errors import InputError, did_you_mean, is_unicode, visible
from gaussproto.files import read_json
from gaussproto.setting_types import FILTERS, damage_text, first_problem, setting_text, stretch
from gaussproto.settings import BUILT_IN as BUILT_IN
from gaussproto.settings import CIFAR_FS as CIFAR_FS
from gaussproto.settings import DRAWN as DRAWN
from gaussproto.settings import GIVEN as GIVEN
from gaussproto.settings import DataConfig as DataConfig
from gaussproto.settings import Frozen, look_of
from gaussproto.settings import NetworkConfig as NetworkConfig
from gaussproto.training_settings import LARGEST_SEED as LARGEST_SEED
from gaussproto.training_settings import EpisodeConfig as EpisodeConfig
from gaussproto.training_settings import Stage as Stage
from gaussproto.training_settings import TrainingConfig as TrainingConfig


class RunConfig(Frozen):
    """All settings that determine the result of a run: data, network, episode and training.

    Use `preset` to start from a named run, and `override` to change settings.

    Attributes:
        name: name of the run, and of its folder by default.
        about: what the run is, in a few words.
        data: settings of the images.
        network: settings of the network.
        episode: settings of a training episode.
        training: settings of the training.

    Examples:
        >>> import gaussproto as gp
        >>> config = gp.RunConfig(name="mine").override(way=20, covariance="diagonal", episodes=100)
        >>> config.episode.way, config.network.covariance, config.training.episodes
        (20, 'diagonal', 100)
    """

    name: str
    about: str = ""
    data: DataConfig = DataConfig()
    network: NetworkConfig = NetworkConfig()
    episode: EpisodeConfig = EpisodeConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check(self) -> RunConfig:
        for text in (self.name, self.about, self.data.data, self.training.init or "", *self._classes()):
            if not is_unicode(text):
                raise ValueError(f"{visible(text)} is not valid UTF-8: rename it")
        if self.data.channels != self.network.channels:
            raise ValueError(
                f"the images have {self.data.channels} channels, but the network takes {self.network.channels}: set "
                "both to the same number"
            )
        blocks = len(self.network.filters or FILTERS["small"]) + 1
        if self.network.encoder in FILTERS and self.data.image_size < 2**blocks:
            raise ValueError(
                f"image_size must be at least {2**blocks} (found {self.data.image_size}), because each of the {blocks} "
                "blocks halves the image: use fewer filters or larger images"
            )
        crop = self.training.random_crop
        if crop > self.data.image_size or (self.network.encoder in FILTERS and 0 < crop < 2**blocks):
            raise ValueError(
                f"random_crop must be 0 or from {2**blocks} to the image size {self.data.image_size} (found {crop})"
            )
        side = crop or self.data.image_size
        left = -(-side // 2**blocks)
        if self.network.grid > max(left, 1):
            raise ValueError(
                f"grid must be at most {left} (found {self.network.grid}), because {blocks} blocks leave {left} x "
                f"{left} of {side} x {side} pixels: choose a smaller grid, fewer filters or larger images"
            )
        return self

    @property
    def folder(self) -> Path:
        """The folder of the run if the user names none. Raise InputError if the name would lead elsewhere."""
        if self.name in ("", ".", "..") or {*self.name} & {*"/\\"} or self.name != visible(self.name):
            raise InputError(f"the name of the run must be a file name (found {self.name!r}): change it, or pass --out")
        return Path("runs") / self.name

    def _classes(self) -> tuple[str, ...]:
        split = self.data.split
        return () if split is None else (*(split.train or ()), *split.test)

    def variant(self, name: str, about: str, **settings: Any) -> RunConfig:
        """Return a run with another name and description, and with settings changed as by `override`."""
        return self.override(**settings).model_copy(update={"name": name, "about": about})

    def with_data(self, data: DataConfig) -> RunConfig:
        """Return the same run on other data."""
        config = parse_config(self.model_dump() | {"data": data.model_dump()})
        return config if data.data == self.data.data else config.with_changes(data=data.data)

    def lengthened_as(self, other: RunConfig) -> RunConfig:
        """Return this run with a longer last stage, so that it has as many episodes as `other`.

        Return it unchanged if `other` is not longer or has other stages.
        """
        stages, more = self.training.stages, other.training.episodes - self.training.episodes
        kinds = [[(stage.damage, stage.transform) for stage in run.training.stages] for run in (self, other)]
        if more <= 0 or kinds[0] != kinds[1]:
            return self
        last = stages[-1].model_copy(update={"episodes": stages[-1].episodes + more})
        training = self.training.model_copy(update={"stages": (*stages[:-1], last)})
        longer = self.model_copy(update={"training": training})
        return longer.with_changes(episodes=training.episodes)

    def with_changes(self, **changes: Any) -> RunConfig:
        """Return the run with the changed settings in `about`, because the preset's text may no longer be true."""
        if not changes:
            return self
        begin = f"{self.name} with "
        earlier = self.about.removeprefix(begin).split("; ") if self.about.startswith(begin) else []
        kept = [text for text in earlier if text.partition(" ")[0] not in changes]
        new = [f"{name} {setting_text(name, value)}".replace("; ", ", ") for name, value in changes.items()]
        return self.model_copy(update={"about": begin + "; ".join([*kept, *new])})

    def override(self, **settings: Any) -> RunConfig:
        """Return a run with some settings changed.

        Args:
            **settings: settings of any section by name, for example `way=20, seed=1`. `episodes` sets the total number
                of episodes and scales all stages. `damage` sets the damage of every stage.
        """
        tree, known = self.model_dump(), setting_fields()
        data = settings.get("data", self.data.data)
        if data != self.data.data and isinstance(data, str):
            settings = look_of(data, before=self.data.data) | settings
        if settings.get("encoder", self.network.encoder) != self.network.encoder:
            settings = {"filters": None, "residual": (), "grid": 1} | settings  # those of the previous encoder
        for name, value in settings.items():
            if name not in known:
                hint = did_you_mean(name, known, f"the settings are {', '.join(known)}")
                raise InputError(f"unknown setting {name!r}: {hint}")
            if name == "episodes":
                stretch(tree["training"]["stages"], value)
            elif name == "damage":
                tree["training"]["stages"] = [stage | {"damage": value} for stage in tree["training"]["stages"]]
            for section in SECTIONS:
                if name in tree[section]:
                    tree[section][name] = value
        if "init" in settings:
            tree["training"]["init_digest"] = None  # of the previous weights
        if tree["data"]["data"] != self.data.data and "split" not in settings:
            tree["data"]["split"] = None  # of the previous data
        config = parse_config(tree)
        values = {name: (_value(self, name), _value(config, name)) for name in settings}
        return config.with_changes(**{name: new for name, (old, new) in values.items() if new != old})


def _value(config: RunConfig, name: str) -> Any:
    """Return a setting as JSON stores it. `episodes` and `damage` cover all stages."""
    if name == "episodes":
        return config.training.episodes
    if name == "damage":
        return ", then ".join(dict.fromkeys(damage_text(stage.damage) for stage in config.training.stages))
    sections = config.model_dump(mode="json", include=set(SECTIONS)).values()
    return next(section[name] for section in sections if name in section)


SECTIONS: dict[str, type[BaseModel]] = {
    "data": DataConfig,
    "network": NetworkConfig,
    "episode": EpisodeConfig,
    "training": TrainingConfig,
}


def setting_fields() -> dict[str, FieldInfo]:
    """Return every setting that `override` and the command line accept, with its default and description."""
    fields = {name: field for section in SECTIONS.values() for name, field in section.model_fields.items()}
    del fields["stages"], fields["init_digest"]
    return fields | {name: Stage.model_fields[name] for name in ("episodes", "damage")}


def parse_config(tree: Any, path: Path | None = None) -> RunConfig:
    """Validate a tree of settings. Raise InputError with one sentence, which begins with `path` if it is not None."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        problem = first_problem(error)
        raise InputError(f"{path}: {problem}" if path else problem) from None


def read_config(path: Path) -> RunConfig:
    return parse_config(read_json(path), path)
