"""Every recipe is a whole run: its job builds, its sets open with the published lists, and it starts from its name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earsight import registry
from earsight.cli import main
from earsight.config import Inputs, Optim
from earsight.data.clips import ClipSet, open_set
from earsight.data.sets import flickr_soundnet, toybox
from earsight.encoders.base import Encoders, no_start_weights
from earsight.media.write import write_png, write_wav
from earsight.methods.base import build
from earsight.recipes import RECIPES, Recipe
from earsight.recipes.published import COMPARED, SETTINGS
from earsight.report import published
from earsight.training.job import Job

NEEDING = [recipe for recipe in RECIPES.values() if recipe.data]
PUBLISHED = [recipe for recipe in NEEDING if not recipe.on.startswith("coco_esc:")]
SPECS = sorted({spec for recipe in PUBLISHED for spec in (recipe.on, *recipe.tests)})
XML = "<a><one><bbox><who>1</who><v>64</v><v>0</v><v>192</v><v>128</v></bbox></one></a>"


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the published lists, boxes for every annotated clip of Flickr, and a vggsound.csv."""
    data = tmp_path_factory.mktemp("data")
    (data / "metadata").symlink_to(shared / "metadata")
    (data / "Annotations").mkdir()
    for split in ("supervised", "test"):
        for id in flickr_soundnet.ids(split, data):
            (data / "Annotations" / f"{id}.xml").write_text(XML)
    (data / "vggsound.csv").write_text("aaaaaaaaaaa,1,dog barking,train\nbbbbbbbbbbb,2,cat purring,test\n")
    return data


@cache
def opened(spec: str, folder: Path) -> ClipSet:
    return open_set(spec, folder)


def test_every_method_has_a_recipe_and_every_recipe_a_method() -> None:
    assert {recipe.method for recipe in NEEDING} == set(registry.names("method"))


def test_every_method_that_learns_has_a_recipe_for_each_setting_of_the_paper() -> None:
    """Comparison, weak supervision on Flickr, and the open set."""
    for name in registry.names("method"):
        with no_start_weights():
            module = registry.load("method", name)
            learns = bool(build(name, smallest(module.Config()), Inputs(image_size=32, resize=32)).stages(1))
        there = {setting for setting in SETTINGS if f"{name}_{setting}" in RECIPES}
        assert there == (set(SETTINGS) if learns else set()), name


def smallest(config: Any) -> Any:
    fields = {key: value for key, value in vars(config).items() if isinstance(value, Encoders)}
    small = {key: replace(value, image="small", audio="small", width=4) for key, value in fields.items()}
    return replace(config, **small)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_gives_a_job_that_can_be_written_down_and_read_back(recipe: Recipe) -> None:
    job = recipe()
    module = registry.load("method", recipe.method)
    assert (job.method, job.on, job.data) == (recipe.method, recipe.on, "")
    assert type(job.config) is module.Config
    assert Job.from_json(json.loads(json.dumps(job.to_json())), module.Config) == job
    assert recipe.source
    assert recipe.name.startswith(recipe.method)


@pytest.mark.parametrize("spec", SPECS)
def test_the_sets_of_recipes_open_with_the_published_lists(spec: str, folder: Path) -> None:
    clips = opened(spec, folder)
    assert clips.name == spec
    assert len(clips) > 0


def test_what_is_tested_has_boxes_and_no_training_clip_of_the_open_set_is_unheard(folder: Path) -> None:
    for spec in sorted({spec for recipe in PUBLISHED for spec in recipe.tests}):
        assert any(row.boxes for row in opened(spec, folder).rows)
    labels = [{row.label for row in opened(f"vggss:{split}", folder).rows} for split in ("heard", "unheard")]
    assert [len(one) for one in labels] == [110, 110]
    assert not labels[0] & labels[1]


def test_ground_truth_is_used_where_the_list_is_annotated_and_nowhere_else(folder: Path) -> None:
    annotated = {on: sum(bool(row.boxes) for row in opened(on, folder).rows) for on in {r.on for r in PUBLISHED}}
    assert set(annotated.values()) == {0, 4750}
    for recipe in PUBLISHED:
        assert (recipe().supervision.weight > 0) == (annotated[recipe.on] > 0), recipe.name


@pytest.mark.parametrize("one", COMPARED, ids=lambda one: one.method)
def test_methods_are_compared_in_one_setting(one: Any) -> None:
    for setting in SETTINGS:
        job = RECIPES[f"{one.method}_{setting}"]()
        assert (job.inputs, job.optim, job.protocol) == (Inputs(), Optim(), "official")
        assert job.val == ""


