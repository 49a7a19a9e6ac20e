"""Maps in files: the same maps out of every form, in batches of one resolution, and written so that they come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from earsight import mapfile
from earsight.errors import DataError, UsageError
from earsight.mapfile import MapFile, open_maps, write_maps
from earsight.types import MapArrays

Array = npt.NDArray[np.float32]
IDS = ["b", "a/x", "c+d", "é 1"]


def some_maps(count: int = 4, side: int = 5) -> Array:
    return np.random.default_rng(0).normal(size=(count, side, side)).astype(np.float32)


def everything(file: MapFile, size: int = 3) -> dict[str, Array]:
    batches = [(at, maps.dense) for at, maps in file.batches(size=size)]
    return {file.ids[i]: one for at, many in batches for i, one in zip(at, many, strict=True)}


def as_table(folder: Path, maps: Array) -> Path:
    np.savez(folder / "table.npz", id=np.array(IDS), maps=maps)
    return folder / "table.npz"


def as_packed_table(folder: Path, maps: Array) -> Path:
    np.savez_compressed(folder / "packed.npz", id=np.array(IDS), maps=maps)
    return folder / "packed.npz"


def as_members(folder: Path, maps: Array) -> Path:
    np.savez(folder / "members.npz", **dict(zip(IDS, maps, strict=True)))  # type: ignore[arg-type]
    return folder / "members.npz"


def as_folder(folder: Path, maps: Array) -> Path:
    for id, one in zip(IDS, maps, strict=True):
        path = folder / "folder" / f"{id}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, one)
    return folder / "folder"


FORMS = [as_table, as_packed_table, as_members, as_folder]
MIXED = [as_members, as_folder]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_every_form_gives_the_maps_that_went_in(form: Callable[..., Path], size: int, tmp_path: Path) -> None:
    maps = some_maps()
    file = open_maps(form(tmp_path, maps))
    assert sorted(file.ids) == sorted(IDS)
    assert len(file) == 4
    assert file.bounds is None
    assert file.confidence is None
    found = everything(file, size)
    for id, one in zip(IDS, maps, strict=True):
        assert found[id].tobytes() == one.tobytes()


@pytest.mark.parametrize("form", FORMS)
def test_only_what_is_wanted_is_read(form: Callable[..., Path], tmp_path: Path) -> None:
    maps = some_maps()
    maps[1] = np.nan  # would be refused
    file = open_maps(form(tmp_path, maps))
    wanted = [file.ids.index("b"), file.ids.index("c+d")]
    got = [at for some, _ in file.batches(wanted, 1) for at in some]
    assert got == sorted(wanted)
    assert list(file.batches([])) == []


@pytest.mark.parametrize("form", MIXED)
def test_resolutions_may_differ_where_each_clip_has_its_own_array(form: Callable[..., Path], tmp_path: Path) -> None:
    sides = [(3, 4), (7, 7), (3, 4), (1, 1)]
    maps = [np.full(side, i, np.float32) for i, side in enumerate(sides)]
    file = open_maps(form(tmp_path, maps))
    batches = [([file.ids[at] for at in some], tuple(maps.dense.shape)) for some, maps in file.batches()]
    assert sorted(shape for _, shape in batches) == [(1, 1, 1), (1, 7, 7), (2, 3, 4)]
    assert sorted(next(ids for ids, shape in batches if shape == (2, 3, 4))) == ["b", "c+d"]


def test_what_waits_for_its_batch_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapfile, "BYTES", 200)
    monkeypatch.setattr(mapfile, "WAITING", 300)
    maps = {f"{i:02d}": np.zeros((1 + i % 3, 10), np.float32) for i in range(30)}  # 40, 80 and 120 bytes
    np.savez(tmp_path / "x.npz", **maps)  # type: ignore[arg-type]
    got = [(len(some), maps.dense.nbytes) for some, maps in open_maps(tmp_path / "x.npz").batches()]
    assert sum(count for count, _ in got) == 30
    assert max(size for _, size in got) <= 320


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16", ">f4", "float64"])
def test_numbers_of_any_kind_become_float32(kind: str, tmp_path: Path) -> None:
    maps = np.array([[[0, 1], [1, 0]]]).astype(kind)
    np.savez(tmp_path / "x.npz", id=np.array(["a"]), maps=maps)
    np.savez(tmp_path / "y.npz", a=maps[0])
    for name in ("x.npz", "y.npz"):
        found = everything(open_maps(tmp_path / name))["a"]
        assert found.dtype == np.float32
        assert found.tolist() == [[0, 1], [1, 0]]


def test_a_map_in_fortran_order_is_read_the_right_way_round(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert everything(open_maps(tmp_path / "x.npz"))["a"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_maps_that_are_not_finite_are_named(form: Callable[..., Path], value: float, tmp_path: Path) -> None:
    maps = some_maps()
    maps[2, 1, 1] = value
    file = open_maps(form(tmp_path, maps))
    with pytest.raises(
        DataError, match=r"Expected finite maps, but got NaN or infinity in the map of 'c\+d' in .*Correct it"
    ):
        everything(file)


def test_a_number_too_large_for_float32_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.array([[1.0, -1e300]]))
    with pytest.raises(DataError, match=r"but got -1e\+300, which is too large for float32, in the map of 'a'"):
        everything(open_maps(tmp_path / "x.npz"))


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    dense = some_maps()
    maps = MapArrays(dense[:, :2], dense, (-1.0, 1.5), np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    path = tmp_path / "new" / "maps.npz"
    write_maps(path, IDS, maps)
    file = open_maps(path)
    assert file.ids == tuple(IDS)
    assert file.bounds == (-1.0, 1.5)
    ((at, back),) = file.batches()
    assert at == [0, 1, 2, 3]
    assert np.array_equal(back.dense, dense)
    assert back.confidence is not None
    assert np.array_equal(back.confidence, maps.confidence)  # type: ignore[arg-type]
    assert back.bounds == (-1.0, 1.5)
    assert [path.name for path in path.parent.iterdir()] == ["maps.npz"]
    first = path.read_bytes()
    write_maps(path, IDS, maps)
    assert path.read_bytes() == first
    assert np.load(path, allow_pickle=False)["maps"].dtype == np.float32


def test_unbounded_maps_without_confidence_come_back_so(tmp_path: Path) -> None:
    dense = some_maps()
    write_maps(tmp_path / "maps", IDS, MapArrays(dense, dense))  # the name is kept as it is
    file = open_maps(tmp_path / "maps")
    assert (file.bounds, file.confidence) == (None, None)


def test_ids_must_fit_the_maps_that_are_written(tmp_path: Path) -> None:
    dense = np.zeros((2, 3, 3), np.float32)
    for ids in (["a"], ["a", "a"]):
        with pytest.raises(ValueError, match=r"Expected 2 different ids, but got"):
            write_maps(tmp_path / "x.npz", ids, MapArrays(dense, dense))
    assert not list(tmp_path.iterdir())


def test_bounds_come_from_the_call_first_and_then_from_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "table.npz", id=np.array(["a"]), maps=np.zeros((1, 2, 2)), bounds=np.array([0, 2]))
    np.savez(tmp_path / "members.npz", a=np.zeros((2, 2)), __bounds__=np.array([0.0, 2.0]))
    for name in ("table.npz", "members.npz"):
        file = open_maps(tmp_path / name)
        assert file.ids == ("a",)
        assert file.bounds == (0.0, 2.0)
        assert open_maps(tmp_path / name, (-1, 1)).bounds == (-1.0, 1.0)
        assert next(open_maps(tmp_path / name, (-1, 1)).batches())[1].bounds == (-1.0, 1.0)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_bounds_out_of_order_are_refused(bounds: tuple[float, float], tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", a=np.zeros((2, 2)))
    with pytest.raises(UsageError, match=r"Expected bounds as two numbers, the lower first, but got .*--bounds -1 1"):
        open_maps(tmp_path / "good.npz", bounds)
    np.savez(tmp_path / "bad.npz", a=np.zeros((2, 2)), __bounds__=np.array(bounds))
    with pytest.raises(DataError, match=r"Expected bounds as two numbers in .*, the lower first, but got"):
        open_maps(tmp_path / "bad.npz")


def test_what_is_no_file_of_maps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected a file or folder of maps, but there is nothing at .*Check the path"):
        open_maps(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name, got in (("text.npz", "something else"), ("empty.npz", "an empty file")):
        with pytest.raises(DataError, match=rf"Expected an .npz file or a folder .* but got {got} in .*{name}"):
            open_maps(tmp_path / name)
    np.save(tmp_path / "one.npy", np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"but got a single array without ids in .*Save it with np.savez"):
        open_maps(tmp_path / "one.npy")
    np.savez(tmp_path / "nothing.npz")
    (tmp_path / "folder").mkdir()
    for name in ("nothing.npz", "folder"):
        with pytest.raises(DataError, match=r"Expected maps in .*, but got none. Save one map"):
            open_maps(tmp_path / name)