def test_methods_are_compared_in_one_budget_on_coco_esc() -> None:
    recipes = [recipe for recipe in NEEDING if recipe not in PUBLISHED]
    assert {recipe.method for recipe in recipes} == set(registry.names("method"))
    jobs = [recipe() for recipe in recipes]
    assert len({(job.inputs, replace(job.optim, epochs=60), job.on, job.val) for job in jobs}) == 1
    with no_start_weights():
        for job in jobs:
            stages = build(job.method, smallest(job.config), Inputs()).stages(job.optim.epochs)
            assert sum(stage.epochs for stage in stages) in (0, 59, 60), job.method


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def named_tables(source: str) -> set[str]:
    """The tables that a source names.

    >>> sorted(named_tables("SLAVC paper, Tables 2 and 3; stoneMo/SLAVC")), named_tables("SLAVC paper, Table 4a")
    (['table2', 'table3'], {'table4'})
    """
    words = re.findall(r"Tables? (\d(?:(?:, | and )\d)*)", source)
    return {f"table{number}" for word in words for number in re.findall(r"\d", word)}


def test_tables_have_the_runs_that_name_them() -> None:
    for recipe in RECIPES.values():
        semi = recipe.on.endswith(":semi")
        for name in named_tables(recipe.source):
            cells = [cell for cell in published.table(name).cells if cell.method.endswith("(semi-supervised)") == semi]
            rows = {plain(re.split(r",| \(", cell.method)[0]): cell.trained_on for cell in cells}
            assert plain(recipe.method) in rows, recipe.name
            assert semi or rows[plain(recipe.method)] in ("", recipe.on), recipe.name


def test_every_row_of_the_tables_that_train_something_has_its_recipe() -> None:
    for name in ("table2", "table3", "table6", "table7"):
        sources = [recipe for recipe in NEEDING if name in named_tables(recipe.source)]
        for cell in published.table(name).cells:
            if "OGL" in cell.method and cell.method != "OGL":  # a prior that is added when a run is measured
                continue
            semi = cell.method.endswith(" (semi-supervised)")
            method = plain(cell.method.removesuffix(" (semi-supervised)"))
            found = [r for r in sources if plain(r.method) == method and r.on.endswith(":semi") == semi]
            assert found, (name, cell.method)
            assert {spec for r in found for spec in r.tests} >= {cell.set} or name == "table2"


def test_the_ablations_are_those_of_table_4() -> None:
    parts = [re.findall(r"Table 4(\w)", recipe.source) for recipe in RECIPES.values()]
    ours = sorted(part for found in parts for part in found)
    theirs = {cell.row for cell in published.table("table4").cells}
    # Each part has one row with default settings, which is slavc_vggsound144k.
    assert len(ours) == len(theirs) - 4
    start = RECIPES["slavc_vggsound144k"]()
    for recipe in RECIPES.values():
        if "Table 4" in recipe.source:
            job = recipe()
            changed = [key for key, value in vars(job.config).items() if value != getattr(start.config, key)]
            plain = ["decompose", "pooling", "audio_term", "infer"]
            assert changed in (["visual_dropout"], ["audio_dropout"], ["momentum"], plain, ["infer"])
            assert replace(job, config=start.config) == start


@pytest.mark.parametrize("recipe", NEEDING, ids=lambda recipe: recipe.name)
def test_a_run_starts_from_its_recipes_name_and_a_folder(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Job] = []

    def stand_in(job: Job, out: Path, **flags: Any) -> Path:
        asked.append(job)
        return out / "weights.safetensors"

    monkeypatch.setattr("earsight.training.loop.train", stand_in)
    run = str(tmp_path / "run")
    assert main(["train", "--recipe", recipe.name, "--data", str(tmp_path), "--out", run]) == 0
    assert asked == [replace(recipe(), data=str(tmp_path))]


TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "4", "--method.encoders.weights", "random"),
    *("--inputs.image-size", "32", "--inputs.resize", "36", "--inputs.rate", "8000", "--inputs.seconds", "0.5"),
    *("--inputs.window", "128", "--inputs.hop", "64", "--optim.epochs", "1", "--optim.batch-size", "4"),
    *("--device", "cpu"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", [recipe.name for recipe in NEEDING if recipe.on.endswith(":semi")])
def test_annotated_clips_are_learned_from(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for part in ("frames", "audio", "Annotations"):
        (tmp_path / part).mkdir()
    for id in range(101, 109):
        write_png(tmp_path / "frames" / f"{id}.png", random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
        write_wav(tmp_path / "audio" / f"{id}.wav", random.uniform(-0.5, 0.5, 8000).astype(np.float32), 8000)
    for id in (101, 102, 107, 108):
        (tmp_path / "Annotations" / f"{id}.xml").write_text(XML)
    (tmp_path / "flickr_10k.txt").write_text("".join(f"{id}\n" for id in range(101, 107)))
    (tmp_path / "flickr_sup_train.txt").write_text("101\n102\n107\n108\n")
    out = tmp_path / "run"
    assert main(["train", "--recipe", name, "--data", str(tmp_path), "--out", str(out), *TINY]) == 0
    logged = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert any("loss_supervised" in str(line) for line in logged)


@pytest.mark.slow
def test_the_open_set_can_be_tried_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 8))
    run = str(tmp_path / "run")
    args = ["train", "--recipe", "slavc_toybox", "--on", "toybox:train_heard", "--val", "none", "--out", run]
    assert main([*args, *TINY]) == 0
    assert main(["eval", run, "--on", "toybox:heard", "toybox:unheard", "--audio", "real", "--device", "cpu"]) == 0
